"""The server's configuration and the users' files: generated, checked by the server itself, closed to others."""

import os
import stat
import subprocess
from pathlib import Path

import bcrypt
import msgspec
import pytest

from memory_contracts import FunctionError, Subjects
from memory_contracts import jetstream as js
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from memory_contracts.credentials import CredentialsError, load_credentials
from memory_worker.bus import (
    BusFiles,
    Dispatcher,
    EmbeddedServer,
    Layout,
    PermissionsMissing,
    ServerError,
    Service,
    User,
    add_credentials,
    check_permissions,
    ensure_defaults,
    forbidden_to_worker,
    permissions,
    prove_all,
    read_registry,
    render,
    server_binary,
    worker_permissions,
)
from memory_worker.bus.accounts import LayoutKind, Permissions
from memory_worker.bus.examples import DIRECTORY, example, variables
from memory_worker.bus.selftest import subject_matches
from memory_worker.bus.streams import StreamDrift, create_streams, verify_streams
from tests.conftest import BusAs
from tests.system.harness import TENANTS, BusUnderTest, eventually

URL = "nats://127.0.0.1:4222"
HASH = '"$2a$04$abcdefghijklmnopqrstuuvSZBdXcLcSTHPGtKFSWUOQYkPyvhqlu"'


def _accepted(conf: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(server_binary()), "-t", "-c", str(conf)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.mark.parametrize("kind", ["accounts", "single"])
def test_deployed_configurations(kind: LayoutKind) -> None:
    """The files in deploy/nats are what is generated now, and the server accepts them."""
    text = example(kind)
    assert (DIRECTORY / f"{kind}.conf").read_text() == text, "run python -m memory_worker.bus.examples"
    checked = _accepted(DIRECTORY / f"{kind}.conf", dict.fromkeys(variables(text), HASH))
    assert checked.returncode == 0, checked.stderr


def test_import_of_another_tenants_subjects_is_refused_at_load(tmp_path: Path) -> None:
    """The server itself refuses a tenant's account that imports another tenant's requests."""
    text = example("accounts")
    own, other = 'subject: "memory.v1.rpc.local.>"', 'subject: "memory.v1.rpc.acme.>"'
    assert text.count(own) == 1
    (tmp_path / "forged.conf").write_text(text.replace(own, other))
    checked = _accepted(tmp_path / "forged.conf", dict.fromkeys(variables(text), HASH))
    assert checked.returncode != 0
    assert "not authorized" in checked.stderr


def test_defaults_are_made_once(tmp_path: Path) -> None:
    """Every tenant gets its identities; a second start keeps their passwords and follows the port."""
    ensure_defaults(tmp_path, URL)
    files = BusFiles(tmp_path)
    names = sorted(path.stem for path in files.credentials.glob("*.json"))
    assert names == [
        "admin",
        "agent-default",
        "human-me",
        "observer-default",
        "system-consolidate",
        "system-harness",
        "system-router",
        "system-session",
        "worker",
    ]
    before = load_credentials(files.credentials_of("human-me"))
    ensure_defaults(tmp_path, "nats://127.0.0.1:5222")
    after = load_credentials(files.credentials_of("human-me"))
    assert after == msgspec.structs.replace(before, url="nats://127.0.0.1:5222")
    assert (after.tenant, after.route, after.principal) == ("local", "human", "me")


def test_secrets_are_closed_to_others(tmp_path: Path) -> None:
    """Everything with a secret or a hash is readable by its owner alone; the server's file holds no password."""
    ensure_defaults(tmp_path, URL)
    files = BusFiles(tmp_path)
    secret = [*files.credentials.glob("*.json"), files.registry, files.accounts_conf]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (files.nats, files.credentials)} == {0o700}
    password = load_credentials(files.credentials_of("human-me")).password or ""
    assert len(password) >= 43
    assert password not in files.accounts_conf.read_text()
    registry = read_registry(files)
    assert registry is not None
    hashed = next(user.password_hash for user in registry.users if user.name == "local.human-me")
    assert bcrypt.checkpw(password.encode(), hashed.encode())
    assert password not in repr(load_credentials(files.credentials_of("human-me")))


def test_credentials_open_to_others_are_not_used(tmp_path: Path) -> None:
    """A credentials file that other users can read is refused, with the command that mends it."""
    ensure_defaults(tmp_path, URL)
    path = BusFiles(tmp_path).credentials_of("human-me")
    path.chmod(0o644)
    with pytest.raises(CredentialsError, match="chmod 600"):
        load_credentials(path)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"url": 3}', b'{"url": "nats://x"}', b"\xff\xfe"])
