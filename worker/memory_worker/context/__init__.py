"""What a turn is given: the bank, the rules, the memories chosen for its message, and why."""

from memory_worker.context.bank import BankResolver, Off, ResolvedBank, Wait, visible
from memory_worker.context.needs import BankMaker, RecallAnswer, Recaller
from memory_worker.context.readback import asks_for_everything, render_bank
from memory_worker.context.rules import Budgets
from memory_worker.context.select import Bounds, Scored
from memory_worker.context.service import ContextService, ContextSettings
from memory_worker.context.sessions import SessionCache, SessionManager, SessionManagerAway

__all__ = [
    "BankMaker",
    "BankResolver",
    "Bounds",
    "Budgets",
    "ContextService",
    "ContextSettings",
    "Off",
    "RecallAnswer",
    "Recaller",
    "ResolvedBank",
    "Scored",
    "SessionCache",
    "SessionManager",
    "SessionManagerAway",
    "Wait",
    "asks_for_everything",
    "render_bank",
    "visible",
]
