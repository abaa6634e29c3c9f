"""Prints what recall, extraction and context come to on conversations, beside baselines (`make eval`)."""

import argparse
import subprocess
import sys
from pathlib import Path

PARTS = {
    "recall": ["tests.benchmarks.eval_recall", "--data", "{data}"],
    "extraction": ["tests.benchmarks.eval_extraction", "--data", "{data}"],
    "safety": ["tests.benchmarks.eval_extraction_safety"],
    "context": ["tests.benchmarks.eval_context", "--data", "{data}"],
}
"""Evaluations by name: each a module of its own, in a process of its own."""


def main() -> int:
    """Run every part, or those that are named; give the worst exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with `chats` and `dialogues`")
    asked = parser.parse_args()
    worst = 0
    for name in asked.parts or PARTS:
        sys.stdout.write(f"\n== {name} ==\n")
        sys.stdout.flush()
        command = [part.format(data=asked.data) for part in PARTS[name]]
        worst = max(worst, subprocess.run([sys.executable, "-m", *command], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
