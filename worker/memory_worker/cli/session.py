"""One command's view of the world: who speaks, to which bus, and how answers are printed."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from memory_contracts.client import MemoryClient
from memory_contracts.connection import BusError
from memory_contracts.credentials import Credentials, CredentialsError, load_credentials
from memory_contracts.errors import FunctionError
from memory_contracts.functions import FUNCTIONS
from memory_contracts.wire import decode_request
from memory_worker.cli.render import clean
from memory_worker.config import Settings
from memory_worker.settings_source import CONFIG_ENV, Loaded, SettingsError, load

CREDENTIALS_ENV = "MEMORY_CREDENTIALS"
PERSON = "human-me"
"""Who speaks at a terminal."""
PROGRAM = "agent-default"
"""Who speaks when standard input is no terminal: a program must not pass for a person by default."""
CONSOLIDATE = "system-consolidate"
"""The consolidate worker's own identity."""
ROUTER = "system-router"
"""The router bridge's own identity."""
CONFIG_FILE = Path(".config") / "memory-worker" / "config.toml"
"""Read below the home directory when neither `--config` nor `MEMORY_CONFIG` names a file."""

EXIT_REFUSED = 1
EXIT_NOT_FOUND = 3
EXIT_UNAVAILABLE = 4
EXIT_DEGRADED = 10
EXIT_FAILING = 11
EXIT_INTERNAL = 70
_EXIT_BY_CODE = {
    "not_found": EXIT_NOT_FOUND,
    "unavailable": EXIT_UNAVAILABLE,
    "storage_full": EXIT_UNAVAILABLE,
    "internal": EXIT_INTERNAL,
}

_AWAY = "`memory up` starts it; `memory doctor` shows what is wrong"

T = TypeVar("T")
U = TypeVar("U")


class _Null:
    """Stands for JSON null in the fields of a call, where None means “not given”."""


NULL = _Null()


