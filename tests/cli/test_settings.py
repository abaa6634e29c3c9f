"""Settings: sources, order, errors, masks, reload."""

from pathlib import Path

import pytest

from memory_worker.cli.setup import markdown_table
from memory_worker.config import RecallSettings, Settings
from memory_worker.settings_source import MASK, SettingsError, adopt, describe, load, shown


def problems(**sources: object) -> dict[str, str]:
    """Load and give what is wrong, by key."""
    with pytest.raises(SettingsError) as caught:
        load(**{"environ": {}, **sources})  # type: ignore[arg-type]
    return {problem.key: problem.message for problem in caught.value.problems}


def test_flags_win_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    """A later source replaces an earlier one, key by key."""
    file = tmp_path / "c.toml"
    file.write_text('port = 1001\nhttp_port = 2001\nlog_level = "debug"\n[recall]\nfloor = 0.1\ncandidates = 7\n')
    loaded = load(
        file=file,
        environ={"MEMORY_PORT": "1002", "MEMORY_HTTP_PORT": "2002", "MEMORY_RECALL_FLOOR": "0.5"},
        flags={"port": 1003, "http_port": None},
    )
    settings = loaded.settings
    assert (settings.port, settings.http_port, settings.log_level) == (1003, 2002, "debug")
    assert (settings.recall.floor, settings.recall.candidates) == (0.5, 7)
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["http_port"] == "MEMORY_HTTP_PORT"
    assert loaded.origins["log_level"] == str(file)


def test_memory_nats_url_wins_over_nats_url() -> None:
    """NATS_URL is read; our own variable is the more specific one."""
    assert load(environ={"NATS_URL": "nats://a"}).settings.nats_url == "nats://a"
    both = {"NATS_URL": "nats://a", "MEMORY_NATS_URL": "nats://b"}
    assert load(environ=both).settings.nats_url == "nats://b"


def test_all_problems_are_told_at_once_with_their_keys(tmp_path: Path) -> None:
    """One start tells everything that is wrong, whatever source it came from."""
    file = tmp_path / "c.toml"
    file.write_text('prot = 1\nlog_level = "loud"\n[recall]\nflor = 1\n')
    found = problems(
        file=file,
        environ={"MEMORY_HTTP_PORT": "x", "MEMORY_TENANTS": "A b", "MEMORY_VAULT_KEY": "short"},
        flags={"port": 70_000},
    )
    assert set(found) == {"prot", "log_level", "recall.flor", "http_port", "tenants", "vault_key", "port"}
    assert found["prot"] == "no such setting; did you mean port?"


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"MEMORY_EXTRACTOR": "model"}, "extractor"),
        ({"MEMORY_EMBEDDING_MODEL": "router"}, "embedding_model"),
        ({"MEMORY_CONTEXT_MAX_PINNED": "9"}, "context_max_pinned"),
        ({"MEMORY_EXTRACTION_BACKOFF_S": "301"}, "extraction_backoff_s"),
        ({"MEMORY_DISK_FREE_MIN_MB": "513"}, "disk_free_min_mb"),
        ({"MEMORY_ROUTER_EMBED_SUBJECT": "r.{x}"}, "router_embed_subject"),
        ({"MEMORY_ROUTER_EMBED_SUBJECT": "r.{"}, "router_embed_subject"),
        ({"MEMORY_TENANTS": "a,b", "MEMORY_ROUTER_EMBED_SUBJECT": "r.embed"}, "router_embed_subject"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(environ: dict[str, str], key: str) -> None:
    """A value that fits alone may not fit the others."""
    assert set(problems(environ=environ)) == {key}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing or broken file stops the start; defaults are not used silently."""
    assert "cannot be read" in problems(file=tmp_path / "none.toml")["config"]
    (tmp_path / "bad.toml").write_text("a = [")
    assert "is not TOML" in problems(environ={"MEMORY_CONFIG": str(tmp_path / "bad.toml")})["config"]


def test_a_misspelt_variable_is_warned_about_and_a_foreign_one_is_not() -> None:
    """Our prefix is a common word: only what looks like a misspelt setting is mentioned."""
    loaded = load(environ={"MEMORY_LOG_LEVL": "debug", "MEMORY_LIMIT": "512"})
    assert loaded.warnings == ["MEMORY_LOG_LEVL is not a setting; did you mean MEMORY_LOG_LEVEL?"]


def test_health_on_a_public_address_is_warned_about() -> None:
    """Health asks no password, so leaving loopback is said out loud."""
    assert load(environ={}).warnings == []
    assert "0.0.0.0" in load(environ={"MEMORY_HTTP_HOST": "0.0.0.0"}).warnings[0]


def test_lists_and_switches_are_read_from_the_environment() -> None:
    """Lists are comma-separated; switches take the words people write."""
    settings = load(environ={"MEMORY_TENANTS": "a, b", "MEMORY_FILES": "off", "MEMORY_SUB_AGENT_TURNS": "yes"}).settings
    assert (settings.tenants, settings.files, settings.sub_agent_turns) == (("a", "b"), False, True)


def test_secrets_are_never_shown_and_never_quoted_in_errors() -> None:
    """Neither `config show` nor an error gives a password away."""
    settings = load(environ={"NATS_URL": "nats://u:hunter2@h", "MEMORY_VAULT_KEY": "A" * 43 + "="}).settings
    values = shown(settings)
    assert (values["nats_url"], values["vault_key"]) == (MASK, MASK)
    assert "hunter2" not in str(problems(environ={"MEMORY_VAULT_KEY": "hunter2"}))


def test_only_settings_that_may_change_while_running_are_taken_over() -> None:
    """A reload names what it took and what needs a restart."""
    old = Settings()
    new = Settings(log_level="debug", port=1, ready_lag_rows=5, recall=RecallSettings(floor=0.5), files=False)
    adopted = adopt(old, new)
    assert set(adopted.taken) == {"log_level", "ready_lag_rows", "recall.floor"}
    assert set(adopted.needs_restart) == {"port", "files"}
    settings = adopted.settings
    assert (settings.log_level, settings.ready_lag_rows, settings.recall.floor) == ("debug", 5, 0.5)
    assert (settings.port, settings.files, settings.recall.candidates) == (4222, True, old.recall.candidates)


def test_a_reload_takes_nothing_over_that_contradicts_what_stays() -> None:
    """A model cannot begin to read before the restart that brings its router."""
    adopted = adopt(Settings(), Settings(extractor="model", router="required", context_max_items=9))
    assert (adopted.taken, set(adopted.needs_restart)) == (["context_max_items"], {"extractor", "router"})
    assert (adopted.settings.extractor, adopted.settings.router) == ("auto", "none")


def test_every_setting_says_what_it_does_and_its_default_fits_its_bounds() -> None:
    """The table in the docs comes from the struct, so the struct must be complete."""
    docs = describe()
    assert len({doc.key for doc in docs}) == len(docs) > 70
    for doc in docs:
        assert doc.description.endswith("."), doc.key
    environ = {doc.env: doc.default for doc in docs if doc.default and doc.key != "data_dir"}
    assert load(environ=environ).settings == Settings()


def test_the_table_in_the_docs_is_what_the_program_prints() -> None:
    """`memory config table > …` was run after the last change of a setting."""
    document = (Path(__file__).parents[2] / "deploy" / "SETTINGS.md").read_text()
    assert document.endswith(markdown_table() + "\n")
