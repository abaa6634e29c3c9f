"""Analysis: documents and queries meet in the same terms, in every script and for every way to write a name."""

import pytest

from memory_worker.recall.analysis import detect, fold, terms_of
from memory_worker.recall.minilm import CLS, SEP, Tokenizer
from memory_worker.recall.surfaces import Surfaces, one_edit


def meet(document: str, query: str) -> bool:
    """Tell whether a query has a term of a document."""
    return bool(set(terms_of(document)) & set(terms_of(query)))


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("We pinned Flask-Login to v0.6.2", "flask_login"),
        ("We pinned Flask-Login to v0.6.2", "FlaskLogin"),
        ("We pinned Flask-Login to v0.6.2", "login"),
        ("We pinned Flask-Login to v0.6.2", "0.6.2"),
        ("The column user_id is required", "userId"),
        ("Limits live in src/gateway/limits.py", "limits.py"),
        ("See https://example.org/a/b?c=1", "https://example.org/a/b?c=1"),
        ("Mail billing@acme.example", "billing@acme.example"),
        ("It costs $1,200 a year", "1200"),
        ("It answers in 250ms", "250 ms"),
        ("The wi-fi is slow", "wifi"),
        ("Written in C++", "c++"),
        ("The café closed", "cafe"),
        ("Müller wohnt in Görlitz", "muller gorlitz"),
        ("She bought shoes", "buying a shoe"),
        ("There are twelve eggs", "12"),
        ("Caroline's adoption", "caroline"),
        ("I don't eat meat", "not meat"),
        ("彼は猫が好きです", "猫"),
        ("고양이를 좋아해요", "고양이는"),
        ("แม่เปิดร้านกาแฟ", "ร้านกาแฟ"),
        ("Мой брат живёт в Перми", "брата"),
        ("أعيش في القاهرة", "القاهرة"),
        ("הכלב שלי", "כלב"),
        ("मेरी बहन दिल्ली में है", "दिल्ली"),
        ("Meine Schwestern wohnen hier", "Wo ist meine Schwester"),
        ("Launched 🦄", "🦄"),
    ],
)
def test_a_query_meets_what_it_means(document: str, query: str) -> None:
    """However it is written, an identifier, number or word of any script finds itself."""
    assert meet(document, query)


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("Written in JavaScript", "Java"),
        ("Martha lives here", "Marta"),
        ("Error 502", "503"),
        ("What is it and who are they?", "how was she there"),
    ],
)
def test_a_query_does_not_meet_its_neighbour(document: str, query: str) -> None:
    """A longer name, a near-miss, another number and stop words are no match."""
    assert not meet(document, query)


def test_folding_keeps_the_vowel_signs_of_other_scripts() -> None:
    """Accents go from Latin letters; vowel signs of Devanagari and Thai stay, they are letters there."""
    assert fold("ÀÉÎöü ß") == "aeiou ss"
    assert fold("दिल्ली") == "दिल्ली"
    assert fold("ที่") == "ที่"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where does Ana live?", "english"),
        ("¿Dónde vive la hermana de Ana?", "spanish"),
        ("Wo wohnt meine Schwester und wie heißt sie?", "german"),
        ("Где живёт мой брат", "russian"),
        ("富士山の高さは？", "other"),
        ("Porto", "english"),
    ],
)
def test_the_language_is_read_from_script_and_stop_words(text: str, language: str) -> None:
    """Script and stop words tell the language; a single unknown word counts as English."""
    assert detect(text) == language


def test_one_edit_is_one_insertion_deletion_substitution_or_swap() -> None:
    """Two edits are never one."""
    assert one_edit("piano", "pianno")
    assert one_edit("piano", "pian")
    assert one_edit("piano", "pieno")
    assert one_edit("piano", "paino")
    assert not one_edit("piano", "paion")
    assert not one_edit("piano", "piano")


def test_two_words_that_are_both_right_are_no_typo_of_each_other() -> None:
    """“Martha” is not a misspelled “Marta”, but “kuberntes” is a misspelled “kubernetes”."""
    surfaces = Surfaces()
    for word in ("martha", "kubernetes"):
        surfaces.add(word, word)
    assert surfaces.near("marta") == []
    assert surfaces.near("kuberntes") == ["kubernetes"]
    assert surfaces.near("gubernetes") == []


def test_the_sentence_models_tokens_are_those_of_bert() -> None:
    """Words are cut into the longest known pieces between the marks of beginning and end."""
    tokenizer = Tokenizer([CLS, SEP, "[UNK]", "hello", "play", "##ing", "!"])
    assert tokenizer.encode("Hello playing! ☃") == [0, 3, 4, 5, 6, 2, 1]
