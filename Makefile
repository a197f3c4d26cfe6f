# Two commands matter: `make lab` opens the course, `make test` checks everything. Both set up what they need.
#   PYTHON=python3.12   the interpreter that makes the virtual environment (3.11 or newer, as the pins in constraints.txt)
#   EVERY=20            `make mutants` with one mutant of each 20; PART="pools tools/why", those alone
#   make gpu            on a machine with an NVIDIA GPU: what waits for one
#   TORCH=0             `make lab` without PyTorch, for the chapters that need none
#   UV=                 pip installs, where uv would: it is used when it is there, and does the same in less time
#   make site           the course as a site; PAGES="03 which" executes those alone, and shows the stored outputs of others
#   make lite           the part of the site in which the course runs in a browser; LITE=0 makes the site without it
#   make wheel          what PyPI would get, checked, and tried in environments of its own and empty folders
#   GPU=1               PyTorch with CUDA; GPU=0 is its CPU build, a tenth of the size, and the default without nvidia-smi

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
EVERY  ?= 1
TORCH  ?= 1
LITE   ?= 1
UV     ?= $(shell command -v uv 2>/dev/null)
GPU    ?= $(if $(shell command -v nvidia-smi 2>/dev/null),1,0)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope --no-loadscope-reorder
PIP    := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(PIP) install)
REMOVE := $(if $(UV),$(UV) pip uninstall --python $(BIN)/python,$(PIP) uninstall --yes)
LAZILY := $(if $(UV),,--no-compile)
BUILD  := $(if $(filter 0,$(TORCH)),none,$(if $(filter 1,$(GPU)),cuda,cpu))
COURSE := $(VENV)/.course-$(BUILD)
DEV    := $(VENV)/.dev-$(BUILD)
VERSION   := $(patsubst torch==%,%,$(shell grep '^torch==' constraints.txt))
CUDA_SIZE := 2.8 GB to fetch, more than 5 GB on disk
comma     := ,

# The tests start hundreds of processes that import the same modules, so what is imported is compiled once and kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab set-up test lint types spell unit notebooks mutants gpu on-gpu build site lite links dist wheel clean

lab: $(COURSE)
	$(BIN)/minikv lab

# What `make lab` needs, without opening it.
set-up: $(COURSE)

# The types are checked beside the tests, where a core is free now and then, and shown after them.
test: lint spell
	@$(BIN)/mypy >$(VENV)/types.txt 2>&1 & types=$$!; \
	  $(PYTEST) --nbval; failed=$$?; \
	  wait $$types || failed=1; cat $(VENV)/types.txt; exit $$failed

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

spell: $(DEV)
	$(BIN)/codespell

unit: $(DEV)
	$(PYTEST)

# Strict nbval: every output of every notebook is run again and compared.
notebooks: $(DEV)
	$(PYTEST) --nbval notebooks

# Hours: each of some 20,000 small mistakes should make a test fail.
mutants: $(DEV)
	PYTHONHASHSEED=0 $(BIN)/python tests/mutants.py $(PART) --every $(EVERY) --jobs $(JOBS)

# What waits for a GPU: the tests that are skipped without one, the Triton kernel's among them, chapter 06, and the
# figures that the chapters show. Nothing is installed before nvidia-smi has found one.
gpu:
	@nvidia-smi --list-gpus 2>/dev/null | grep -q GPU || \
	  { echo "make gpu needs an NVIDIA GPU, and nvidia-smi finds none on this machine."; exit 2; }
	@$(MAKE) --no-print-directory GPU=1 on-gpu

