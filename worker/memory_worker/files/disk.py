"""The folder on disk: looking without following links, and writing without ever overwriting what is not ours."""

import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from memory_worker.files.naming import is_noise

DIGEST_BYTES = 16
"""Length of a content hash: BLAKE2b with a 128-bit digest."""
DEPTH_MAX = 8
"""Deepest folder below a bank's that is read; the mirror itself writes no folders there."""
SYNC_EACH_MAX = 16
"""Up to this many files of a batch are synced one by one; above it one sync of the file system is cheaper
(200 files: 42 ms one by one, 8 ms at once, on ext4)."""
FILE_MODE = 0o600
FOLDER_MODE = 0o700
STAGING = ".staging"
"""Folder in which files are written before they are moved to their place. It is on the same file system and not
watched, so that a half-written file is never seen."""

_FATAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Errors that the next file would meet as well: the whole batch fails and is tried again later."""


class Look(msgspec.Struct, frozen=True):
    """What stands at a path. `digest` is of the content, or of the kind of thing where it was not read."""

    state: Literal["missing", "found", "refused"]
    data: bytes = b""
    digest: bytes = b""
    reason: str = ""


class Put(msgspec.Struct, frozen=True):
    """Write `data` to `path` if what stands there has the digest `expected` (None: if nothing stands there)."""

    path: str
    data: bytes
    expected: bytes | None = None


class Remove(msgspec.Struct, frozen=True):
    """Remove `path` if what stands there has the digest `expected` (None: whatever stands there)."""

    path: str
    expected: bytes | None = None


class Done(msgspec.Struct, frozen=True):
    """What became of a `Put` or `Remove`.

    `written` and `same` (it stood there already) and `removed` mean that the wish is met. `changed` = something else
    stands there, `missing` = nothing does although something was expected; both were left alone. `failed` names why.
    """

    path: str
    state: Literal["written", "same", "removed", "changed", "missing", "failed"]
    digest: bytes = b""
    reason: str = ""


def digest_of(data: bytes) -> bytes:
    """Hash a file's content."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


