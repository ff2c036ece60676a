# verism from a bare checkout. Needs GNU make, bash and Python 3.11 or later with pip and venv; everything else is
# installed into .venv. Repeated calls are quick: stamp files say what is installed already.
#
#   make demo     make test     make help

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The first of these that runs and is new enough; `make PYTHON=/path/to/python` overrides.
PYTHON ?= $(shell for p in python3.11 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV ?= .venv
OUT ?= demo_run
WORKERS ?= 2
PYTEST_ARGS ?=
ISA_ARGS ?=
RELEASE_ARGS ?=

BIN := $(VENV)/bin
# Versions that were tested together. Torch comes first and by its exact version: where a CPU build is configured this
# takes it, while any looser request made without torch installed may bring gigabytes of CUDA libraries.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CONSTRAINTS := -c constraints.txt
TORCH := $(shell sed -n 's/^\(torch==[^ ]*\).*/\1/p' constraints.txt)

CREATED := $(VENV)/.stamp-created
CORE := $(VENV)/.stamp-core
DEV := $(VENV)/.stamp-dev
DOCS := $(VENV)/.stamp-docs
RELEASE := .venv-release/.stamp

.PHONY: help demo install dev test test-ray test-isa check check-systems docs docs-check format bench lock release-check clean distclean \
	no-torchvision

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(CORE) ## The whole job, offline, in minutes: images of known truth, detector, table, report
	$(BIN)/verism demo --out $(OUT)

install: $(CORE) ## Install verism (the core: no PyTorch) into .venv

dev: $(DEV) ## Install verism with everything its tests need into .venv

test: check ## Format, lint, types, imports between parts, and all tests
	@# One thread for each worker's arithmetic: two libraries that both take every core slow each other down. Compiled
	@# files are kept even where the environment says otherwise: without them every worker, and every process that a
	@# test starts, compiles verism and the tests anew.
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-ray: $(DEV) ## The tests on a Ray cluster of this machine, with nothing beside them
	VERISM_TEST_RAY=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/pipeline/test_ray.py tests/test_tutorials.py::test_blocks_that_need_ray_run

test-isa: $(DEV) ## The numeric tests as on other processors, and which of them pass narrowly
	$(BIN)/python tests/isa.py $(ISA_ARGS)

check: $(DEV) no-torchvision ## The quick half of `make test`: everything but the tests
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check-systems: $(DEV) ## Types as on Windows and macOS: finds calls that they do not have
	$(BIN)/mypy --platform win32
	$(BIN)/mypy --platform darwin

# A torchvision that does not fit torch makes transformers fail with a misleading message; nothing here may bring it.
no-torchvision: $(DEV)
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit("torchvision is installed in $(VENV), and nothing of verism needs it; a dependency brought it: pip uninstall torchvision" if u.find_spec("torchvision") else 0)'

docs: $(DOCS) ## The documentation site, in site/: search, navigation, every link checked; needs no network
	$(BIN)/zensical build --clean --strict
	$(BIN)/python tools/check_site.py site

docs-check: $(DEV) ## Generated pages are as the code, links and commands in documents lead somewhere
	$(BIN)/python -m pytest tests/test_docs_generated.py tests/test_docs_site.py tests/test_tutorials.py tests/test_project.py tests/test_extending_docs.py tests/test_release.py

format: $(DEV) ## Format the code and mend what can be mended automatically
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

bench: $(DEV) ## Speed of renderer, detector, pipeline, store and start-up, as ratios
	$(BIN)/python benchmarks/run.py

lock: $(RELEASE) ## Write requirements.lock anew: what the Dockerfile installs, with hashes
	.venv-release/bin/python tools/lock.py

release-check: $(RELEASE) ## Build, look at, install and use what would be released; RELEASE_ARGS="--extra core" for less
	.venv-release/bin/python tools/release_check.py $(RELEASE_ARGS)

clean: ## Remove what was made, but not .venv
	rm -rf $(OUT) build dist site .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## Remove .venv as well
	rm -rf $(VENV) .venv-release

$(CREATED):
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	  echo "verism needs Python 3.11 or later, and found $(or $(PYTHON),none) ($$(python3 --version 2>&1 || true))." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(CORE): $(CREATED) pyproject.toml constraints.txt
	$(PIP) install $(CONSTRAINTS) -e .
	@touch $@

$(DEV): $(CREATED) pyproject.toml constraints.txt
	$(PIP) install $(CONSTRAINTS) $(TORCH)
	$(PIP) install $(CONSTRAINTS) -e '.[dev]'
	@touch $(CORE) $@

$(DOCS): $(CREATED) pyproject.toml constraints.txt
	$(PIP) install $(CONSTRAINTS) -e '.[docs]'
	@touch $@

$(RELEASE): tools/release-requirements.txt
	@if [ -z "$(PYTHON)" ]; then echo "No Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; fi
	"$(PYTHON)" -m venv .venv-release
	.venv-release/bin/python -m pip --disable-pip-version-check --quiet install -r $<
	@touch $@
