"""The bus: dispatch, turn intake, trigger relay, siblings, the embedded server. The only room that knows NATS."""

from memory_contracts.connection import Bus, BusAway, BusClosed, BusError
from memory_worker.bus.accounts import Duty, Layout, Permissions, Role, User, permissions, render, worker_permissions
from memory_worker.bus.calls import CallInfo, Finished, Handler, Observer
from memory_worker.bus.credentials import BusFiles, Registry, add_credentials, ensure_defaults, read_registry
from memory_worker.bus.dispatch import Dispatcher, Limits
from memory_worker.bus.erasing import Eraser, erase_subject, secure_delete
from memory_worker.bus.intake import Intake, Outcome, RawTurn, TurnSink
from memory_worker.bus.micro import Service, StoreConflict, refuse_second_store
from memory_worker.bus.own_turns import OwnTurns
from memory_worker.bus.relay import Relay, RelaySource
from memory_worker.bus.selftest import (
    PermissionReport,
    PermissionsMissing,
    check_permissions,
    forbidden_to_worker,
    prove_all,
)
from memory_worker.bus.server import EmbeddedServer, ServerError, reload_server, server_binary
from memory_worker.bus.siblings import Router, SessionManager
from memory_worker.bus.streams import StreamDrift, StreamState, create_streams, stream_state, verify_streams

__all__ = [
    "Bus",
    "BusAway",
    "BusClosed",
    "BusError",
    "BusFiles",
    "CallInfo",
    "Dispatcher",
    "Duty",
    "EmbeddedServer",
    "Eraser",
    "Finished",
    "Handler",
    "Intake",
    "Layout",
    "Limits",
    "Observer",
    "Outcome",
    "OwnTurns",
    "PermissionReport",
    "Permissions",
    "PermissionsMissing",
    "RawTurn",
    "Registry",
    "Relay",
    "RelaySource",
    "Role",
    "Router",
    "ServerError",
    "Service",
    "SessionManager",
    "StoreConflict",
    "StreamDrift",
    "StreamState",
    "TurnSink",
    "User",
    "add_credentials",
    "check_permissions",
    "create_streams",
    "ensure_defaults",
    "erase_subject",
    "forbidden_to_worker",
    "permissions",
    "prove_all",
    "read_registry",
    "refuse_second_store",
    "reload_server",
    "render",
    "secure_delete",
    "server_binary",
    "stream_state",
    "verify_streams",
    "worker_permissions",
]
