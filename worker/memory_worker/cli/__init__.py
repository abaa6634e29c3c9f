"""The command line: everything people and scripts do with the worker."""

import importlib
import sys

import click

from memory_worker.cli.command import Group

_MODULES = ("process", "turns", "memories", "banks", "review", "forgetting", "care", "hygiene", "setup")
"""Modules whose commands make up `memory`, in the order in which help lists them."""


@click.group("memory", cls=Group)
@click.version_option(package_name="memory-worker", prog_name="memory-worker")
def memory() -> None:
    """Durable memory for AI agents.

    At a terminal you speak as the person human-me, otherwise as agent-default; --as NAME and MEMORY_CREDENTIALS=FILE
    say otherwise. Exit codes: 0 done, 1 refused, 2 wrong usage or settings, 3 not found, 4 not available.
    """


for _module in _MODULES:
    for _command in importlib.import_module(f"memory_worker.cli.{_module}").COMMANDS:
        memory.add_command(_command)


def main() -> None:
    """Run the command line; a reader that went away (`| head`) is no error."""
    try:
        memory.main(prog_name="memory")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


__all__ = ["main", "memory"]
