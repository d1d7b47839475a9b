# `make help` lists the targets. Everything needs only Python >= 3.11 (with pip and venv) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install install-dev demo run test test-all fuzz lint format bench docs lock dist clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(INSTALLED): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(INSTALLED_DEV): $(INSTALLED) requirements-dev.lock
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	@touch $@

install: $(INSTALLED) ## create .venv with the locked dependencies and the project

install-dev: $(INSTALLED_DEV) ## as install, with what tests and linters need

demo: install ## start everything, upload the sample corpus, search it, stop
	$(BIN)/python -m shoal.cli demo

run: install ## leave the service running on http://127.0.0.1:8000 until Ctrl-C
	$(BIN)/shoal up

lint: install-dev ## ruff, mypy (strict), import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes: more of them leave too little of a small machine to the services that tests start.
test: lint ## the linters and the whole test suite
	$(BIN)/pytest --numprocesses 2 --dist loadfile

test-all: lint ## as test, with the long chaos runs, then the wheel and the tests under every Python found
	SHOAL_TEST_LONG=1 $(BIN)/pytest --timeout 1800
	$(BIN)/python tests/python_versions.py

fuzz: install-dev ## an hour of generated input to everything that reads input; findings go to build/fuzz
	$(BIN)/python tests/hostile/fuzz.py --seconds 3600

bench: install-dev ## print the numbers that the documentation quotes
	$(BIN)/python -m benchmarks

docs: install-dev ## build the pages of docs/ into build/site
	$(BIN)/mkdocs build --strict --quiet

format: install-dev ## let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

PIP_COMPILE := $(BIN)/pip-compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

# What is optional for others; `make install` has it.
EXTRAS := --extra pdf --extra office --extra watch --extra mcp --extra postgres

lock: install-dev ## resolve pyproject.toml anew into the two lock files
	$(PIP_COMPILE) --upgrade $(EXTRAS) --output-file requirements.lock pyproject.toml
	$(PIP_COMPILE) --upgrade --extra dev $(EXTRAS) --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

dist: install-dev ## the sdist, the wheel made from it, and those of the client, lagoon, MiniLM and wordnets, into dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --wheel --outdir dist client
	$(BIN)/python -m build --wheel --outdir dist lagoon
	$(BIN)/python -m build --wheel --outdir dist minilm
	for folder in wordnets/*/; do $(BIN)/python -m build --wheel --outdir dist $$folder || exit 1; done

clean: ## remove what the targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -type d -name __pycache__ -prune -exec rm -rf {} +
