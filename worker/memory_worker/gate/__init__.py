"""The gate: who may change what, what waits for a person, and how a change is written."""

from memory_worker.gate.access import may_read, may_write
from memory_worker.gate.act import Act, GateSettings
from memory_worker.gate.destroying import Destroyed, Plan, destroy, destroy_paths, in_turns
from memory_worker.gate.directory import BankDirectory
from memory_worker.gate.finding import texts_about
from memory_worker.gate.mentions import Names, Texts
from memory_worker.gate.refusing import RuledOut, key_mark
from memory_worker.gate.review import Forgetting, Review
from memory_worker.gate.saving import Vault
from memory_worker.gate.service import Gate
from memory_worker.gate.suggesting import LessonReader, Lessons
from memory_worker.gate.sweeping import Sweeper, Swept
from memory_worker.gate.turns import TurnCommit, TurnItem, TurnResult
from memory_worker.gate.vault import KeyedVault

__all__ = [
    "Act",
    "BankDirectory",
    "Destroyed",
    "Forgetting",
    "Gate",
    "GateSettings",
    "KeyedVault",
    "LessonReader",
    "Lessons",
    "Names",
    "Plan",
    "Review",
    "RuledOut",
    "Sweeper",
    "Swept",
    "Texts",
    "TurnCommit",
    "TurnItem",
    "TurnResult",
    "Vault",
    "destroy",
    "destroy_paths",
    "in_turns",
    "key_mark",
    "may_read",
    "may_write",
    "texts_about",
]
