# Two commands matter: `make lab` opens the course, `make test` checks everything. Both set up what they need.
# PYTHON picks the interpreter that makes the virtual environment (3.11 or newer, as the pins in constraints.txt).

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS   ?= 2

.PHONY: lab test lint types spell unit notebooks build clean

lab: $(VENV)/.course
	$(BIN)/minikv lab

test: lint types spell unit notebooks

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

spell: $(VENV)/.dev
	$(BIN)/codespell

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope

# Strict nbval: every output of every notebook is run again and compared.
notebooks: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope --nbval notebooks

build: $(VENV)/.dev
	$(BIN)/python notebooks/build.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is missing or older than 3.11; try: make lab PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.course: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[course,serving]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.course
