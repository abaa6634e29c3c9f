"""Turns what was said in a turn into checked items for the store."""

from memory_worker.extraction.checks import Checker, Handed
from memory_worker.extraction.items import Candidate, Cursor, Extraction, ReadMessage, ReadTurn
from memory_worker.extraction.messages import read_messages
from memory_worker.extraction.model import UnreadableReply
from memory_worker.extraction.ports import (
    BankResolver,
    CommitTurn,
    Completer,
    HandedOut,
    Inbox,
    InboxTurn,
    Nearest,
    Off,
    ResolvedBank,
    SessionMessages,
    SiblingAway,
    TurnCommit,
    Wait,
)
from memory_worker.extraction.rules import RuleExtractor
from memory_worker.extraction.secrets import MASK, find_secrets, mask_payload, mask_secrets
from memory_worker.extraction.worker import TurnWorker, WorkerStatus

__all__ = [
    "MASK",
    "BankResolver",
    "Candidate",
    "Checker",
    "CommitTurn",
    "Completer",
    "Cursor",
    "Extraction",
    "Handed",
    "HandedOut",
    "Inbox",
    "InboxTurn",
    "Nearest",
    "Off",
    "ReadMessage",
    "ReadTurn",
    "ResolvedBank",
    "RuleExtractor",
    "SessionMessages",
    "SiblingAway",
    "TurnCommit",
    "TurnWorker",
    "UnreadableReply",
    "Wait",
    "WorkerStatus",
    "find_secrets",
    "mask_payload",
    "mask_secrets",
    "read_messages",
]
