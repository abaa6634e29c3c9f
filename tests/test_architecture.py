"""Dependencies point inwards: no room knows what stands outside it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKER = ROOT / "worker" / "memory_worker"
EVERYWHERE = {"memory_worker.clock", "memory_worker.config"}
"""Modules of plain values that every room may use."""

MAY_IMPORT = {
    "store": set(),
    "gate": {"store"},
    "recall": {"store"},
    "context": {"store"},
    "extraction": {"store"},
    "bus": {"store", "gate", "extraction", "recall", "context"},
    "files": {"store", "gate", "extraction", "recall", "context"},
    "health": {"store"},
    "cli": {"store", "gate", "extraction", "recall", "context", "bus", "files", "health"},
}
"""Rooms whose modules a room may import, besides itself and the contracts."""

CLI_PROCESSES = {"memory_worker.app", "memory_worker.logs", "memory_worker.settings_source"}
"""Modules beside the rooms that the command line starts or reads."""


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """The room a module lies in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "memory_worker" and parts[1] in MAY_IMPORT else None


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_import_inner_rooms_only(room: str) -> None:
    """A room imports itself, the contracts, plain values, and the rooms further in."""
    allowed = {room, *MAY_IMPORT[room]}
    beside = EVERYWHERE | (CLI_PROCESSES if room == "cli" else set())
    wrong = []
    for path in sorted((WORKER / room).rglob("*.py")):
        for module in imports(path):
            if not module.startswith("memory_worker."):
                continue
            inside = room_of(module)
            known = (
                inside in allowed if inside else any(module == one or module.startswith(f"{one}.") for one in beside)
            )
            if not known:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


def files_importing(module: str) -> set[str]:
    """Folders below `worker` and `contracts` with a file that imports a module."""
    found = set()
    for base in (ROOT / "worker", ROOT / "contracts"):
        for path in base.rglob("*.py"):
            if any(one == module or one.startswith(f"{module}.") for one in imports(path)):
                found.add(str(path.relative_to(base).parent))
    return found


def test_only_the_store_knows_sql() -> None:
    """No room but the store opens a database."""
    assert files_importing("sqlite3") | files_importing("aiosqlite") == {"memory_worker/store"}


def test_only_the_contracts_connection_knows_the_bus_library() -> None:
    """Nothing in the worker imports the bus library: one guarded connection stands between."""
    assert files_importing("nats") == {"memory_contracts"}


def test_contracts_import_no_worker_code() -> None:
    """Siblings import the contracts without the worker."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "contracts").rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] in ("memory_worker", "memory_consolidate", "memory_router")
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["memory_consolidate", "memory_router"])
def test_siblings_import_contracts_only(package: str) -> None:
    """The sibling workers talk through the contracts, like anybody else's."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "worker" / package).rglob("*.py")
        for module in imports(path)
        if module.split(".")[0] == "memory_worker"
    ]
    assert wrong == []


def test_every_module_says_what_it_does() -> None:
    """The first line of a module is its one-sentence purpose."""
    silent = [
        str(path.relative_to(ROOT))
        for base in ("worker", "contracts", "tests")
        for path in (ROOT / base).rglob("*.py")
        if path.read_text("utf-8").strip() and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []
