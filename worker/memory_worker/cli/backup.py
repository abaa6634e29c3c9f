"""Backup archives: a consistent copy of every tenant while the worker writes, and its restore into an empty place."""

import contextlib
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path, PurePosixPath

import msgspec

from memory_worker.store import DataDirectory
from memory_worker.store.copies import check_copy, copy_store

FORMAT = 1
"""Version of the archive's layout."""
MANIFEST = "manifest.json"
DATABASE = "memory.db"
_LEFT_OUT_TOP = frozenset({"nats", "credentials"})
"""Not copied: the bus's own store, which the journal fills again, and passwords, which are made anew."""
_CHUNK = 1_048_576
FILES_MAX = 5_000_000
"""Most files of one archive."""


class BackupError(Exception):
    """The backup or the restore was refused; the text says why."""


class Entry(msgspec.Struct, frozen=True):
    """One file of an archive."""

    path: str
    bytes: int
    sha256: str
    mode: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds; the last member, so that it is complete only when the archive is."""

    format: int
    version: str
    made_at: datetime
    tenants: dict[str, int]
    files: list[Entry]


Progress = Callable[[int], None]
"""Told how many bytes were handled since the last time."""


def back_up(data_dir: Path, archive: Path, progress: Progress = lambda _: None) -> Manifest:
    """Write `archive` (tar.gz) from `data_dir`, which may be in use. Refuses to overwrite.

    Raises BackupError; an unfinished archive is removed.
    """
    stores = sorted(data_dir.glob(f"*/{DATABASE}"))
    if not stores:
        raise BackupError(f"{data_dir} holds no store")
    entries: list[Entry] = []
    versions: dict[str, int] = {}
    try:
        handle = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BackupError(f"{archive} exists already") from None
    except OSError as error:
        raise BackupError(f"{archive} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as out:
            with tempfile.TemporaryDirectory(prefix=".backup-", dir=archive.resolve().parent) as scratch:
                for store in stores:
                    # The store first: what is written to files after it is derived from it or comes again.
                    copy = Path(scratch) / DATABASE
                    versions[store.parent.name] = copy_store(store, copy)
                    entries.append(_add(out, copy, f"{store.parent.name}/{DATABASE}", progress))
                    copy.unlink()
            for path, name in _plain_files(data_dir, archive):
                with contextlib.suppress(FileNotFoundError):  # a file that went away meanwhile is no part of it
                    entries.append(_add(out, path, name, progress))
            manifest = Manifest(
                format=FORMAT,
                version=metadata.version("memory-worker"),
                made_at=datetime.now(UTC),
                tenants=versions,
                files=entries,
            )
            _add_bytes(out, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        with open(archive, "rb") as done:
            os.fsync(done.fileno())
    except BaseException:
        archive.unlink(missing_ok=True)
        raise
    return manifest


def _plain_files(data_dir: Path, archive: Path) -> Iterator[tuple[Path, str]]:
    own = archive.resolve()
    for folder, folders, names in os.walk(data_dir):
        here = Path(folder)
        if here == data_dir:
            folders[:] = [name for name in folders if name not in _LEFT_OUT_TOP]
        folders[:] = [name for name in folders if not name.startswith(".backup-")]
        for name in names:
            path = here / name
            if name.startswith((f"{DATABASE}", ".probe-")) or name.endswith(".lock") or path.resolve() == own:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            yield path, path.relative_to(data_dir).as_posix()


def _add(out: tarfile.TarFile, path: Path, name: str, progress: Progress) -> Entry:
    """Add one file; its length is taken once, so that a file that grows meanwhile does not break the archive."""
    with open(path, "rb") as source:
        status = os.fstat(source.fileno())
        reader = _Hashing(source, progress)
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = status.st_size, status.st_mode & 0o700, int(status.st_mtime)
        try:
            out.addfile(info, reader)  # type: ignore[arg-type]
        except OSError as error:
            raise BackupError(f"{name} cannot be copied: {error.strerror or error}") from None
    return Entry(name, status.st_size, reader.digest.hexdigest(), info.mode)


class _Hashing:
    """A file that is hashed as it is read."""

    def __init__(self, source: object, progress: Progress) -> None:
        self._source = source
        self._progress = progress
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Read on."""
        block: bytes = self._source.read(size)  # type: ignore[attr-defined]
        self.digest.update(block)
        self._progress(len(block))
        return block


