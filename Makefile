# Every target does its own set-up, on a fresh machine too: it finds a Python >= 3.11, makes .venv
# and installs the project into it. A second run is quick; a change of pyproject.toml installs anew.

SHELL := /bin/sh
BIN := .venv/bin
# Tests wait for processes more than they compute; more than four at once fight over a small machine.
WORKERS ?= auto
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test browser lint types format check bench wheel clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.hub ## a hub, three runners and two runs on this machine (KEEP=0: end by itself)
	@$(BIN)/shunter demo $(if $(filter 0 no false,$(KEEP)),--no-keep)

# Playwright keeps an event loop in the process that drives the browser: those tests run by themselves.
test: .venv/.test ## all tests (ARGS="tests/wire -k matrix" for some; WORKERS=0: one after the other)
	@.ci/packages
	@$(BIN)/pytest -q -n $(WORKERS) --maxprocesses 4 --dist loadgroup -m "not browser" $(ARGS)
	@$(if $(ARGS),,$(BIN)/pytest -q -m browser)

browser: .venv/.test ## only the tests that drive the pages in Chromium
	@.ci/packages
	@$(BIN)/pytest -q -m browser $(ARGS)

lint: .venv/.test ## ruff: faults and form
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/.test ## mypy, strict
	@$(BIN)/mypy

format: .venv/.test ## bring all files into form
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

check: lint types test ## all that a change must pass

bench: .venv/.test ## measure this machine (figures, no verdict)
	@$(BIN)/python -m tests.bench.claim_path $(ARGS)
	@$(BIN)/python -m tests.bench.waiting

wheel: .venv/.test ## build dist/shunter-*.whl
	@$(BIN)/python -m build --wheel --no-isolation

clean: ## remove what was made here, .venv too
	@rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-data
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.hub: pyproject.toml .ci/setup
	@.ci/setup 'hub,postgres' $@

.venv/.test: pyproject.toml .ci/setup
	@.ci/setup 'hub,postgres,test' $@
