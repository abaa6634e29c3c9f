"""The command and group types that give every command the shared options."""

from pathlib import Path
from typing import Any

import click

from memory_worker.cli.session import Session, session_of


def _set(name: str) -> Any:
    def remember(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            setattr(session_of(context), name, value)

    return remember


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_set("as_json"), help="Print JSON, for programs."
        ),
        click.Option(
            ["--as"],
            expose_value=False,
            callback=_set("speaks_as"),
            metavar="NAME",
            help="Speak as NAME (human-me, agent-default, …).",
        ),
        click.Option(
            ["--data-dir"],
            type=click.Path(path_type=Path, file_okay=False),
            expose_value=False,
            callback=_set("data_dir"),
            help="Where everything lies.  [default: ~/.local/share/memory-worker]",
        ),
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path, dir_okay=False),
            expose_value=False,
            callback=_set("config"),
            help="TOML file of settings.",
        ),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0.1, max=3_600),
            expose_value=False,
            callback=_set("timeout_s"),
            metavar="SECONDS",
            help="Longest wait for an answer.  [default: by function]",
        ),
    ]


class Command(click.Command):
    """A command that takes the shared options anywhere after its name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_shared_options())


class Group(click.Group):
    """A group of commands; the shared options may also stand before the command's name."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_shared_options())

    def list_commands(self, _: click.Context) -> list[str]:
        """Keep the order in which commands were added: by what people need first."""
        return list(self.commands)


pass_session = click.make_pass_decorator(Session, ensure=True)
