"""The turn inbox: each session in order, no session in another's way, nothing lost over restarts and retries."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memory_worker.store import TenantStore, Transaction, inbox, migrations
from memory_worker.store.inbox import NewTurn

T = TypeVar("T")


async def test_inbox_takes_a_turn_once(store: TenantStore) -> None:
    """A turn is taken in once; what was in work when the process died waits again, with its attempt counted."""
    turn = NewTurn("t1", "s1", b"{}")
    assert await store.write(lambda tx: inbox.accept(tx, [turn, turn])) == 1
    assert await store.write(lambda tx: inbox.accept(tx, [turn])) == 0
    [claimed] = await store.write(lambda tx: inbox.claim(tx, 5, ()))
    assert claimed.attempts == 1
    assert await store.write(lambda tx: inbox.claim(tx, 5, ())) == []
    await store.write(inbox.recover)
    [claimed] = await store.write(lambda tx: inbox.claim(tx, 5, ()))
    assert claimed.attempts == 2


async def test_inbox_is_first_in_first_out_per_session(store: TenantStore) -> None:
    """One turn of a session is in work at a time, the oldest first; other sessions go on beside it."""
    turns = [NewTurn(f"t{n}", f"s{n % 2}", b"{}") for n in range(4)]
    await store.write(lambda tx: inbox.accept(tx, turns))
    claimed = await store.write(lambda tx: inbox.claim(tx, 5, ()))
    assert [one.turn_id for one in claimed] == ["t0", "t1"]
    await store.write(lambda tx: inbox.done(tx, "t0"))
    claimed = await store.write(lambda tx: inbox.claim(tx, 5, ()))
    assert [one.turn_id for one in claimed] == ["t2"]


async def test_done_turn_keeps_no_text(store: TenantStore) -> None:
    """The payload of a turn that was read is gone from the database."""
    await store.write(lambda tx: inbox.accept(tx, [NewTurn("t1", "s1", b"a secret conversation")]))
    await store.write(lambda tx: inbox.done(tx, "t1"))
    assert await store.readers.one("SELECT state, payload, raw, bytes FROM inbox") == ("done", None, None, 0)


async def test_a_long_session_holds_up_no_other(store: TenantStore) -> None:
    """However many turns stand behind one session, another session's turn is claimed beside its first."""
    turns = [NewTurn(f"long-{n}", "long", b"{}") for n in range(3_000)]
    await store.write(lambda tx: inbox.accept(tx, [*turns, NewTurn("other", "short", b"{}")]))
    claimed = await store.write(lambda tx: inbox.claim(tx, 5, ()))
    assert [one.turn_id for one in claimed] == ["long-0", "other"]


async def test_one_claim_takes_a_bounded_amount_of_text(store: TenantStore) -> None:
    """Large turns are claimed a few at a time, so that their text does not fill the memory."""
    big = b"x" * 9_000_000
    await store.write(lambda tx: inbox.accept(tx, [NewTurn(f"t{n}", f"s{n}", big) for n in range(4)]))
    claimed = await store.write(lambda tx: inbox.claim(tx, 64, ()))
    assert [one.turn_id for one in claimed] == ["t0", "t1"]


def test_turns_of_an_older_store_keep_their_order(tmp_path: Path) -> None:
    """A store from before turns were queued behind their session gives them in the order they came."""
    path = tmp_path / "old.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None)
    for number, sql in migrations.available():
        if number < 5:
            connection.executescript(sql)
            connection.execute(f"PRAGMA user_version={number:d}")
    for n in range(4):
        connection.execute(
            "INSERT INTO inbox (turn, session, state, received_at, next_at, payload) VALUES (?, ?, ?, 1, 1, x'7b7d')",
            (f"t{n}", f"s{n % 2}", "working" if n == 0 else "waiting"),
        )
    migrations.migrate(connection, path)
    tx = Transaction(connection, 10.0)
    inbox.recover(tx)
    order = []
    while claimed := inbox.claim(tx, 1, ()):
        order += [one.turn_id for one in claimed]
        inbox.done(tx, claimed[0].turn_id)
    connection.close()
    assert order == ["t0", "t1", "t2", "t3"]


