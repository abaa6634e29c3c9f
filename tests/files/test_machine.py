"""Random lives of a store and its folder: writes, edits, renames, copies, removals, crashes, half-written files."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory_worker.files import FilesSettings
from memory_worker.files.format import parse_memory
from memory_worker.files.frontmatter import Unreadable
from tests.files.world import World

T = TypeVar("T")

WORDS = st.text(alphabet="abcdefghij", min_size=3, max_size=12)


class Crash(Exception):
    """The worker died here."""


class StoreAndFolder(RuleBasedStateMachine):
    """Every acknowledged write and every readable hand edit is in the store, in its history or among the suggestions.

    `said` holds every text that a person or the store was given and that nobody has taken back on purpose.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="machine-"))
        self.world = World(self.root / "local", settings=FilesSettings(batch_rows=3, vanish_min=5))
        self.said: set[str] = set()
        self.given_up: set[str] = set()
        """Ids of memories that somebody deleted, or whose file somebody removed or broke."""
        self.names = 0
        self.count = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(coroutine)

    def teardown(self) -> None:
        self.run(self.world.close())
        self.loop.close()
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        """Open an empty tenant."""
        self.run(self.world.open())

    def fresh(self, words: str) -> str:
        """Give a text nobody has used."""
        self.count += 1
        return f"{words} {self.count}."

    def files(self) -> list[Path]:
        """Give the memory files there are, by name."""
        folder = self.world.folder()
        return sorted(path for path in folder.rglob("*.md") if path.is_file()) if folder.is_dir() else []

    def give_up(self, path: Path) -> None:
        """Expect the memory of a file no longer to live."""
        with contextlib.suppress(Unreadable):
            self.given_up.add(parse_memory(path.read_bytes()).id or "")

    def readable(self, path: Path) -> str | None:
        """Give the text a file holds, None where it cannot be read."""
        try:
            return parse_memory(path.read_bytes()).text
        except Unreadable:
            return None

    # The store

    @rule(words=WORDS)
    def save(self, words: str) -> None:
        """Something is said."""
        text = self.fresh(words)
        self.run(self.world.save(text))
        self.said.add(text)

    @rule(data=st.data(), words=WORDS)
    def correct(self, data: st.DataObject, words: str) -> None:
        """Something is corrected in the store; the corrected text is history."""
        live = self.run(self.world.live())
        if live:
            memory = data.draw(st.sampled_from(live))
            text = self.fresh(words)
            self.run(self.world.update(memory, text=text))
            self.said.add(text)

    @rule(data=st.data())
    def say_again(self, data: st.DataObject) -> None:
        """Something is said again: its file changes without a new revision."""
        live = self.run(self.world.live())
        if live:
            self.world.moved.pass_(86_400)
            self.run(self.world.save(data.draw(st.sampled_from(live)).text))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Something is deleted in the store."""
        live = self.run(self.world.live())
        if live:
            memory = data.draw(st.sampled_from(live))
            self.run(self.world.delete(memory))
            self.given_up.add(memory.id)

    # The folder

    @rule(words=WORDS)
    def new_file(self, words: str) -> None:
        """A person writes a new file."""
        self.world.folder().mkdir(parents=True, exist_ok=True)
        text = self.fresh(words)
        self.names += 1
        (self.world.folder() / f"by hand {self.names}.md").write_text(text + "\n")
        self.said.add(text)

    @rule(data=st.data(), words=WORDS)
    def edit(self, data: st.DataObject, words: str) -> None:
        """A person changes the text of a file."""
        files = [path for path in self.files() if self.readable(path) is not None]
        if files:
            path = data.draw(st.sampled_from(files))
            old = self.readable(path)
            assert old is not None
            text = self.fresh(words)
            path.write_text(path.read_text().replace(old, text))
            # What a person overwrites before anybody has read it is theirs to lose.
            self.forget_unread(old)
            self.said.add(text)

    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        """A person renames a file, or moves it into a folder of the bank."""
        files = self.files()
        if files:
            self.names += 1
            name = data.draw(st.sampled_from([f"renamed {self.names}.md", f"sub/renamed {self.names}.md"]))
            target = self.world.folder() / name
            target.parent.mkdir(exist_ok=True)
            data.draw(st.sampled_from(files)).rename(target)

    @rule(data=st.data(), words=WORDS)
    def copy(self, data: st.DataObject, words: str) -> None:
        """A person copies a file, and changes the copy."""
        files = [path for path in self.files() if self.readable(path) is not None]
        if files:
            path = data.draw(st.sampled_from(files))
            old = self.readable(path)
            assert old is not None
            text = self.fresh(words)
            self.names += 1
            (self.world.folder() / f"copy {self.names}.md").write_text(path.read_text().replace(old, text))
            self.said.add(text)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """A person removes a file: what only that file held is theirs to lose."""
        files = self.files()
        if files:
            path = data.draw(st.sampled_from(files))
            text = self.readable(path)
            self.give_up(path)
            path.unlink()
            if text is not None:
                self.forget_unread(text)

    @rule(data=st.data(), part=st.floats(min_value=0.0, max_value=0.95))
    def cut(self, data: st.DataObject, part: float) -> None:
        """An editor dies in the middle of writing a file: what is left does not read, or reads as less."""
        files = self.files()
        if files:
            path = data.draw(st.sampled_from(files))
            text = self.readable(path)
            self.give_up(path)
            whole = path.read_bytes()
            path.write_bytes(whole[: int(len(whole) * part)])
            if text is not None:
                self.forget_unread(text)
            rest = self.readable(path)
            if rest is not None:
                self.said.add(rest)

    def forget_unread(self, text: str) -> None:
        """Expect a text no longer that stood in one file only and that the store was never given."""
        elsewhere = any(self.readable(path) == text for path in self.files())
        if not elsewhere and text not in self.run(self.known()):
            self.said.discard(text)

    # Both, and the worker

    @rule()
    def mirror(self) -> None:
        """The mirror catches up; hand edits are read only where they stand in its way."""
        self.run(self.world.room.drain())

    @rule()
    def sync(self) -> None:
        """Both sides are brought together."""
        self.run(self.world.sync())

    @rule()
    def restart(self) -> None:
        """The worker is stopped and started."""
        self.run(self.world.restart())

    @rule(after=st.integers(min_value=0, max_value=6), what=st.sampled_from(["record", "place", "move"]))
    def crash(self, after: int, what: str) -> None:
        """The worker dies in a sync: before a file is placed, before it is recorded, or before the cursor moves."""
        room = self.world.room
        left = after

        def count() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash

        ledger, disk, feed = room._ledger, room.disk, room._feed
        if what == "record":
            inner_record = ledger.record

            async def record(change: Any) -> None:
                count()
                await inner_record(change)

            ledger.record = record  # type: ignore[method-assign]
        elif what == "place":
            inner_place = disk._place

            def place(*args: Any) -> Any:
                count()
                return inner_place(*args)

            disk._place = place  # type: ignore[method-assign]
        else:
            inner_move = feed.move

            def move(seq: int) -> None:
                count()
                inner_move(seq)

            feed.move = move  # type: ignore[method-assign]
        with contextlib.suppress(Crash):
            self.run(self.world.sync())
        self.run(self.world.restart())

    # What must hold

    async def known(self) -> set[str]:
        """Give every text the store has: live, in the history, or proposed."""
        texts: set[str] = set()
        seq = 0
        while rows := await self.world.store.journal_after(seq, 500):
            seq = rows[-1].seq
            for row in rows:
                texts.update(_texts(row.after))
        return texts

    @precondition(lambda self: self.count)
    @invariant()
    def nothing_is_lost(self) -> None:
        """Every text that was said is known to the store, or stands in a file."""
        missing = self.said - self.run(self.known())
        if missing:
            raw = [path.read_text(errors="replace") for path in self.files()]
            lost = [text for text in missing if not any(text in one for one in raw)]
            assert lost == []

    @invariant()
    def nothing_is_deleted_by_itself(self) -> None:
        """A memory that nobody deleted, and whose file nobody removed or broke, lives under its id."""
        assert self.run(self.deleted()) - self.given_up == set()

    async def deleted(self) -> set[str]:
        """Give the ids of memories that were deleted."""
        rows = await self.world.store.journal_after(0, 10_000)
        return {row.target for row in rows if row.type == "memory.deleted"}

    @rule()
    def converge(self) -> None:
        """Left alone, both sides come to agree: each live memory has one file that says what it says."""
        for _ in range(3):
            self.run(self.world.sync())
        status = self.run(self.world.room.status())
        live = {memory.id: memory.text for memory in self.run(self.world.live())}
        unreadable = {problem.path for problem in status.problems}
        held = self.run(self.held())
        shown: dict[str, str] = {}
        for path in self.files():
            if str(path.relative_to(self.world.root)) in unreadable:
                continue
            file = parse_memory(path.read_bytes())
            assert file.id is not None
            assert file.id not in shown
            shown[file.id] = file.text
        covered = held | self.run(self.recorded(unreadable))
        assert shown == {key: text for key, text in live.items() if key not in covered}
        assert (status.lag_rows, status.failures, status.error) == (0, {}, None)

    async def held(self) -> set[str]:
        """Give the memories whose files vanished with many others, and wait for a person."""
        return {one for suggestion in await self.world.suggestions() for one in suggestion.change.args.get("ids", ())}

    async def recorded(self, paths: set[str]) -> set[str]:
        """Give the memories whose own files cannot be read."""
        entries = await self.world.room._ledger.of_paths(sorted(paths))
        return {entry.target for entry in entries.values()}


def _texts(record: bytes | None) -> set[str]:
    if record is None:
        return set()
    found = msgspec.json.decode(record)
    texts = {found.get("text")}
    change = found.get("change")
    if isinstance(change, dict):
        texts.add(change["args"].get("text"))
    return {text for text in texts if isinstance(text, str)}


TestStoreAndFolder = StoreAndFolder.TestCase
TestStoreAndFolder.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
