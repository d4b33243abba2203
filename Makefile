PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check lint types clean

demo: $(VENV)/.installed
	$(BIN)/autoforge demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --cov --cov-report=term

check: lint types test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "autoforge needs Python 3.11 or newer; this is %s. Say which one with: make PYTHON=python3.11 ..." % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)

# pip learned --group (PEP 735) in 25.1
$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

clean:
	rm -rf $(VENV) dist .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