on-gpu: $(DEV)
	@$(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || \
	  { echo "make gpu needs a GPU that PyTorch $(VERSION) can use, and it finds none: is the driver too old?"; exit 2; }
	$(BIN)/python -m pytest -q -rs -m gpu tests
	$(BIN)/python -m pytest -q --nbval notebooks/06_gpu_kv_copying.ipynb
	$(BIN)/python assets/copying.py --device cuda --save assets/copy.json
	$(BIN)/python assets/chatting.py --device cuda --save assets/engine.json
	$(BIN)/python notebooks/build.py 06

build: $(DEV)
	$(BIN)/python notebooks/build.py

# The site, a folder that works without a server: open _site/index.html. A warning is an error.
site: $(DEV)
	$(BIN)/python notebooks/site/pages.py _build/pages $(PAGES)
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d _build/doctrees _build/pages _site
	$(if $(filter 0,$(LITE)),rm -rf _site/lite,$(BIN)/python notebooks/site/lite.py _site/lite)

# It needs a server: python -m http.server -d _site, and then http://localhost:8000/lite/.
lite: $(DEV)
	$(BIN)/python notebooks/site/lite.py _site/lite

# Whether the links to elsewhere still lead somewhere. A site that is down for an hour is no error here.
links: $(DEV)
	$(BIN)/python notebooks/site/pages.py _build/pages map
	-$(BIN)/python -m sphinx -q -b linkcheck -d _build/doctrees _build/pages _build/links

dist: $(BIN)/python
	rm -rf dist
	$(INSTALL) -c constraints.txt build hatchling twine
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --outdir dist ./tools
	$(BIN)/python -m twine check --strict dist/*

# As a learner would, and somebody with a log, with pip and no checkout: nothing above this folder is ours.
wheel: dist
	$(BIN)/python .ci/wheel.py dist/*.whl

clean:
	rm -rf $(VENV)

# A name that pyenv knows may have no version behind it, so an answer counts, and not that a program is there.
ASK := -c 'import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))'

$(VENV)/bin/python:
	@said=$$($(PYTHON) $(ASK) 2>&1) || { \
	  case "$$said" in \
	    [23].*) echo "$(PYTHON) is Python $$said, and the course needs 3.11 or newer." ;; \
	    *) echo "$(PYTHON) cannot be run: $$said" ;; \
	  esac; \
	  found=; \
	  for python in python3 python3.11 python3.12 python3.13 python3.14 \
	    "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin/python; do \
	    version=$$("$$python" $(ASK) 2>/dev/null) || continue; \
	    [ "$$found" ] || echo "These can:"; \
	    found=1; echo "  make $(or $(firstword $(MAKECMDGOALS)),lab) PYTHON=$$python   # Python $$version"; \
	  done; \
	  [ "$$found" ] || echo "No other was found: python3, python3.11 to python3.14 and those of pyenv were tried."; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(if $(UV),true,$(PIP) install --retries 0 --timeout 5 'pip>=25') || \
	  echo "No newer pip can be reached: the one that came with $(PYTHON) does the same, only slower."

$(COURSE): $(VENV)/.torch-$(BUILD) pyproject.toml constraints.txt
	@echo "The course: 0.1 GB to fetch."
	$(INSTALL) -c constraints.txt -e '.[$(if $(filter none,$(BUILD)),course,course$(comma)serving)]'
	touch $@

# The tools are named by their folder: a package that is called `tools` belongs to somebody else.
$(DEV): $(VENV)/.torch-$(BUILD) pyproject.toml tools/pyproject.toml constraints.txt
	$(if $(filter none,$(BUILD)),$(error TORCH=0 is for `make lab`: the tests need PyTorch))
	@echo "The course, the tools and what checks both: 0.4 GB to fetch."
	$(INSTALL) $(LAZILY) -c constraints.txt -e '.[dev]' -e './tools[sweep]'
	touch $@ $(COURSE)

$(VENV)/.torch-none: $(BIN)/python
	touch $@

# Python compiles what is imported, which is a small part of what pip would compile here: hence --no-compile.
# Both builds have the same version, so pip would keep the one that is there.
$(VENV)/.torch-cuda: $(BIN)/python constraints.txt
	$(if $(wildcard $(VENV)/.torch-cpu),$(REMOVE) torch)
	@echo "PyTorch with CUDA: $(CUDA_SIZE)."
	$(INSTALL) $(LAZILY) -c constraints.txt torch
	rm -f $(VENV)/.torch-cpu
	touch $@

# PyTorch's index is asked once, and has 5 seconds to answer; without it, pip decides. What else pip is told to look
# through on this machine would answer in its place, so the question sets that aside.
$(VENV)/.torch-cpu: $(BIN)/python constraints.txt
	$(if $(wildcard $(VENV)/.torch-cuda),$(REMOVE) torch)
	@if PIP_FIND_LINKS=$(BIN) PIP_EXTRA_INDEX_URL=$(TORCH_INDEX) $(PIP) index versions torch \
	  --index-url $(TORCH_INDEX) --retries 0 --timeout 5 2>/dev/null | grep -qF $(VERSION); \
	then echo "PyTorch's CPU build: 0.2 GB to fetch."; \
	  $(INSTALL) $(LAZILY) --no-deps --index-url $(TORCH_INDEX) torch==$(VERSION); \
	else echo "$(TORCH_INDEX) cannot be reached, or has no torch $(VERSION) for this Python."; \
	  echo "PyTorch as pip finds it; on Linux often with CUDA: $(CUDA_SIZE)."; \
	  echo "To stop, press Ctrl-C; to go without PyTorch, use TORCH=0."; \
	  $(INSTALL) $(LAZILY) -c constraints.txt torch; \
	fi
	rm -f $(VENV)/.torch-cuda
	touch $@