def test_unreadable_credentials_are_named(tmp_path: Path, content: bytes) -> None:
    """Broken credentials give one error that names the file."""
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(CredentialsError, match=r"broken\.json"):
        load_credentials(path)


@pytest.mark.parametrize(
    ("route", "principal", "durables", "said"),
    [
        ("agent", "Coder", (), "lower-case"),
        ("worker", "second", (), "route is one of"),
        ("human", "me", (), "already"),
        ("agent", "new", ("human-me",), "already"),
        ("agent", "new", ("a.b",), "lower-case"),
    ],
)
def test_bad_identities_are_refused(
    tmp_path: Path, route: str, principal: str, durables: tuple[str, ...], said: str
) -> None:
    """A bad name, a name that is taken and another's durable are refused, and nothing is written."""
    ensure_defaults(tmp_path, URL)
    before = BusFiles(tmp_path).accounts_conf.read_bytes()
    with pytest.raises(ValueError, match=said):
        add_credentials(tmp_path, route=route, principal=principal, url=URL, durables=durables)  # type: ignore[arg-type]
    assert BusFiles(tmp_path).accounts_conf.read_bytes() == before


async def test_new_identity_works_after_reload(nats_server: BusUnderTest) -> None:
    """An identity added while the server runs can connect after a reload, and nobody is thrown out for it."""
    server = nats_server.server
    async with nats_server.bus("worker") as worker:
        path = add_credentials(server.files.data_dir, route="agent", principal="fresh", url=server.url)
        server.reload()

        async def connects() -> bool:
            try:
                bus = await Bus.connect(load_credentials(path), name="fresh", wait=0)
            except Exception:  # not yet
                return False
            await bus.close()
            return True

        await eventually(connects)
        assert worker.connected
        assert worker.reconnects == 0


async def test_new_tenant_is_served_after_reload(tmp_path: Path) -> None:
    """A tenant added while the server runs is served by the worker that is there, without a restart of anything."""
    server = await EmbeddedServer.start(tmp_path, port=0)
    try:
        worker = await Bus.connect(load_credentials(server.files.credentials_of("worker")), name="worker")
        service = Service(worker, version="0.0.1", store_id="s", tenants=("local",))
        dispatcher = Dispatcher(worker, Subjects(), {}, service)
        await dispatcher.start()
        path = add_credentials(tmp_path, route="agent", principal="first", url=server.url, tenant="late")
        server.reload()
        async with await MemoryClient.connect(path) as client:
            with pytest.raises(FunctionError, match="not available in this build"):
                await client.tags()
        assert worker.reconnects == 0
        await dispatcher.stop()
        await worker.close()
    finally:
        await server.stop()


async def test_refused_configuration_is_told(nats_server: BusUnderTest) -> None:
    """A configuration the server refuses is an error with its reason, and the running one stays."""
    files = nats_server.server.files
    before = files.accounts_conf.read_bytes()
    files.accounts_conf.write_bytes(before + b"\nnonsense {{{")
    with pytest.raises(ServerError, match="refuses its configuration"):
        nats_server.server.reload()
    files.accounts_conf.write_bytes(before)
    nats_server.server.reload()
    async with nats_server.bus("worker") as worker:
        assert await worker.flushed()