class Session:
    """Options shared by all commands, and what follows from them."""

    def __init__(self) -> None:
        self.as_json = False
        self.speaks_as: str | None = None
        self.data_dir: Path | None = None
        self.config: Path | None = None
        self.timeout_s: float | None = None
        self._flags: dict[str, Any] = {}

    def loaded(self, **flags: Any) -> Loaded:
        """Read the settings; problems end the command, all of them at once."""
        try:
            self._flags = flags
            return self.reloaded()
        except SettingsError as error:
            listed = str(error).replace("\n", "\n  ")
            self.fail(
                FunctionError("invalid_input", f"the settings cannot be used:\n  {listed}"),
                code=click.UsageError.exit_code,
            )

    def reloaded(self) -> Loaded:
        """Read the settings again, from the same file, environment and flags. Raises SettingsError."""
        file = self.config
        if file is None and CONFIG_ENV not in os.environ:
            usual = Path.home() / CONFIG_FILE
            file = usual if usual.is_file() else None
        return load(file=file, flags={"data_dir": self.data_dir, **self._flags})

    def settings(self, **flags: Any) -> Settings:
        """Give the settings alone."""
        return self.loaded(**flags).settings

    def credentials_dir(self) -> Path:
        """Where `memory up` keeps one file per identity."""
        return self.settings().data_dir / "credentials"

    def credentials(self, name: str | None = None) -> Credentials:
        """Who speaks: `name`, `--as`, the file in MEMORY_CREDENTIALS, else by whether a person sits here."""
        chosen = name or self.speaks_as
        file = os.environ.get(CREDENTIALS_ENV)
        if chosen is None and file:
            path = Path(file).expanduser()
        else:
            chosen = chosen or (PERSON if sys.stdin.isatty() else PROGRAM)
            path = self.credentials_dir() / f"{chosen}.json"
            if not path.is_file():
                self._no_credentials(chosen, path)
        try:
            return load_credentials(path)
        except CredentialsError as error:
            self.fail(FunctionError("unavailable", str(error)))

    def _no_credentials(self, name: str, path: Path) -> NoReturn:
        known = sorted(file.stem for file in path.parent.glob("*.json")) if path.parent.is_dir() else []
        if known:
            hint = f"known here: {', '.join(known)}; `memory credentials add` makes another"
        else:
            hint = "start it with `memory up`, or name a file in MEMORY_CREDENTIALS, or another --data-dir"
        self.fail(FunctionError("unavailable", f"no credentials {name} in {path.parent}", hint=hint))

    def run(self, main: Callable[[MemoryClient], Awaitable[T]], *, name: str | None = None) -> T:
        """Connect, run `main` with the client, close; a failure ends the command with its exit code."""
        credentials = self.credentials(name)

        async def connected() -> T:
            client = await MemoryClient.connect(credentials, name=f"memory-cli-{credentials.principal}")
            try:
                return await main(client)
            finally:
                await client.close()

        return self.guard(connected, speaks_as=f"{credentials.route}-{credentials.principal}")

    def guard(self, main: Callable[[], Awaitable[T]], *, speaks_as: str = "") -> T:
        """Run `main` on an event loop; a failure ends the command with its exit code."""

        async def whole() -> T:
            return await main()

        try:
            return asyncio.run(whole())
        except FunctionError as error:
            if error.code == "forbidden" and speaks_as and speaks_as != PERSON and error.hint is None:
                error.hint = f"you speak as {speaks_as}; a person's command needs --as {PERSON}"
            if error.code == "unavailable" and error.hint is None:
                error.hint = _AWAY
            self.fail(error)
        except BusError as error:
            self.fail(FunctionError("unavailable", str(error), hint=_AWAY))
        except KeyboardInterrupt:
            sys.exit(130)

    def call(self, function: str, key: str | None = None, /, **fields: Any) -> Any:
        """Call one function; fields that are None are left out. Gives the reply struct."""
        return self.run(lambda client: self.ask(client, function, key, **fields))

    async def ask(self, client: MemoryClient, function: str, key: str | None = None, /, **fields: Any) -> Any:
        """Check the fields as the worker will, and call on an open client; fields that are None are left out."""
        given = {name: None if value is NULL else value for name, value in fields.items() if value is not None}
        request = decode_request(FUNCTIONS[function], msgspec.json.encode(given))
        return await client.call(function, request, idempotency_key=key, within=self.timeout_s)

    def emit(self, reply: Any, text: Callable[[], str]) -> None:
        """Print the reply: one JSON line for programs, `text` for people."""
        if self.as_json:
            click.echo(msgspec.json.encode(reply).decode())
        else:
            click.echo(text())

    def fail(self, error: FunctionError, *, code: int | None = None) -> NoReturn:
        """Print an error with its field and hint, and leave."""
        if self.as_json:
            click.echo(msgspec.json.encode(error.body()).decode(), err=True)
        else:
            field = f" (field {error.field})" if error.field else ""
            click.echo(f"{click.style('error', fg='red')}: {clean(error.message, keep_lines=True)}{field}", err=True)
            if error.hint:
                click.echo(f"  hint: {clean(error.hint)}", err=True)
        sys.exit(_EXIT_BY_CODE.get(error.code, EXIT_REFUSED) if code is None else code)

    def checked(self, read: Callable[[U], T], value: U) -> T:
        """Read a command-line value; what does not fit ends the command."""
        try:
            return read(value)
        except FunctionError as error:
            self.fail(error)

    def at_terminal(self) -> bool:
        """Whether a person can be asked."""
        return sys.stdin.isatty()

    def typed_again(self, question: str, option: str) -> str:
        """Have a name typed; without a terminal only `option` gives it."""
        if not self.at_terminal():
            self.fail(FunctionError("invalid_input", "nobody is here to type it", field=option))
        return str(click.prompt(question)).strip()

    def confirm(self, question: str, yes: bool) -> None:
        """Ask before something is destroyed; without a terminal only `--yes` goes on."""
        if yes:
            return
        if not self.at_terminal():
            self.fail(FunctionError("invalid_input", "nobody is here to ask", field="--yes", hint="add --yes if sure"))
        if not click.confirm(question):
            click.echo("nothing was changed")
            sys.exit(EXIT_REFUSED)


def session_of(context: click.Context) -> Session:
    """Give the session of a command."""
    return context.ensure_object(Session)
