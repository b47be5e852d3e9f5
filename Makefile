# Every target makes .venv first where it must. PYTHON=python3.12 chooses the interpreter that makes it.
# On Linux without an NVIDIA GPU, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu saves a download of CUDA.

PYTHON ?= python3
BIN = .venv/bin
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2
# Training arguments: make train ARGS="--seed 1 --set iterations=50"
ARGS ?=

.PHONY: help install train test test-slow bench format lint type clean

help:
	@echo "make train      train a league of small language models by self-play (minutes, no GPU, no download)"
	@echo "make test       run the tests; make test-slow runs the long ones too"
	@echo "make bench      run the benchmarks"
	@echo "make format     format the code; make lint and make type check it"
	@echo "make install    only make .venv"
	@echo "make clean      remove .venv and caches; runs/ stays"

install: .venv/.installed

# pip, not make, judges what is already there, so a changed setup.py or constraints.txt updates .venv in place.
.venv/.installed: setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "league needs Python 3.11 or newer, and $(PYTHON) is `$(PYTHON) --version 2>&1`."; \
	  echo "Install one and name it, for example: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv, once: PyTorch first, then the rest. This takes one to five minutes."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "Installed. The command is $(BIN)/league; try: $(BIN)/league --help"

train: .venv/.installed
	@$(BIN)/league train pocket $(ARGS)

test: .venv/.installed
	@$(PYTEST) -m "not slow"

test-slow: .venv/.installed
	@$(PYTEST)

bench: .venv/.installed
	@$(BIN)/python -m benchmarks

format: .venv/.installed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: .venv/.installed
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

type: .venv/.installed
	@$(BIN)/mypy

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
