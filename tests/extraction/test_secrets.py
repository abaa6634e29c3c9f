"""Secrets are found wherever they stand and never kept; what only looks like one is kept."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_contracts.turns import TurnMessage
from memory_worker.extraction import (
    MASK,
    Candidate,
    Checker,
    ReadMessage,
    RuleExtractor,
    find_secrets,
    mask_payload,
    mask_secrets,
    read_messages,
)
from memory_worker.extraction.model import raw_without_secrets
from memory_worker.extraction.secrets import is_card_number
from tests.extraction.planted import LOOK_ALIKES, PLANTED, sentence

VALUE_LAST = {"pin", "api key", "identity", "login", "bearer"}


def value(kind: str, secret: str) -> str:
    """The part of a planted secret that must not survive."""
    return secret.replace("=", " ").split()[-1] if kind in VALUE_LAST else secret


def read(text: str) -> list[TurnMessage]:
    """One user message."""
    return [TurnMessage(id="1", role="user", text=text)]


def test_the_suite_is_large_enough() -> None:
    """At least sixty secrets of at least twelve kinds, and sixty look-alikes."""
    assert len(PLANTED) >= 60
    assert len({kind for kind, _ in PLANTED}) >= 12
    assert len(LOOK_ALIKES) >= 60


@pytest.mark.parametrize(("kind", "secret"), PLANTED)
def test_a_secret_in_user_text_is_never_kept(kind: str, secret: str) -> None:
    """The statement that holds a secret is refused and counted, by the rules as by a model that copies it."""
    text = sentence(kind, secret)
    turn = read_messages(read(text))
    found = RuleExtractor().extract(turn.messages)
    copied = Candidate(text=text, kind="fact", quote=text, message_id="1", role="user", model="m")
    bare = Candidate(
        text=value(kind, secret), kind="fact", quote=value(kind, secret), message_id="1", role="user", model="m"
    )
    kept = Checker(turn).run([*found.items, *found.learned, copied, bare])

    assert kept.items == []
    assert kept.learned == []
    assert kept.refused.get("secret", 0) >= 1


@pytest.mark.parametrize(("kind", "secret"), PLANTED)
def test_a_secret_is_masked_in_a_turn_before_it_is_stored(kind: str, secret: str) -> None:
    """An event that is masked on its way in holds no byte of the secret, and stays a readable event."""
    payload = msgspec.json.encode(
        {"turn_id": "t", "messages": [{"id": "1", "role": "user", "text": sentence(kind, secret)}]}
    )
    masked = mask_payload(payload)

    assert value(kind, secret) not in msgspec.json.decode(masked)["messages"][0]["text"]
    assert MASK in msgspec.json.decode(masked)["messages"][0]["text"]


@pytest.mark.parametrize(("kind", "secret"), PLANTED)
def test_a_secret_in_a_model_reply_is_masked_before_it_is_parked(kind: str, secret: str) -> None:
    """A reply that cannot be read is kept without the secrets in it, escaped or not."""
    message = ReadMessage("1", "user", sentence(kind, secret))
    reply = f"Sure! {msgspec.json.encode({'said': sentence(kind, secret)}).decode()} and {sentence(kind, secret)}"
    raw = raw_without_secrets(reply, [message]).decode()

    assert value(kind, secret) not in raw


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_is_kept(text: str) -> None:
    """Hashes, versions, UUIDs, prices, ports, numbers and talk about passwords are no secrets."""
    turn = read_messages(read(text))
    found = RuleExtractor().extract(turn.messages)
    kept = Checker(turn).run([*found.items, *found.learned])

    assert find_secrets(text) == []
    assert [item.text for item in kept.items] == [text]


@pytest.mark.parametrize(
    ("number", "valid"),
    [
        ("4111111111111111", True),
        ("4111111111111112", False),
        ("378282246310005", True),
        ("1234567890123456", False),
        ("0000000000000000", False),
        ("79927398713", False),
    ],
)
def test_card_numbers_are_told_by_their_check_digit(number: str, valid: bool) -> None:
    """A number counts as a card only with a network's prefix and a valid Luhn sum (ISO/IEC 7812-1)."""
    assert is_card_number(number) is valid


def test_an_event_without_secrets_stays_byte_for_byte() -> None:
    """Masking touches nothing where there is nothing to mask."""
    payload = b'{"turn_id" : "t", "messages": [{"id": "1", "role": "user", "text": "I live in Rome"}]}'

    assert mask_payload(payload) == payload


def test_a_malformed_event_is_masked_as_text() -> None:
    """What cannot be decoded is parked with its bytes, but not with its secrets."""
    assert b"hunter2-Blue" not in mask_payload(b'{"text": "my password is hunter2-Blue"')


@given(st.text(max_size=300))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    """What is masked holds no secret that the same patterns would find."""
    masked, _ = mask_secrets(text)

    assert mask_secrets(masked)[0] == masked


@pytest.mark.parametrize("depth", [900, 50_000])
def test_a_deeply_nested_event_is_masked_as_text(depth: int) -> None:
    """What no reader follows to its end is masked all the same, and never stops whoever stores it."""
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    masked = mask_payload(b"[" * depth + b'"' + secret.encode() + b'"' + b"]" * depth)
    assert secret.encode() not in masked
    assert mask_payload(b"[" * depth) == b"[" * depth
