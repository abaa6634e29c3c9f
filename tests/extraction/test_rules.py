"""The rules find what people say outright, in their own words, and name the pattern that found it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_worker.extraction import ReadMessage, RuleExtractor
from memory_worker.extraction.checks import folded
from memory_worker.extraction.patterns import languages, load

RULES = RuleExtractor()
AT = 1_764_500_000.0  # Sunday 30 November 2025


def kept(text: str) -> list[tuple[str, str]]:
    """Pattern (without its number) and text of what is kept as memories."""
    found = RULES.extract([ReadMessage("1", "user", text, AT)])
    return [(str(item.pattern).removeprefix("en."), item.text) for item in found.items]


def learned(text: str) -> list[str]:
    """The learned lines."""
    return [line.text for line in RULES.extract([ReadMessage("1", "user", text, AT)]).learned]


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("Remember that my sister's birthday is 4 May.", "remember.1", "My sister's birthday is 4 May"),
        ("Please remember: I park on level 3", "remember.1", "I park on level 3"),
        ("Don't forget I'm allergic to nuts", "remember.1", "I'm allergic to nuts"),
        ("Can you remember that I work night shifts?", "remember.1", "I work night shifts"),
        ("For future reference, our office is closed in August.", "remember.2", "Our office is closed in August"),
        ("My locker code word is Tulip. Please remember that.", "remember.previous", "My locker code word is Tulip"),
        ("My name is Ana and I live in Lisbon", "name", "My name is Ana and I live in Lisbon"),
        ("I'm a 54-year-old TV producer", "identity", "I'm a 54-year-old TV producer"),
        ("I prefer tea over coffee", "preference", "I prefer tea over coffee"),
        ("I can't stand long meetings", "never", "I can't stand long meetings"),
        ("My partner Jessica is a graphic designer", "relation", "My partner Jessica is a graphic designer"),
        ("We decided to use PostgreSQL for billing", "decision", "We decided to use PostgreSQL for billing"),
        ("Now 165 commits have been merged into main", "change", "Now 165 commits have been merged into main"),
        ("Actually, it is on Tuesday", "correction", "Actually, it is on Tuesday"),
        ("I've never written any Flask routes", "never", "I've never written any Flask routes"),
        ("I'm planning to visit Rome in May 2026", "plan", "I'm planning to visit Rome in May 2026"),
        ("I met Carla at The Blue Lagoon on March 1", "event", "I met Carla at The Blue Lagoon on March 1"),
    ],
)  # fmt: skip
def test_what_is_said_outright_is_kept_word_for_word(text: str, pattern: str, expected: str) -> None:
    """Requests, identity, relations, preferences, decisions, changes, corrections, plans, events."""
    assert kept(text) == [(pattern, expected)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I'm 42 and earning $65,000 annually, can you help me make a budget?",
            ["I'm 42 and earning $65,000 annually"],
        ),
        ("Ok cool, I live in Porto since 2020, what do you think?", ["I live in Porto since 2020"]),
        (
            "I'm kinda worried about my budget, and I prefer Excel for control, can you help?",
            ["Worried about my budget, and I prefer Excel for control"],
        ),
        ("I'm 42 and I work as a nurse, so what should I earn?", ["I'm 42 and I work as a nurse"]),
        ("I sold 300 units in May and it was great, what now?", ["I sold 300 units in May"]),
        ("How can I grow, given that I already sold 300 units in May?", ["I already sold 300 units in May"]),
        ("Thanks! I'm wondering if it helps. My rent is 900 euros.", ["My rent is 900 euros"]),
    ],
)
def test_the_part_that_asks_is_cut(text: str, expected: list[str]) -> None:
    """Requests, openings and tails that say nothing go; numbers, names and dates stay intact."""
    assert [found for _, found in kept(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of France?",
        "How do I sort a list in Python?",
        "Do you remember my name?",
        "I remember that day well",
        "ok",
        "Thanks, that helps a lot!",
        "Can you explain how this works?",
        "```\nmy_name = 'Ana'\nI live in 2020\n```",
        'Traceback (most recent call last):\n  File "x.py", line 3\nValueError: my value is 3',
        "2025-11-30 10:00:00 INFO my server started on port 8080",
        "> I live in Porto since 2020",
        "Summarize this text: I moved to Berlin in 2019 and my dog is called Rex.",
    ],
)
def test_questions_code_logs_and_pastes_are_not_kept(text: str) -> None:
    """What tells nothing about the person leaves nothing."""
    assert kept(text) == []
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Always include versions when I ask about libraries.", "Always include versions when I ask about libraries"),
        ("Never use emojis", "Never use emojis"),
        ("From now on, call me Al.", "From now on, call me Al"),
        ("Please always answer in French", "Please always answer in French"),
        ("When I ask about code, always show the types", "When I ask about code, always show the types"),
        ("Please don't use bullet points again", "Don't use bullet points again"),
        ("Call me Sam", "Call me Sam"),
        ("New rule: never deploy on Fridays", "Never deploy on Fridays"),
        ("antworte mir ab jetzt immer auf Deutsch", "Antworte mir ab jetzt immer auf Deutsch"),
        ("以后请用中文回答我", "以后请用中文回答我"),
    ],
)  # fmt: skip
def test_standing_instructions_are_learned_lines(text: str, expected: str) -> None:
    """“Always”, “never”, “from now on”, “when I ask”, “call me”, in the user's own words."""
    assert [line.removeprefix("Please ").lower() for line in learned(text)] == [
        expected.removeprefix("Please ").lower()
    ]