class Disk:
    """A tenant's folder. Paths are relative to it, with `/` between components, and never lead out of it."""

    def __init__(self, root: Path, file_max_bytes: int) -> None:
        self.root = root
        self._root = str(root)  # joining strings costs a tenth of joining paths, and this is done for every file
        self._max = file_max_bytes
        self._staged = 0

    def prepare(self) -> None:
        """Make the folders the mirror needs and clear away what a crash left half written."""
        for folder in ("", "banks", STAGING):
            (self.root / folder).mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        for entry in os.scandir(self.root / STAGING):
            if entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)

    # Looking

    def look_many(self, paths: Sequence[str]) -> list[Look]:
        """See what stands at each path; the folders on the way are looked at once."""
        known: dict[str, bool] = {}
        return [self.look(path, known) for path in paths]

    def look(self, path: str, known: dict[str, bool] | None = None) -> Look:
        """See what stands at `path`. Nothing outside the folder is opened, no link followed, nothing waited for."""
        if not self._inside(path, known):
            return Look(
                "refused", digest=digest_of(b"link"), reason="it lies behind a link, and links are not followed"
            )
        full = f"{self._root}/{path}"
        try:
            handle = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return Look("missing")
        except NotADirectoryError:
            return Look("missing")
        except OSError as error:
            return self._refused(full, error)
        try:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                return Look("refused", digest=digest_of(b"kind"), reason="it is not a regular file")
            if seen.st_size > self._max:
                return Look(
                    "refused",
                    digest=digest_of(b"size %d" % seen.st_size),
                    reason=f"it has {seen.st_size:,} bytes, more than the {self._max:,} that are read",
                )
            data = _read(handle, self._max)
        except OSError as error:
            return self._refused(full, error)
        finally:
            os.close(handle)
        return Look("found", data, digest_of(data))

    def _refused(self, full: str, error: OSError) -> Look:
        if error.errno in (errno.ELOOP, errno.EMLINK) or os.path.islink(full):
            return Look("refused", digest=digest_of(b"link"), reason="it is a link, and links are not followed")
        reason = f"it cannot be opened: {os.strerror(error.errno or 0)}"
        return Look("refused", digest=digest_of(b"error %d" % (error.errno or 0)), reason=reason)

    def _inside(self, path: str, known: dict[str, bool] | None = None) -> bool:
        """Whether every folder on the way is a real one (or not there yet); `known` keeps answers within a batch."""
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return False
        if known is None:
            return self._real(folder)
        if folder not in known:
            known[folder] = self._real(folder)
        return known[folder]

    def _real(self, folder: str) -> bool:
        current = self._root
        for part in folder.split("/") if folder else ():
            if part in ("", ".", ".."):
                return False
            current = f"{current}/{part}"
            try:
                if stat.S_ISLNK(os.lstat(current).st_mode):
                    return False
            except OSError:
                return True
        return True

    def folder(self, path: str) -> Literal["missing", "folder", "other"]:
        """Tell whether a real folder stands at `path`."""
        try:
            mode = os.lstat(self.root / path).st_mode
        except OSError:
            return "missing"
        return "folder" if stat.S_ISDIR(mode) and self._inside(_below(path, "x")) else "other"

    def entries(self, path: str) -> list[tuple[str, bool]]:
        """Give the names in a folder, sorted, and whether each is a real folder. Empty where there is no folder."""
        if self.folder(path) != "folder":
            return []
        try:
            with os.scandir(self.root / path) as found:
                return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found)
        except OSError:
            return []

    def files(self, path: str, depth: int = DEPTH_MAX) -> Iterator[str]:
        """Give the paths of everything below a folder that a person may have put there, editors' own files left out."""
        for name, is_folder in self.entries(path):
            if is_noise(name):
                continue
            below = _below(path, name)
            if not is_folder:
                yield below
            elif depth > 1:
                yield from self.files(below, depth - 1)

    def folders(self, path: str, depth: int = DEPTH_MAX) -> Iterator[str]:
        """Give a folder and the real folders below it, for watching."""
        if self.folder(path) != "folder":
            return
        yield path
        if depth > 1:
            for name, is_folder in self.entries(path):
                if is_folder and not is_noise(name):
                    yield from self.folders(f"{path}/{name}", depth - 1)

    def stands(self, path: str) -> bool:
        """Whether a file of exactly this name exists; a file system that ignores case gives other names too."""
        folder, _, name = path.rpartition("/")
        return any(name == entry for entry, _ in self.entries(folder))

    # Writing

    def apply(self, wishes: Sequence[Put | Remove]) -> list[Done]:
        """Write and remove; gives one answer per wish, in order.

        New content is on disk before it takes its name, and the names are on disk when this returns. Raises OSError
        when the disk as a whole refuses (full, read-only): then some wishes may be met, and doing all again is safe.
        """
        staged: dict[int, tuple[str, bytes]] = {}
        done: list[Done | None] = [None] * len(wishes)
        known: dict[str, bool] = {}
        try:
            for number, wish in enumerate(wishes):
                done[number] = self._judge(wish, known)
                if done[number] is None and isinstance(wish, Put):
                    staged[number] = (self._stage(wish.data), digest_of(wish.data))
            self._sync([path for path, _ in staged.values()])
            folders: set[Path] = set()
            known.clear()
            for number, wish in enumerate(wishes):
                if done[number] is None:
                    done[number] = self._place(wish, staged.get(number), known)
                if done[number].state in ("written", "removed"):  # type: ignore[union-attr]
                    folders.add((self.root / wish.path).parent)
            for folder in folders:
                _sync_folder(folder)
        finally:
            for path, _ in staged.values():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return [answer for answer in done if answer is not None]

    def _judge(self, wish: Put | Remove, known: dict[str, bool]) -> Done | None:
        """Give the answer to a wish that is met or refused as things stand, None where there is something to do."""
        if wish.expected is None and self._inside(wish.path, known):
            return None  # a removal of whatever stands there; or a new file, whose link refuses to overwrite
        look = self.look(wish.path, known)
        if look.state == "missing":
            return Done(wish.path, "removed" if isinstance(wish, Remove) else "missing")
        if isinstance(wish, Put) and look.state == "found" and look.data == wish.data:
            return Done(wish.path, "same", look.digest)
        if look.state != "found" or look.digest != wish.expected:
            return Done(wish.path, "changed", look.digest)
        return None

    def _place(self, wish: Put | Remove, staged: tuple[str, bytes] | None, known: dict[str, bool]) -> Done:
        full = f"{self._root}/{wish.path}"
        try:
            # Judged again at the last moment: what remains between this look and the rename is microseconds.
            answer = self._judge(wish, known)
            if answer is not None:
                return answer
            if staged is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(full)
                return Done(wish.path, "removed")
            source, digest = staged
            if isinstance(wish, Put) and wish.expected is None:
                return self._place_new(wish, source, digest)
            os.replace(source, full)
            return Done(wish.path, "written", digest)
        except OSError as error:
            return _failed(wish.path, error)

    def _place_new(self, wish: Put, source: str, digest: bytes) -> Done:
        """Give a new file its name; a link refuses where a rename would overwrite."""
        full = f"{self._root}/{wish.path}"
        try:
            try:
                os.link(source, full, follow_symlinks=False)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(full), FOLDER_MODE, exist_ok=True)
                os.link(source, full, follow_symlinks=False)
        except FileExistsError:
            look = self.look(wish.path)
            same = look.state == "found" and look.data == wish.data
            return Done(wish.path, "same" if same else "changed", look.digest)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            if os.path.lexists(full):
                return Done(wish.path, "changed")
            os.replace(source, full)  # a file system without hard links
        return Done(wish.path, "written", digest)

    def _stage(self, data: bytes) -> str:
        self._staged += 1
        path = f"{self._root}/{STAGING}/{self._staged}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        return path

    def _sync(self, paths: Sequence[str]) -> None:
        # POSIX lets sync() return before the data is written; Linux waits (sync(2), since 1.3.20).
        if len(paths) > SYNC_EACH_MAX and sys.platform == "linux":
            os.sync()
            return
        for path in paths:
            _sync_file(path)

    def move_folder(self, path: str, to: str) -> bool:
        """Move a folder within the tenant's; False where it is not there, or something stands at the other end."""
        if self.folder(path) != "folder" or self.folder(to) != "missing" or not self._inside(to):
            return False
        target = self.root / to
        target.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        os.rename(self.root / path, target)
        _sync_folder(target.parent)
        _sync_folder((self.root / path).parent)
        return True

    def remove_tree(self, path: str) -> int:
        """Remove a folder and everything in it (of links, the link); gives the number of files removed."""
        removed = 0
        for name, is_folder in self.entries(path):
            if is_folder:
                removed += self.remove_tree(f"{path}/{name}")
            else:
                os.unlink(self.root / path / name)
                removed += 1
        if self.folder(path) == "folder":
            os.rmdir(self.root / path)
        return removed

    def remove_empty(self, path: str) -> None:
        """Remove a folder and the folders in it, as far as they are empty of anything a person put there."""
        for name, is_folder in self.entries(path):
            if is_folder:
                self.remove_empty(f"{path}/{name}")
        if self.folder(path) == "folder":
            try:
                os.rmdir(self.root / path)
            except OSError:
                return


def _below(path: str, name: str) -> str:
    """Give the path of a name in a folder; the tenant's own folder is the empty path."""
    return f"{path}/{name}" if path else name


def _read(handle: int, most: int) -> bytes:
    parts = []
    left = most + 1
    while left > 0 and (part := os.read(handle, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)[:most]


def _failed(path: str, error: OSError) -> Done:
    if error.errno in _FATAL:
        raise error
    return Done(path, "failed", reason=os.strerror(error.errno or 0))


def _sync_file(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # it was removed in the meantime: nothing is left to sync
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
