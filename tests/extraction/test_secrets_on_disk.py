"""A secret that somebody types, or a model repeats, is in no file of the tenant afterwards, nor in the log."""

from pathlib import Path

import pytest

from tests.extraction.planted import PLANTED, sentence
from tests.extraction.test_secrets import value
from tests.extraction.world import World, reply, said, turn, world_at

SECRETS = [(kind, secret) for kind, secret in PLANTED if "\n" not in secret]


def found_on_disk(directory: Path) -> list[str]:
    """The planted values whose bytes are in any file below a directory."""
    blob = b"".join(file.read_bytes() for file in directory.rglob("*") if file.is_file())
    return [value(kind, secret) for kind, secret in SECRETS if value(kind, secret).encode() in blob]


async def told(world: World) -> None:
    """Say every secret, in the user's and in the assistant's messages, one turn each, beside something to keep."""
    await world.publish(
        *[
            turn(
                f"t{n}", said(f"I live in Porto since {1950 + n}."), said(sentence(kind, secret)), ("assistant", secret)
            )
            for n, (kind, secret) in enumerate(SECRETS)
        ]
    )
    await world.settled()


async def test_the_rules_leave_no_secret_in_any_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Memories, journal, inbox and write-ahead log hold none after the turns are read."""
    async with world_at(tmp_path) as world:
        await told(world)
        kept = len(await world.live())

    assert kept == len(SECRETS)
    assert found_on_disk(tmp_path) == []
    logged = "".join(capfd.readouterr())
    assert [value(kind, secret) for kind, secret in SECRETS if value(kind, secret) in logged] == []


async def test_a_model_that_copies_secrets_leaves_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Items that carry a secret in text, quote, claim or tags are refused, and nothing of them is written."""
    items = [
        {
            "text": sentence(kind, secret),
            "quote": sentence(kind, secret),
            "message_id": f"t{n}-1",
            "kind": "fact",
            "tags": [secret[:100]],
            "claim": {"entity": "user", "property": "key", "value": secret[:100]},
        }
        for n, (kind, secret) in enumerate(SECRETS)
    ]
    async with world_at(tmp_path, router="required") as world:
        world.router.answers = [reply(*items)]
        await told(world)
        kept = await world.live()

    assert kept == {}
    assert found_on_disk(tmp_path) == []
    logged = "".join(capfd.readouterr())
    assert [value(kind, secret) for kind, secret in SECRETS if value(kind, secret) in logged] == []


async def test_a_parked_reply_holds_no_secret(tmp_path: Path) -> None:
    """What is kept of an unreadable reply is kept without the secrets in it, also when the turn stays parked."""
    secrets = " ".join(sentence(kind, secret) for kind, secret in SECRETS)
    async with world_at(tmp_path, router="required") as world:
        world.router.answers = [f"Here is all I know: {secrets}"]
        await world.publish(turn("t1", said("What do you know?")))
        status = await world.settled()

    assert status.parked[0].reason == "unreadable_reply"
    assert found_on_disk(tmp_path) == []