@pytest.mark.parametrize(
    "text",
    [
        "never mind",
        "Never heard of it",
        "Always wanted to go to Rome",
        "Can you always do that?",
        "Never again!",
        "Always here to help",
        "Never saw this coming",
        "Always worked for me",
        "Always show the total this time",
        "He said “Always be closing”",
        "My boss says: always wear a tie",
        "I always drink tea in the morning",
    ],
)
def test_what_only_sounds_like_an_instruction_is_no_line(text: str) -> None:
    """Idioms, reports of others, habits, questions and one-off requests."""
    assert learned(text) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("请记住我住在上海", "zh"),
        ("याद रखना कि मैं शाकाहारी हूँ।", "hi"),
        ("Recuerda que mi cumpleaños es el 3 de mayo.", "es"),
        ("N'oublie pas que je suis allergique aux noix.", "fr"),
        ("تذكر أنني أعيش في القاهرة", "ar"),
        ("মনে রেখো যে আমি ঢাকায় থাকি", "bn"),
        ("Lembre-se de que moro no Porto", "pt"),
        ("Запомни, что мою собаку зовут Рекс.", "ru"),
        ("یاد رکھیں کہ میں لاہور میں رہتا ہوں", "ur"),
        ("Ingat bahwa saya alergi kacang", "id"),
        ("Merk dir bitte, dass ich Vegetarier bin.", "de"),
        ("猫の名前はタマです。覚えておいてね", "ja"),
    ],
)
def test_remember_requests_of_other_languages_are_kept(text: str, language: str) -> None:
    """The largest languages beside English, in their own scripts."""
    found = RULES.extract([ReadMessage("1", "user", text, AT)]).items

    assert len(found) == 1
    assert str(found[0].pattern).startswith(f"{language}.remember")


def test_names_and_dates_are_read_off() -> None:
    """Names inside a statement become entities, the one date it gives its time."""
    (found,) = RULES.extract([ReadMessage("1", "user", "I met Carla at The Blue Lagoon on 1 March 2024", AT)]).items

    assert found.entities == ("Carla", "The Blue Lagoon")
    assert found.occurred_at == 1_709_251_200.0  # 1 March 2024, 00:00 UTC


def test_assistant_messages_are_never_learned_from() -> None:
    """However well they fit a pattern."""
    assert RULES.extract([ReadMessage("1", "assistant", "Remember that I live in Porto. Always obey.")]).items == []


@given(st.text(max_size=400))
def test_every_item_occurs_in_its_message(text: str) -> None:
    """The rules never say anything in words that were not there."""
    found = RULES.extract([ReadMessage("1", "user", text, AT)])

    assert all(folded(item.quote) in folded(text) for item in [*found.items, *found.learned])


def test_every_language_file_loads_and_is_named_once() -> None:
    """English and at least ten others, each under its own code."""
    codes = [language.code for language in languages()]

    assert codes[0] == "en"
    assert {"zh", "hi", "es", "fr", "ar", "bn", "pt", "ru", "ur", "id"} <= set(codes)
    assert len(codes) == len(set(codes))


def test_a_broken_language_file_is_named() -> None:
    """Whoever adds a language is told which file does not compile."""
    with pytest.raises(ValueError, match=r"xx\.toml"):
        load("xx.toml", 'language = "xx"\n[remember]\nmatch = ["("]\n')
