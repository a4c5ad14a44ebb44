# make demo    a scripted agent's turn through the example hooks, and through a hook of yours: make demo HOOK=./my_hook.sh
# make quick   lint, types, the tests that start no process, and a few that do: after each change
# make test    all tests
# make check   all checks: lint, format, types, tests, coverage
# make compiled  build the package with a compiled core, and run the tests of the core on it; needs a C compiler
# make alone    the tests of the core in a checkout of nothing else, and those of the rooms beside it without extensions
# make coverage  the lines and branches of the whole package that the tests reach
# make stub    write the stubs for type checkers: the public names, and the signatures of the blocking host
# make examples  write the first hooks on pages and in hooks_examples/ from the templates of `picohook new`
# make reference  write what the code says into the reference: the entries of the API, the keys of a configuration, messages, requirements
# make docstrings  draw 150 docstrings at random, for a person to read; SEED=7 repeats a draw
# make faults  write the table of faults in docs from the results of its tests
# make fuzz    search for bytes that break the decoder or the peer, for SECONDS (60)
# make planted  plant 60 faults in the core, one at a time, and see which the tests find; ONLY="3 17" plants two of them
# make soak    kill, stop, flood and replace hooks under load, for MINUTES (1)
# make bench   measure the speed, PEERS=DIR beside PicoClaw's host (a checkout), which also writes the page about speed; needs a C compiler
# make fleet   three NATS servers, three workers and two hosts on this machine: an attacker, a worker that hangs, a server killed
# make many    a sidecar under 50 clients and 100,000 calls
# make site    build the documentation as a site, in site/
# make pictures  draw the pictures of the documentation
# make site-serve  show the site on http://127.0.0.1:8000, and build it again when a page changes
# make bare     picohook without extras in an empty environment: a host of hooks in Python and C, and what messages say to install
# make release-check   all of a release that needs no index: build, compare, install alone, SBOM; TAG=v1.2.3 for a tag
# make agents  vendor mode, the shim, the queue and the drill against the programs of other agents, which npm installs; with a model of this machine
# make frameworks  the tests of each framework integration, in an environment with only that framework
# make macos   tests on Linux without what Linux alone has, and with what is documented of macOS
# make matrix  the fast tests of the core on each other supported Python that is installed, on the first with the oldest libraries
# make clean   remove everything that these commands made
#
# To use another Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHECK := import sys; print("Python %d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))
CONSTRAINTS := constraints.txt
PIP = $(BIN)/python -m pip install --disable-pip-version-check --no-input --progress-bar off --constraint $(CONSTRAINTS)
# pip says little with --quiet, also about its errors. So it says all into a file, whose end is shown if it fails.
INSTALL = @echo "Installing into $(VENV) ..."; $(PIP) --editable $(1) >$(VENV)/pip.log 2>&1 || { tail -n 25 $(VENV)/pip.log >&2; exit 1; }

