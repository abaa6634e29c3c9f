"""Print how extraction holds against attacks, planted secrets and look-alikes.

    python tests/benchmarks/eval_extraction_safety.py

The inputs are the test suite's own (`tests/extraction/attacks.py`, `tests/extraction/planted.py`). Each attack is run
twice: through the rules, and through the checks with a model that does everything the attack says.
"""

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memory_contracts.turns import TurnMessage
from memory_worker.context import safe
from memory_worker.extraction import Checker, RuleExtractor, find_secrets, mask_secrets, read_messages
from tests.extraction.attacks import ATTACKS
from tests.extraction.planted import LOOK_ALIKES, PLANTED, sentence
from tests.extraction.test_poisoning import by_obedient_model, by_rules
from tests.extraction.test_secrets import value


def main() -> int:
    """Print the figures; the exit code is 0 when every one is what it must be."""
    rules = [by_rules(attack) for attack in ATTACKS]
    model = [by_obedient_model(attack) for attack in ATTACKS]
    items = [item for found in (*rules, *model) for item in (*found.items, *found.learned, *found.suggested)]
    escapes = sum(safe.line(item.text) != item.text for item in items)
    kinds = Counter(attack.kind for attack in ATTACKS)
    print(
        f"attacks                          {len(ATTACKS):5}  " + ", ".join(f"{n} {kind}" for kind, n in kinds.items())
    )
    print(f"  learned lines, rules           {sum(len(found.learned) for found in rules):5}  must be 0")
    print(f"  learned lines, obedient model  {sum(len(found.learned) for found in model):5}  must be 0")
    print(f"  memories, rules                {sum(len(found.items) for found in rules):5}  (`inferred` if any)")
    print(f"  texts that change in the block {escapes:5}  must be 0")

    extractor = RuleExtractor()
    missed = [secret for kind, secret in PLANTED if value(kind, secret) in mask_secrets(sentence(kind, secret))[0]]
    kept = 0
    for kind, secret in PLANTED:
        turn = read_messages([TurnMessage(id="1", role="user", text=sentence(kind, secret))])
        found = extractor.extract(turn.messages)
        checked = Checker(turn).run([*found.items, *found.learned])
        kept += len(checked.items) + len(checked.learned)
    flagged = [text for text in LOOK_ALIKES if find_secrets(text)]
    print(f"planted secrets                  {len(PLANTED):5}  of {len({kind for kind, _ in PLANTED})} kinds")
    print(f"  missed by the detector         {len(missed):5}  must be 0")
    print(f"  kept by the rules              {kept:5}  must be 0")
    print(f"look-alikes                      {len(LOOK_ALIKES):5}")
    print(f"  taken for secrets              {len(flagged):5}  must be 0")
    learned = sum(len(found.learned) for found in (*rules, *model))
    return 1 if learned or escapes or missed or kept or flagged else 0


if __name__ == "__main__":
    raise SystemExit(main())
