# One command runs it, one tests it; both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ../shared/data
WORKERS ?= 2

.PHONY: run test check lint types setup setup-dev bench eval crash soak schemas lock clean

run: setup
	$(BIN)/memory up

test: check
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

check: setup-dev
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(VENV)/.runtime
setup-dev: $(VENV)/.dev

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "memory-worker needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python requirements.lock pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python requirements-dev.lock pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@ $(VENV)/.runtime

bench: setup-dev
	$(BIN)/python -m tests.benchmarks.bench

eval: setup-dev
	$(BIN)/python -m tests.benchmarks.eval --data $(DATA)

crash: setup-dev
	$(BIN)/python -m tests.crash.long
	$(BIN)/pytest -n $(WORKERS) -m slow

soak: setup-dev
	$(BIN)/python -m tests.benchmarks.soak

schemas: setup-dev
	$(BIN)/python -m memory_contracts.generate

lock: setup-dev
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q --extra dev pyproject.toml -o requirements-dev.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
