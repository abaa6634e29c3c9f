"""Writes the index to disk and reads it back: derived data, checked, thrown away when anything about it is odd."""

import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from memory_worker.recall.bank import BankIndex
from memory_worker.recall.columns import NEVER
from memory_worker.recall.index import TenantIndex

FORMAT = 1
"""Version of the layout and of text analysis; a snapshot of another version is not read. Raise it when either
changes."""
_COLUMNS_SAVED_SEPARATELY = ("rows", "impacts", "offsets")


class SnapshotError(Exception):
    """A snapshot could not be used."""


class _BankFile(msgspec.Struct):
    name: str
    folder: str
    rows: int


class _Manifest(msgspec.Struct):
    format: int
    seq: int
    model: str | None
    dims: int
    banks: list[_BankFile]
    entities: dict[str, tuple[str, ...]]
    checksums: dict[str, int]


class Snapshots:
    """The snapshots of one tenant in one folder: at most one whole one, `index-<seq>`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, index: TenantIndex) -> None:
        """Writes the index beside the old snapshot, then replaces that. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = self.folder / f"index-{index.seq}"
        making = self.folder / "making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        checksums: dict[str, int] = {}
        banks: list[_BankFile] = []
        for number, (name, bank) in enumerate(sorted(index.banks.items())):
            bank.compact()
            folder = making / str(number)
            folder.mkdir()
            for file, data in _parts(bank).items():
                path = folder / file
                with path.open("wb") as out:
                    np.save(out, data)
                checksums[f"{number}/{file}"] = _checksum(data)
            banks.append(_BankFile(name=name, folder=str(number), rows=bank.columns.size))
        manifest = _Manifest(
            format=FORMAT,
            seq=index.seq,
            model=index.model_id,
            dims=index.dims,
            banks=banks,
            entities=index.entities.names,
            checksums=checksums,
        )
        (making / "manifest.json").write_bytes(msgspec.json.encode(manifest))
        _sync(making)
        old = [p for p in self.folder.iterdir() if p != making]
        if target.exists():
            shutil.rmtree(target)
        os.replace(making, target)
        for path in old:
            if path != target:
                shutil.rmtree(path, ignore_errors=True)

    def load(self, index: TenantIndex) -> bool:
        """Fills an empty index from the newest snapshot; false when there is none. Raises SnapshotError when it is
        odd."""
        found = sorted(self.folder.glob("index-*"), key=lambda p: int(p.name.removeprefix("index-")))
        if not found:
            return False
        try:
            self._read(found[-1], index)
        except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
            index.clear()
            raise SnapshotError(f"snapshot not readable: {type(error).__name__}") from None
        return True

    def _read(self, folder: Path, index: TenantIndex) -> None:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=_Manifest)
        if manifest.format != FORMAT:
            raise ValueError("another format")
        if index.embedder is not None and not index.embedder.model_id:
            index.model_id, index.dims = manifest.model, manifest.dims  # a remote model says later which it is
        same_model = (manifest.model, manifest.dims) == (index.model_id, index.dims)
        for entry in manifest.banks:
            parts: dict[str, Any] = {}
            bank = BankIndex(entry.name, manifest.dims)
            for file in _parts(bank):
                data = np.load(folder / entry.folder / file, allow_pickle=False)
                if _checksum(data) != manifest.checksums[f"{entry.folder}/{file}"]:
                    raise ValueError("a checksum differs")
                parts[file] = data
            _fill(bank, parts, entry.rows)
            if not same_model:
                bank.drop_vectors(index.dims)
            if index.embedder is not None and bank.unembedded:
                unembedded = bank.columns["id"][~bank.columns["embedded"]].tolist()
                index.waiting.update((i.decode(), entry.name) for i in unembedded)
            index.banks[entry.name] = bank
        for entity_id, names in manifest.entities.items():
            index.entities.put(entity_id, names[1], names[2:])
        index.seq = manifest.seq

    def unlink_all(self) -> None:
        """Removes every snapshot and half-made one."""
        if self.folder.exists():
            for path in self.folder.iterdir():
                shutil.rmtree(path)


def _checksum(data: Any) -> int:
    """CRC-32 of an array's bytes: against torn files, not against people."""
    return zlib.crc32(np.ascontiguousarray(data).data.cast("B")) if data.size else 0


def _parts(bank: BankIndex) -> dict[str, Any]:
    """The arrays of a compacted bank by file name."""
    text = "\n".join(bank.postings.numbers).encode()
    surfaces = "\n".join(f"{w}\t{t}" for w, t in bank.surfaces.terms.items()).encode()
    parts: dict[str, Any] = {f"{name}.npy": bank.columns[name] for name in bank.columns.data}
    parts["postings-rows.npy"] = bank.postings.rows
    parts["postings-impacts.npy"] = bank.postings.impacts
    parts["postings-offsets.npy"] = bank.postings.offsets
    parts["terms.npy"] = np.frombuffer(text, np.uint8)
    parts["surfaces.npy"] = np.frombuffer(surfaces, np.uint8)
    return parts


def _fill(bank: BankIndex, parts: dict[str, Any], rows: int) -> None:
    columns = {name: parts[f"{name}.npy"] for name in bank.columns.data}
    if any(len(column) != rows for column in columns.values()):
        raise ValueError("columns of different lengths")
    bank.columns.data = columns
    bank.columns.size = rows
    terms = parts["terms.npy"].tobytes().decode().split("\n") if len(parts["terms.npy"]) else []
    bank.postings.numbers = {term: number for number, term in enumerate(terms)}
    bank.postings.rows = parts["postings-rows.npy"]
    bank.postings.impacts = parts["postings-impacts.npy"]
    bank.postings.offsets = parts["postings-offsets.npy"]
    if len(bank.postings.offsets) != len(terms) + 1 or bank.postings.offsets[-1] != len(bank.postings.rows):
        raise ValueError("terms and postings differ")
    for line in parts["surfaces.npy"].tobytes().decode().split("\n"):
        if line:
            word, term = line.split("\t")
            bank.surfaces.add(word, term)
    bank.present = rows
    bank.unembedded = int(rows - bank.columns["embedded"].sum())
    bank.sorted_rows = np.argsort(bank.columns["id"], kind="stable")
    bank.next_expiry = float(bank.columns["expires"].min()) if rows else NEVER


def _sync(folder: Path) -> None:
    """Flushes every file of a folder to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
