"""Archives: one file with a tenant's markdown, its journal, and a manifest that says what is in it."""

import errno
import gzip
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from memory_contracts.errors import invalid

FORMAT = 1
"""Version of the archive's layout; a reader takes this one and older ones."""
MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
LEARNED = "learned.jsonl"
"""Lines of a bank's `learned` rule with where each came from, beside its `bank.yaml`."""
SUFFIX = ".tar.gz"
MEMBER_MAX_BYTES = 1_024 * 1_024
"""Largest file of an archive that is read, in bytes; the journal is only checked."""
TOTAL_MAX_BYTES = 8 * 1_024**3
"""Most bytes an archive may unpack to, so that a small file cannot become endless work."""
MEMBERS_MAX = 2_000_000
"""Most files in an archive."""
COMPRESSION = 6
"""Level of gzip: 9 takes twice the time for 2 % less."""

_MEMBER = re.compile(rf"banks/[^/\x00]+/(?:bank\.yaml|{LEARNED}|(?:memories|rules)/[^/\x00]+\.md)|{JOURNAL}|{MANIFEST}")


class FileFacts(msgspec.Struct, frozen=True):
    """What the manifest says of one file."""

    sha256: str
    bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds: `seq` is the journal row up to which it is whole."""

    format: int
    worker: str
    tenant: str
    created_at: str
    seq: int
    banks: tuple[str, ...]
    protected: bool
    counts: dict[str, int]
    files: dict[str, FileFacts]


class ArchiveWriter:
    """Writes an archive beside its final name; only `finish` gives it that name, and nothing is ever overwritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.partial")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._raw = os.fdopen(handle, "wb")
        # No time and no name inside: the same content gives the same bytes.
        self._zip = gzip.GzipFile("", "wb", COMPRESSION, self._raw, mtime=0)
        stream = cast(IO[bytes], self._zip)
        self._tar = tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)
        self.files: dict[str, FileFacts] = {}

    def add(self, name: str, data: bytes) -> None:
        """Add a file."""
        self._add(name, io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest())

    def add_stream(self, name: str, source: IO[bytes]) -> None:
        """Add what a seekable stream holds."""
        digest = hashlib.sha256()
        source.seek(0)
        size = 0
        while part := source.read(1 << 20):
            digest.update(part)
            size += len(part)
        source.seek(0)
        self._add(name, source, size, digest.hexdigest())

    def _add(self, name: str, source: IO[bytes], size: int, digest: str) -> None:
        member = tarfile.TarInfo(name)
        member.size = size
        member.mode = 0o600
        self._tar.addfile(member, source)
        self.files[name] = FileFacts(digest, size)

    def finish(self, manifest: Manifest) -> tuple[int, str]:
        """Write the manifest and give the archive its name; gives its size in bytes and its SHA-256.

        Raises FileExistsError where something has the name.
        """
        self.add(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest, order="deterministic")))
        self._tar.close()
        self._zip.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        _name_new(self._partial, self.path)
        return self.path.stat().st_size, sha256_of(self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._raw.close()
        self._partial.unlink(missing_ok=True)


def _name_new(source: Path, path: Path) -> None:
    """Give a file its name; a link refuses where a rename would overwrite."""
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.replace(source, path)  # a file system without hard links
    else:
        os.unlink(source)


def sha256_of(path: Path) -> str:
    """Hash a file."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def check(path: Path) -> Manifest:
    """Read an archive through and compare every file with the manifest; raises `invalid_input` for a damaged one."""
    found: dict[str, FileFacts] = {}
    manifest: Manifest | None = None
    for name, data, facts in _members(path):
        if name == MANIFEST:
            manifest = _manifest(data)
        else:
            found[name] = facts
    if manifest is None:
        raise invalid("the archive has no manifest: it was cut off, or is none of ours", "path")
    if manifest.format > FORMAT:
        raise invalid(
            f"the archive has format {manifest.format}, this release reads up to {FORMAT}",
            "path",
            "use a newer release",
        )
    if found != manifest.files:
        wrong = sorted(
            name for name in found.keys() | manifest.files.keys() if found.get(name) != manifest.files.get(name)
        )
        raise invalid(
            f"the archive is damaged: {len(wrong)} files are not as its manifest says", "path", wrong[0][:200]
        )
    return manifest


def contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Give name and content of every file of a checked archive but journal and manifest, in its order."""
    for name, data, _ in _members(path):
        if name not in (MANIFEST, JOURNAL):
            yield name, data


def _manifest(data: bytes) -> Manifest:
    try:
        return msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise invalid("the archive's manifest cannot be read", "path") from error


def _members(path: Path) -> Iterator[tuple[str, bytes, FileFacts]]:
    """Read every member in memory, bounded; nothing is ever unpacked to disk, so no name can lead anywhere."""
    total = 0
    seen: set[str] = set()
    try:
        with tarfile.open(path, "r|gz") as tar:
            for member in tar:
                total += member.size
                if not member.isreg() or _MEMBER.fullmatch(member.name) is None or member.name in seen:
                    raise invalid("the archive holds something that no export writes", "path")
                seen.add(member.name)
                if total > TOTAL_MAX_BYTES or len(seen) > MEMBERS_MAX:
                    raise invalid("the archive unpacks to more than is read", "path")
                stream = tar.extractfile(member)
                assert stream is not None
                yield member.name, *_taken(member, stream)
    except (tarfile.TarError, EOFError, OSError, gzip.BadGzipFile, ValueError) as error:
        raise invalid("the archive is damaged or is none", "path") from error


def _taken(member: tarfile.TarInfo, stream: IO[bytes]) -> tuple[bytes, FileFacts]:
    digest = hashlib.sha256()
    kept: list[bytes] = []
    keep = member.name != JOURNAL
    limit = TOTAL_MAX_BYTES if member.name in (JOURNAL, MANIFEST) else MEMBER_MAX_BYTES
    if member.size > limit:
        raise invalid("the archive holds a file larger than any export writes", "path")
    while part := stream.read(1 << 20):
        digest.update(part)
        if keep:
            kept.append(part)
    return b"".join(kept), FileFacts(digest.hexdigest(), member.size)


Progress = Callable[[int, int], None]
"""Told how many of how many records are done."""


def no_progress(done: int, total: int) -> None:
    """Tell nobody."""


def json_line(value: Any) -> bytes:
    """Give one line of a `.jsonl` file."""
    return msgspec.json.encode(value, order="deterministic") + b"\n"
