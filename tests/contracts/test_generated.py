"""What is generated from the structs: present, fresh, valid."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

import memory_contracts
from memory_contracts import FUNCTIONS, generate
from memory_contracts.client import MemoryClient

CONTRACTS = Path(memory_contracts.__file__).parent.parent


def test_files_are_fresh() -> None:
    """The schemas and the AsyncAPI document in the repository are what `make schemas` would write now."""
    there = {path.name: path.read_text("utf-8") for path in (CONTRACTS / "schemas").glob("*.json")}
    assert there == generate.schemas(), "run `make schemas`"
    assert (CONTRACTS / "asyncapi.yaml").read_text("utf-8") == generate.asyncapi(), "run `make schemas`"


@pytest.mark.parametrize("name", sorted(generate.messages()))
def test_every_schema_is_valid(name: str) -> None:
    """Every schema is a valid one of draft 2020-12."""
    schema = msgspec.json.decode((CONTRACTS / "schemas" / f"{name}.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("request_", "fits"),
    [
        ({"text": "The user has a dog.", "tags": ["pets"]}, True),
        ({"text": ""}, False),
        ({"text": "x" * 2001}, False),
        ({"text": "x", "tier": "stated"}, False),
        ({"text": "x", "bank": "Main"}, False),
        ({"text": "x", "bank": "main\n"}, False),
    ],
)
def test_schema_says_what_the_worker_says(request_: dict[str, Any], fits: bool) -> None:
    """The schema of a request takes and refuses what the worker's decoder does."""
    schema = msgspec.json.decode((CONTRACTS / "schemas" / "save.request.json").read_bytes())
    assert jsonschema.Draft202012Validator(schema).is_valid(request_) is fits
    try:
        msgspec.json.decode(msgspec.json.encode(request_), type=FUNCTIONS["save"].request)
    except msgspec.ValidationError:
        assert not fits
    else:
        assert fits


def test_asyncapi_is_whole() -> None:
    """Every function has an operation with its routes, and every reference in the document leads somewhere."""
    document = yaml.safe_load((CONTRACTS / "asyncapi.yaml").read_text("utf-8"))
    assert document["asyncapi"] == "3.0.0"
    for name, function in FUNCTIONS.items():
        assert document["operations"][name]["x-routes"] == list(function.routes)
    references: list[str] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.append(node["$ref"])
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(document)
    assert references
    for reference in set(references):
        node = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_client_has_every_function() -> None:
    """The typed client has one documented method for every function of the contract."""
    methods = {name: name.replace(".", "_") for name in FUNCTIONS} | {"import": "import_"}
    for name, method in methods.items():
        assert getattr(MemoryClient, method).__doc__ == FUNCTIONS[name].request.__doc__
