"""Runs the command line: `python -m memory_worker.cli`."""

from memory_worker.cli import main

main()
