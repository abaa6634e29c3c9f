"""Reading everything back: the question in many languages, and the page that answers it."""

import pytest

from memory_worker.context import asks_for_everything, render_bank
from memory_worker.context.readback import languages
from tests.context.test_safe import memory

ASKED = [
    "What do you remember about me?",
    "what do you know about me",
    "Tell me everything you know about me.",
    "Hey, can you list everything you remember about me please?",
    "What have you stored about me?",
    "Do you remember anything about me?",
    "What's in your memory?",
    "Show me what you've saved about me",
    "I have a question. What do you remember about me? Thanks!",
    "Was weißt du über mich?",
    "Woran erinnerst du dich bei mir?",
    "Was hast du dir über mich gemerkt?",
    "Que sais-tu de moi ?",
    "Qu'as-tu retenu sur moi ?",
    "De quoi te souviens-tu à mon sujet ?",
    "¿Qué recuerdas de mí?",
    "Dime todo lo que sabes de mí",
    "O que você lembra sobre mim?",
    "Cosa ricordi di me?",
    "Wat weet je over mij?",
    "Co o mnie pamiętasz?",
    "Co si o mně pamatuješ?",
    "Vad minns du om mig?",
    "Что ты помнишь обо мне?",
    "Що ти пам'ятаєш про мене?",
    "Hakkımda ne hatırlıyorsun?",
    "ماذا تتذكر عني؟",
    "מה אתה זוכר עליי?",
    "तुम्हें मेरे बारे में क्या याद है?",
    "Apa yang kamu ingat tentang saya?",
    "Bạn nhớ gì về tôi?",
    "私について何を覚えていますか？",
    "你记得关于我的什么？",
    "나에 대해 뭘 기억하고 있어?",
]

NOT_ASKED = [
    "",
    "What do you remember about the API design?",
    "Do you remember what I said about Kafka?",
    "Remember that I like tea",
    "What do you know about me and Kafka?",
    "What do you know about my project?",
    "What do you know about memory leaks?",
    "What do you think about me switching jobs?",
    "Who am I meeting tomorrow?",
    "Was weißt du über Python?",
    "Que sais-tu de Paris ?",
    "¿Qué sabes de Madrid?",
    "你知道北京吗？",
    "私の猫の名前は？",
    "List all memory modules in the repo",
    "Please summarise this mail:\n"
    + "It was a long day. " * 20
    + "What do you remember about me? "
    + "Best wishes. " * 5,
]


@pytest.mark.parametrize("message", ASKED)
def test_the_question_for_everything_is_recognised(message: str) -> None:
    """Asked in any of these languages, with or without courtesies."""
    assert asks_for_everything(message)


@pytest.mark.parametrize("message", NOT_ASKED)
def test_a_question_for_something_is_not_one_for_everything(message: str) -> None:
    """A question about a matter, or the phrase inside something pasted, does not set off the list."""
    assert not asks_for_everything(message)


def test_more_than_ten_languages_are_known() -> None:
    """Each has its own phrases in the data file."""
    assert len(languages()) >= 20


def test_a_bank_is_read_back_by_tier_and_entity() -> None:
    """Every line has its date and says how sure it is; what a person said stands first."""
    page = render_bank(
        [
            memory("Ana may like jazz", 1, "inferred", "low"),
            memory("Ana lives in Porto", 2, "stated", entities=("Ana",)),
            memory("Ben has a boat", 3, "stated", entities=("Ben",), pinned=True),
            memory("The door was opened", 4, "observed", corroboration=3),
        ],
        4,
        "main",
    )
    assert page == (
        "All 4 memories in main:\n"
        "\n"
        "## What you told me\n"
        "### Ana\n"
        "- (2026-05-28, your words) Ana lives in Porto\n"
        "### Ben\n"
        "- (2026-05-28, your words, pinned) Ben has a boat\n"
        "\n"
        "## What I noticed\n"
        "### Other\n"
        "- (2026-05-28, reported by a sensor or system, said 3 times) The door was opened\n"
        "\n"
        "## What I wrote down myself; nothing has checked it\n"
        "### Other\n"
        "- (2026-05-28, unsure, unchecked, without a source) Ana may like jazz"
    )


def test_a_page_says_what_is_not_on_it() -> None:
    """A page of a longer list is not passed off as everything, and an empty bank says so."""
    assert render_bank([memory("Ana lives in Porto")], 17, "main").startswith("1 of 17 memories in main:")
    assert render_bank([], 0, "main") == "Nothing is remembered in main."
