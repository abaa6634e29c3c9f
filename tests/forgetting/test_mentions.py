"""A name is found wherever it stands in a text, and in the stored form of that text."""

import json

import pytest

from memory_worker.gate import Names

TEXTS = [
    "Zenny likes tea",
    "Be kind.\nZenny likes tea",
    "one\tZenny",
    'she said "Zenny"',
    "ZENNY'S tea",
    "Zénny came",
    "(zenny)",
]
"""Texts that mention somebody called Zenny."""


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_name_is_found_in_a_text_and_in_its_json(text: str, escaped: bool) -> None:
    """Line breaks, quotes, accents and escapes hide no name, also where a document lies inside a document."""
    names = Names(["Zenny"])
    stored = json.dumps({"content": text}, ensure_ascii=escaped)
    assert names.within(text)
    assert names.within_json(stored.encode())
    assert names.within_json(json.dumps({"args": stored}, ensure_ascii=escaped).encode())


@pytest.mark.parametrize("text", ["Zennyx likes tea", "the frenzenny", "May is a month"])
def test_part_of_a_word_is_no_mention(text: str) -> None:
    """Only whole words count."""
    names = Names(["Zenny"])
    assert not names.within(text)
    assert not names.within_json(json.dumps({"text": text}).encode())
