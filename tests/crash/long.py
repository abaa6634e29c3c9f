"""The long crash run: hundreds of kills over all failpoints, with a report (`make crash`)."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from tests.crash.harness import CrashRun


def main() -> int:
    """Run and print the report; exit 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="kills of the worker")
    parser.add_argument("--bus-kills", type=int, default=40, help="kills of the bus")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memory-crash-") as directory:
        run = CrashRun(Path(directory), asked.seed)
        try:
            report = uvloop.run(run.run(asked.kills, asked.bus_kills))
        finally:
            run.close()
    sys.stdout.write(f"seed {asked.seed}, {time.monotonic() - began:.0f} s\n")
    for name, value in msgspec.structs.asdict(report).items():
        sys.stdout.write(f"{name:>16}  {value}\n")
    faults = report.faults()
    sys.stdout.write("clean\n" if not faults else f"FAULTS {faults}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
