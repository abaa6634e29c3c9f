"""The bridge's settings come from the environment, the key from a file if there is one, and every mistake is named."""

from pathlib import Path

import pytest

from memory_router import RouterSettings, SettingsError, read_settings


def test_the_environment_sets_everything() -> None:
    """Numbers are read as numbers; what is not set keeps its default."""
    read = read_settings(
        {"MEMORY_ROUTER_URL": "https://api.example.com/v1", "MEMORY_ROUTER_RETRIES": "5", "OTHER": "x"}
    )

    assert read == RouterSettings(url="https://api.example.com/v1", retries=5)


def test_the_key_of_a_file_wins(tmp_path: Path) -> None:
    """A key file keeps the key out of the environment; the newline at its end is not part of it."""
    file = tmp_path / "key"
    file.write_text("from-file\n")
    read = read_settings({"MEMORY_ROUTER_API_KEY": "from-env", "MEMORY_ROUTER_API_KEY_FILE": str(file)})

    assert read.api_key == "from-file"


def test_the_key_is_not_shown() -> None:
    """Printing the settings does not print the key."""
    assert "very-private" not in repr(RouterSettings(api_key="very-private"))


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"MEMORY_ROUTER_URL": "localhost"}, "MEMORY_ROUTER_URL"),
        ({"MEMORY_ROUTER_RETRIES": "many"}, "MEMORY_ROUTER_RETRIES"),
        ({"MEMORY_ROUTER_MODLE": "x"}, "MEMORY_ROUTER_MODLE"),
        ({"MEMORY_ROUTER_API_KEY_FILE": "/no/such/file"}, "MEMORY_ROUTER_API_KEY_FILE"),
    ],
)
def test_a_mistake_is_named(environ: dict[str, str], named: str) -> None:
    """A wrong value, an unknown name and an unreadable key file say which variable is at fault."""
    with pytest.raises(SettingsError, match=named):
        read_settings(environ)