async def test_streams_are_verified(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """The worker accepts the streams the admin makes, and names every difference when somebody changed one."""
    worker, admin = await bus_as("worker"), await bus_as("admin")
    await verify_streams(worker, nats_server.subjects, TENANTS)
    info = await js.call(admin, "STREAM.INFO.MEMORY-EVENTS-acme")
    await js.call(admin, "STREAM.UPDATE.MEMORY-EVENTS-acme", {**info["config"], "discard": "old", "max_bytes": 1024})
    with pytest.raises(StreamDrift) as caught:
        await verify_streams(worker, nats_server.subjects, TENANTS)
    assert "stream MEMORY-EVENTS-acme has discard 'old', needs 'new'" in str(caught.value)
    assert "max_bytes 1024" in str(caught.value)
    await create_streams(admin, nats_server.subjects, TENANTS)
    await verify_streams(worker, nats_server.subjects, TENANTS)


async def test_missing_stream_is_drift(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """A tenant whose streams were never made is refused by name."""
    with pytest.raises(StreamDrift, match="stream MEMORY-EVENTS-acme2 is missing"):
        await verify_streams(await bus_as("admin"), nats_server.subjects, ("acme2",))


async def test_self_test_passes_on_our_layout(either_server: BusUnderTest) -> None:
    """On a server of ours the worker has what it needs, no more, and is refused what it must not do."""
    async with either_server.bus("worker") as worker:
        needed = worker_permissions(either_server.layout, worker.credentials.inbox_prefix)
        report = await prove_all(worker, needed, forbidden_to_worker(either_server.layout))
    assert (report.missing, report.excess, report.unproven) == ([], [], [])


async def test_self_test_stops_a_worker_that_lacks_something(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """A permission that is missing stops the worker and is named."""
    worker = await bus_as("worker")
    needed = worker_permissions(nats_server.layout, worker.credentials.inbox_prefix)
    more = Permissions(publish=[*needed.publish, "session.v1.elsewhere.get"], subscribe=needed.subscribe)
    with pytest.raises(PermissionsMissing, match=r"publish session\.v1\.elsewhere\.get"):
        await prove_all(worker, more, [])


async def test_self_test_tells_of_too_much(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """What the server grants beyond the need, and what it did not refuse, is reported."""
    worker = await bus_as("worker")
    needed = worker_permissions(nats_server.layout, worker.credentials.inbox_prefix)
    fewer = Permissions(publish=needed.publish[1:], subscribe=needed.subscribe)
    report = await check_permissions(worker, fewer, ["memory.v1.event.local.item-changed.x.y"])
    assert report.excess == [f"publish {needed.publish[0]}"]
    assert report.unproven == ["memory.v1.event.local.item-changed.x.y"]


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a.*", True),
        ("a.b", "a.*", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a.>", True),
        ("a.>", "a", False),
        ("a.*", "a.>", False),
        (">", "a.b", True),
        ("a.b.c", "a.b", False),
    ],
)
def test_subjects_within_patterns(pattern: str, subject: str, matches: bool) -> None:
    """A pattern covers a subject, or another pattern, only if it covers all that one names."""
    assert subject_matches(pattern, subject) is matches


def test_only_harnesses_may_publish_turns() -> None:
    """Of all identities, only one with the duty for turns may publish them."""
    for kind in ("accounts", "single"):
        layout = Layout(kind=kind)  # type: ignore[arg-type]
        for role, duties in (("human", ()), ("agent", ()), ("observer", ()), ("ui", ()), ("system", ("session",))):
            user = User(
                role=role,  # type: ignore[arg-type]
                principal="x",
                tenant="local",
                inbox_prefix="_INBOX.x",
                password_hash="",
                duties=duties,  # type: ignore[arg-type]
            )
            assert not [one for one in permissions(layout, user).publish if one.startswith("turn.v1")]


def test_tenant_names_do_not_mix() -> None:
    """The block of one tenant's account names no other tenant."""
    text = render(Layout(tenants=("local", "acme")), [])
    local = text[text.index('\n  "local" {') : text.index('\n  "acme" {')]
    assert "acme" not in local


async def test_a_harnesss_own_stream_is_used_and_not_judged(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """Turns may come from a stream of the harness: only our consumer on it is made and verified, never the stream."""
    admin = await bus_as("admin")
    theirs = Subjects(turn_prefix="harness.v1", turn_stream="HARNESS")
    config = {"name": "HARNESS", "subjects": ["harness.v1.>"], "storage": "memory", "retention": "interest"}
    await js.call(admin, "STREAM.CREATE.HARNESS", config)
    with pytest.raises(StreamDrift, match="consumer HARNESS/memory-worker is missing"):
        await verify_streams(admin, theirs, TENANTS)
    await create_streams(admin, theirs, TENANTS)
    await verify_streams(admin, theirs, TENANTS)
    assert (await js.call(admin, "STREAM.INFO.HARNESS"))["config"]["retention"] == "interest"
    layout = Layout(turn_prefix="harness.v1", turn_stream="HARNESS")
    granted = worker_permissions(layout, "_INBOX.memory.worker").publish
    assert "$JS.API.CONSUMER.MSG.NEXT.HARNESS.memory-worker" in granted
    assert not [one for one in granted if ".TURNS" in one]