# The files that need full branch coverage.
CORE := picohook/protocol/*,picohook/engine/chain.py,picohook/engine/apply_decision.py,picohook/model/failure_policy.py
# Counting is slow, so `make check` counts only the rooms of these files, and what the tests below reach of them.
COUNTED := --source=picohook/protocol,picohook/engine,picohook/model
COUNT := $(addprefix --count=tests/,core protocol calls sessions extensions/test_early_answers.py together/test_guards_hold.py host/test_hooks_beside_the_chain.py host/test_pauses_are_answered.py process/test_hints.py)

COMPILED := build/compiled
ON_COMPILED := tests/core tests/protocol tests/process tests/host tests/calls tests/sessions

.DEFAULT_GOAL := help
.PHONY: help demo quick test check compiled macos alone coverage matrix quick-on stub examples reference docstrings faults fuzz planted soak bench many fleet pictures site \
	site-serve bare release-check agents frameworks clean

# An environment is made again for a Python that is named and is another one, and where it, or its Python, was moved.
NAMED := $(filter-out file,$(origin PYTHON))
MADE := $(shell sed -n 's/^version = //p; s/^command = .* --clear //p' $(VENV)/pyvenv.cfg 2>/dev/null)
WANTED := $(shell $(if $(NAMED),$(PYTHON),$(BIN)/python) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) $(CURDIR)/$(VENV)
ifneq ($(MADE),$(WANTED))
.PHONY: $(VENV)/.made
endif

# What each other Python is tried on: `make matrix ON_EACH=tests/cli` tries another room.
ON_EACH := tests/core tests/protocol tests/process tests/calls tests/sessions tests/sdk tests/config

# The Python versions that pyproject.toml lists.
PYTHONS := $(shell sed -n 's/.*:: Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)

# The tests start thousands of short processes. Compiled bytecode is kept, so that each file is compiled once.
unexport PYTHONDONTWRITEBYTECODE

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@$(BIN)/python hooks_examples/demo.py $(if $(HOOK),--hook $(HOOK))

quick: $(VENV)/.installed-dev
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy
	$(BIN)/python -m pytest --workers auto -q --quick

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --workers auto

check: $(VENV)/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/coverage erase
	$(BIN)/coverage run $(COUNTED) -m pytest --workers auto --faults=check $(COUNT)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --include='$(CORE)' --fail-under=100

# Deselected: a weak reference, which compiled classes do not have.
compiled: $(VENV)/.installed-dev
	@rm -rf $(COMPILED)
	PICOHOOK_COMPILE=1 $(PIP) --quiet --no-deps --target $(COMPILED) .
	PYTHONPATH=$(abspath $(COMPILED)) $(BIN)/python -P -m pytest --workers auto -q --quick -p no:cacheprovider $(ON_COMPILED) \
		-k 'not an_unfinished_line_is_freed'

alone: $(VENV)/.installed-dev
	HYPOTHESIS_PROFILE=few $(BIN)/python tests/alone.py core --workers auto
	HYPOTHESIS_PROFILE=few $(BIN)/python tests/alone.py offered --workers auto

coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --workers auto
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

# The rooms that speak to the system. It was never run on a Mac.
macos: $(VENV)/.installed-dev
	PYTHONPATH=tests/helpers $(BIN)/python -m pytest -p like_macos --workers auto -q tests/core tests/protocol tests/process tests/calls \
		tests/sessions tests/ext/control tests/ext/sidecar

# Each other Python has its own environment, without the frameworks of picohook.integrations. pyenv may have it. The first has the
# oldest libraries that pyproject.toml allows.
matrix:
	@constraints=constraints-oldest.txt; for version in $(filter-out $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'),$(PYTHONS)); do \
		echo "== Python $$version, $$constraints"; \
		export PYENV_VERSION=$$(pyenv latest $$version 2>/dev/null); \
		if python$$version -c pass 2>/dev/null; then \
			$(MAKE) --no-print-directory quick-on VENV=.venv-$$version PYTHON=python$$version CONSTRAINTS=$$constraints || exit 1; \
			constraints=constraints.txt; \
		else \
			echo "was not tried: there is no python$$version"; \
		fi; \
	done

quick-on: $(VENV)/.installed-test
	@HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest --workers 2 -q --quick -p no:cacheprovider $(ON_EACH)

stub: $(VENV)/.installed-dev
	$(BIN)/python tests/stubs.py

examples: $(VENV)/.installed-dev
	$(BIN)/python tests/first_hooks.py

reference: $(VENV)/.installed-dev
	$(BIN)/python docs/site/api.py
	$(BIN)/python docs/site/config_keys.py
	$(BIN)/python docs/site/messages.py
	$(BIN)/python docs/site/requirements.py

docstrings: $(VENV)/.installed-dev
	@$(BIN)/python tests/docs/sample_docstrings.py $(SEED)

faults: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --workers auto -m fault --faults=write

fuzz: $(VENV)/.installed-dev
	@$(PIP) --quiet --editable '.[fuzz]' 2>/dev/null || echo "There is no atheris for this Python on this machine." >&2
	$(BIN)/python tests/fuzz --seconds $(or $(SECONDS),60)

planted: $(VENV)/.installed-dev
	$(BIN)/python tests/planted $(ON_COMPILED) $(if $(ONLY),--only $(ONLY))

soak: $(VENV)/.installed-dev
	$(BIN)/python tests/soak --minutes $(or $(MINUTES),1)
	$(BIN)/python tests/soak/approvals.py --minutes $(or $(MINUTES),1)

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks --rounds 3 $(if $(PEERS),--peers $(PEERS) --write)

many: $(VENV)/.installed-dev
	PICOHOOK_CALLS=2000 $(BIN)/python -m pytest -q -s --timeout 600 tests/ext/sidecar/test_many.py

fleet: $(VENV)/.installed-dev
	$(BIN)/python tests/fleet

site: $(VENV)/.installed-dev
	@$(BIN)/python docs/site/pages.py
	$(BIN)/python -m pytest -q tests/docs/in_a_browser.py

pictures: $(VENV)/.installed-dev
	$(BIN)/python docs/site/pictures.py
	$(BIN)/python docs/site/terminals.py
	$(BIN)/python docs/site/approvals.py

site-serve: $(VENV)/.installed-dev
	@$(BIN)/python docs/site/pages.py --serve

bare: $(VENV)/.installed
	$(BIN)/python tests/bare.py

release-check: $(VENV)/.installed-dev
	$(BIN)/python tests/release.py $(if $(TAG),--tag $(TAG))

frameworks: $(VENV)/.installed
	$(BIN)/python tests/integrations/alone.py $(EXTRAS)

# A program that npm has not installed is named, and not tried. If npm finds one of the versions nowhere, it installs none.
agents: $(VENV)/.installed-dev
	-@npm install --silent --no-package-lock --no-audit --no-fund --prefix tests/agents
	$(BIN)/python tests/agents $(PROGRAMS)

clean:
	rm -rf $(VENV) .venv-3.* build site .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The environment is made again when pyproject.toml or the pins are newer.
$(VENV)/.made: pyproject.toml $(CONSTRAINTS)
	@version=$$($(PYTHON) -c '$(CHECK)' 2>/dev/null) || { \
		echo "picohook needs Python 3.11 or newer, and $(PYTHON) is $${version:-not there}." >&2; \
		echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) -V) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.made
	$(call INSTALL,'.[cli]')
	@touch $@

$(VENV)/.installed-test: $(VENV)/.made
	$(call INSTALL,'.[test]')
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made
	$(call INSTALL,'.[dev]')
	@touch $@
