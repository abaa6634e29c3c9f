"""The normal form that decides which wordings are the same text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_contracts.normal import FINGERPRINT_BYTES, fingerprint, normalise


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Ana likes tea", "  ana\tLIKES\n tea "),
        ("Ana likes tea", "“Ana likes tea!”"),
        ("Ana likes tea", "- Ana likes tea."),
        ("Ana likes tea", "Ana\u200b likes\ufeff tea"),
        ("Zoe\u0308 mag Tee", "Zoë mag Tee"),
        ("ＡＮＡ　likes tea", "ana likes tea"),
        ("Die Straße ist gesperrt", "DIE STRASSE IST GESPERRT"),
        ("Ана любит чай", "«АНА ЛЮБИТ ЧАЙ»"),
        ("アナはお茶が好き", "「アナはお茶が好き」。"),
        ("¿Ana toma té?", "Ana toma té"),
    ],
)
def test_same_text_has_one_fingerprint(left: str, right: str) -> None:
    """Case, width, composition, whitespace, invisible characters and outer punctuation make no second text."""
    assert fingerprint(left) == fingerprint(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("-5 °C in the cellar", "5 °C in the cellar"),
        ("the discount is 5%", "the discount is 5"),
        ("Ana writes C#", "Ana writes C"),
        (".env holds the keys", "env holds the keys"),
        ("--force is needed", "force is needed"),
        ("the shelf is 5'", 'the shelf is 5"'),
        ("the grade was B-", "the grade was B"),
        ("!!!", "???"),
        ("Ana manages Ben", "Ben manages Ana"),
        ("résumé", "resume"),
    ],
)
def test_marks_that_mean_something_stay(left: str, right: str) -> None:
    """Punctuation that belongs to a word, accents and word order are part of the text."""
    assert fingerprint(left) != fingerprint(right)


def test_normal_form_reads_as_expected() -> None:
    """The normal form is the folded text itself, without what stands outside it."""
    assert normalise('  "The café opens at 8:30."  ') == "the café opens at 8:30"


def test_fingerprint_is_128_bits_of_blake2b() -> None:
    """The fingerprint is a fixed 16-byte value, so that records written by another process agree."""
    assert FINGERPRINT_BYTES == 16
    assert fingerprint("Ana likes tea.").hex() == "c73a84519cbce4c19c10c9dffcc036d7"


@given(st.one_of(st.text(max_size=30), st.text(alphabet=" .-–—'\"5ax%*()!…¿ßİ\u0345", max_size=10)))
def test_normalising_twice_changes_nothing(text: str) -> None:
    """A normal form is its own normal form."""
    assert normalise(normalise(text)) == normalise(text)


@given(st.text(min_size=1, max_size=30))
def test_no_text_normalises_to_nothing(text: str) -> None:
    """Texts of punctuation alone keep it, so that they do not all become one text."""
    if any(not character.isspace() and character not in "\u00ad\u200b\u200e\u200f\u2060\ufeff" for character in text):
        assert normalise(text)
