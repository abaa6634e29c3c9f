"""What siblings import to talk to memory-worker: subjects, structs, errors and the typed client."""

from memory_contracts.errors import ERROR_CODE_HEADER, ERROR_HEADER, IDEMPOTENCY_HEADER, ErrorBody, FunctionError
from memory_contracts.events import BankChanged, ItemChanged
from memory_contracts.functions import FUNCTIONS, Function
from memory_contracts.records import Bank, Change, Entity, Memory, Notice, Rule, Source, Suggestion, Use
from memory_contracts.subjects import Subjects
from memory_contracts.turns import TurnCompleted, TurnMessage

__all__ = [
    "ERROR_CODE_HEADER",
    "ERROR_HEADER",
    "FUNCTIONS",
    "IDEMPOTENCY_HEADER",
    "Bank",
    "BankChanged",
    "Change",
    "Entity",
    "ErrorBody",
    "Function",
    "FunctionError",
    "ItemChanged",
    "Memory",
    "Notice",
    "Rule",
    "Source",
    "Subjects",
    "Suggestion",
    "TurnCompleted",
    "TurnMessage",
    "Use",
]