class HandClock:
    """A clock that a test sets."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        """Unix seconds, UTC."""
        return self.seconds


class InboxMachine(RuleBasedStateMachine):
    """The inbox beside a plain list of what each session still has to be read."""

    @initialize()
    def begin(self) -> None:
        """Open an empty store."""
        self.folder = TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.clock = HandClock(1_000.0)
        self.made = 0
        self.unread: dict[str, list[str]] = {}
        self.due: dict[str, float] = {}
        self.working: dict[str, str] = {}
        self.parked: dict[str, str] = {}
        self.open()

    def open(self) -> None:
        """Open the store as a process does."""
        self.store = TenantStore("local", Path(self.folder.name) / "local", self.clock)
        self.wait_for(self.store.open())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a piece of asynchronous work."""
        return self.loop.run_until_complete(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run one writing function."""
        return self.wait_for(self.store.write(work))

    @rule(session=st.sampled_from("abc"), count=st.integers(1, 3))
    def accept(self, session: str, count: int) -> None:
        """Turns come in."""
        names = [f"t{self.made + n}" for n in range(count)]
        self.made += count
        self.write(lambda tx: inbox.accept(tx, [NewTurn(name, session, b"{}") for name in names]))
        for name in names:
            self.unread.setdefault(session, []).append(name)
            self.due[name] = self.clock.seconds

    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        """Time goes by."""
        self.clock.seconds += seconds

    @rule(limit=st.integers(1, 4))
    def claim(self, limit: int) -> None:
        """A claim takes the oldest turn of sessions that have none at work, where it is due, and no others."""
        claimed = self.write(lambda tx: inbox.claim(tx, limit, ()))
        free = {
            session: turns[0]
            for session, turns in self.unread.items()
            if turns and session not in self.working and self.due[turns[0]] <= self.clock.seconds
        }
        assert len(claimed) == min(limit, len(free))
        for one in claimed:
            assert free[one.session_id] == one.turn_id
            self.working[one.session_id] = one.turn_id

    @rule(data=st.data(), how=st.sampled_from(["done", "park", "wait", "retry"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        """A turn at work is read, set aside or put back."""
        if not self.working:
            return
        session = data.draw(st.sampled_from(sorted(self.working)))
        turn = self.working.pop(session)
        if how == "done":
            self.write(lambda tx: inbox.done(tx, turn))
        elif how == "park":
            self.write(lambda tx: inbox.park(tx, turn, "failed", None))
            self.parked[turn] = session
        else:
            back = inbox.wait if how == "wait" else inbox.retry
            self.due[turn] = self.clock.seconds + 30
            self.write(lambda tx: back(tx, turn, self.clock.seconds + 30, "router"))
            return
        self.unread[session].remove(turn)

    @rule(data=st.data(), every=st.booleans())
    def unpark(self, data: st.DataObject, every: bool) -> None:
        """Parked turns come back to their place in the session."""
        if not self.parked:
            return
        chosen = sorted(self.parked) if every else [data.draw(st.sampled_from(sorted(self.parked)))]
        assert self.write(lambda tx: inbox.unpark(tx, None if every else chosen)) == len(chosen)
        for turn in chosen:
            session = self.parked.pop(turn)
            self.due[turn] = self.clock.seconds
            self.unread[session] = sorted([*self.unread[session], turn], key=lambda name: int(name[1:]))

    @rule()
    def restart(self) -> None:
        """The process goes and comes back: what was at work waits again."""
        self.wait_for(self.store.close())
        self.working.clear()
        self.open()

    @invariant()
    def counts_agree(self) -> None:
        """The status counts what is unread, at work and parked."""
        if not hasattr(self, "store"):
            return
        status = self.wait_for(inbox.status(self.store.readers, 100))
        assert status.backlog == sum(map(len, self.unread.values()))
        assert status.working == len(self.working)
        assert {parked.turn_id for parked in status.parked} == set(self.parked)

    def teardown(self) -> None:
        """Close what was opened."""
        if hasattr(self, "store"):
            self.wait_for(self.store.close())
            self.loop.close()
            self.folder.cleanup()


TestInbox = InboxMachine.TestCase
TestInbox.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