def _add_bytes(out: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    out.addfile(info, io.BytesIO(data))


def restore(archive: Path, data_dir: Path, progress: Progress = lambda _: None) -> Manifest:
    """Unpack `archive` into `data_dir`, which must hold no store; every file is checked before it is put in place.

    Raises BackupError and leaves `data_dir` as it was.
    """
    directory = DataDirectory(data_dir)
    directory.acquire()
    try:
        if directory.known():
            raise BackupError(f"{data_dir} holds stores already: choose an empty --data-dir")
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=data_dir) as scratch:
            found = _unpack(archive, Path(scratch), progress)
            manifest = _checked(Path(scratch), found)
            tops = {PurePosixPath(entry.path).parts[0] for entry in manifest.files}
            for top in sorted(tops):
                if (data_dir / top).exists():
                    raise BackupError(f"{data_dir / top} is in the way: choose an empty --data-dir")
            for top in sorted(tops):
                (Path(scratch) / top).rename(data_dir / top)
        return manifest
    finally:
        directory.release()


def _unpack(archive: Path, into: Path, progress: Progress) -> dict[str, Entry]:
    """Write the members below `into`; only plain files with plain relative names are accepted."""
    found: dict[str, Entry] = {}
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for member in packed:
                name = PurePosixPath(member.name)
                if not member.isreg() or name.is_absolute() or ".." in name.parts or member.name in found:
                    raise BackupError(f"the archive holds {member.name!r}, which no backup does")
                if len(found) >= FILES_MAX:
                    raise BackupError(f"the archive holds more than {FILES_MAX:,} files")
                source = packed.extractfile(member)
                assert source is not None  # it is a regular file
                target = into / name
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                found[member.name] = _write(source.read, target, member, progress)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise BackupError(f"{archive} cannot be read: {error}") from None
    return found


def _write(read: Callable[[int], bytes], target: Path, member: tarfile.TarInfo, progress: Progress) -> Entry:
    digest, size = hashlib.sha256(), 0
    mode = (member.mode & 0o700) or 0o600
    with open(target, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as out:
        while block := read(_CHUNK):
            out.write(block)
            digest.update(block)
            size += len(block)
            progress(len(block))
        out.flush()
        os.fsync(out.fileno())
    return Entry(member.name, size, digest.hexdigest(), mode)


def _checked(root: Path, found: dict[str, Entry]) -> Manifest:
    if MANIFEST not in found:
        raise BackupError("the archive has no manifest: it is not complete")
    try:
        manifest = msgspec.json.decode((root / MANIFEST).read_bytes(), type=Manifest)
    except msgspec.DecodeError as error:
        raise BackupError(f"the manifest cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise BackupError(f"the archive has format {manifest.format}, this release reads {FORMAT}")
    listed = {entry.path: entry for entry in manifest.files}
    extra = set(found) - set(listed) - {MANIFEST}
    wrong = [path for path, entry in listed.items() if path not in found or found[path].sha256 != entry.sha256]
    if extra or wrong:
        some = ", ".join([*wrong, *sorted(extra)][:3])
        raise BackupError(f"{len(wrong)} files differ from the manifest, {len(extra)} are not in it: {some}")
    for tenant in manifest.tenants:
        problems = check_copy(root / tenant / DATABASE)
        if problems:
            raise BackupError(f"the store of {tenant} {'; '.join(problems)}")
    (root / MANIFEST).unlink()
    return manifest
