# Everything happens in .venv in this checkout; nothing outside it is installed, changed or removed.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kvcheck-setup
PYTEST_ARGS ?=

# The first Python 3.11 that runs and can make an environment: `make setup PYTHON=/path/to/python3.11` names another.
CANDIDATES := python3.11 "$$HOME"/.pyenv/versions/3.11.*/bin/python /usr/local/bin/python3.11 /usr/bin/python3.11 "$$(uv python find 3.11 2>/dev/null)"
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup run test bench check wheel clean

help: ## names the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' $(MAKEFILE_LIST)

setup: $(STAMP) ## makes .venv with everything the CPU run and the tests need

$(STAMP): pyproject.toml constraints/cpu.txt
	@test -n "$(PYTHON)" || { echo "make setup: no usable Python 3.11 found (with its venv module: python3.11-venv on Debian);" \
		"install one, or say where it is: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
		echo "make setup: $(VENV) is not a Python 3.11 environment; remove it and run make setup again" >&2; exit 1; }
	@echo "make setup: installing into $(VENV) (2 GB with a CPU build of torch; a few minutes)"
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints/cpu.txt -e '.[cpu,test]'
	@touch $@

# kvcheck exits 1 when it found a kernel to be wrong: the run did its work then, and that is what this target is for.
run: setup ## judges the built-in kernels under Triton's interpreter; the run lands in reports/
	@out="reports/paged_mqa-$$(date -u +%Y%m%dT%H%M%SZ)"; code=0; \
	$(BIN)/kvcheck run paged_mqa --out "$$out" || code=$$?; \
	case $$code in \
		0) echo "make run: every judged case passed. The run is in $$out";; \
		1) echo "make run: the run did its work and found a kernel at fault (the table above says which and where). The run is in $$out";; \
		*) echo "make run: nothing could be judged, kvcheck ended with $$code" >&2; exit $$code;; \
	esac

test: setup ## runs the tests
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -q $(PYTEST_ARGS)

bench: setup ## measures the speeds that README.md states
	$(BIN)/python -m bench

check: setup ## lint, import layers, and whether the documents tell the truth
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=harness:references $(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/house --ignore tests/house/test_install.py --ignore tests/house/test_pythons.py

wheel: setup ## builds the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean: ## removes what these targets made, the runs under reports/ excepted
	rm -rf $(VENV) .venv-front build dist .pytest_cache .hypothesis .ruff_cache .import_linter_cache
