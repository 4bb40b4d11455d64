# Every target works on a fresh clone: it first fills .venv from a lock file (hashes checked, nothing compiled).
# What people run comes from requirements-run.lock, what contributors need besides from requirements.lock. What only
# researchers run is in lab/Makefile; its targets can be named here, too.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run
READY := .venv/.ready
PACKAGES := .venv-packages/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED := --only-binary :all: --require-hashes -r
# As many processes as cores and one more; `make test WORKERS=0` runs in one process.
WORKERS ?= auto
SCHEDULES ?= 100000
KILLS ?= 500
DAMAGES ?= 4000
EXECUTIONS ?= 1000000
PERSONS ?= 1000000
RECORDS ?= 1000000
PAIRS ?= 100000
VECTORS ?= 30000000
COMPARISONS ?= 10000000000

VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/fastlloyd/base/version.py)

.DEFAULT_GOAL := help
.PHONY: help demo test test-pages docs docs-zip test-docs quick compatibility lowest lint audit campaign notebook lock clean supply-chain packages test-packages bundle parts

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 20
	@printf '\n%s\n' 'For researchers: from lab/Makefile, and all of them work from here, too (make paper is make -C lab paper):'
	@$(MAKE) --no-print-directory -C lab help

.DEFAULT:
	@$(MAKE) --no-print-directory -C lab $@

$(RUN): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("fastlloyd needs Python 3.11 or later; try: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	@echo "Installing fastlloyd and $$(grep -c == requirements-run.lock) packages into .venv: about 220 MB to download, 850 MB on disk, one to three minutes."
	$(PYTHON) -m venv .venv
	$(INSTALL) $(LOCKED) requirements-run.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(RUN)

$(READY): requirements.lock lab/pyproject.toml $(RUN)
	@echo "Installing what tests and contributors need besides into .venv: $$(grep -c == requirements.lock) packages in all, 2 GB on disk."
	$(INSTALL) $(LOCKED) requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable lab
	@touch $(READY)

$(PACKAGES): packages/requirements.lock
	$(PYTHON) -m venv .venv-packages
	.venv-packages/bin/python -m pip install --quiet --disable-pip-version-check $(LOCKED) packages/requirements.lock
	@touch $(PACKAGES)

demo: $(RUN)  ## three hospitals cluster tumour measurements: results, picture and statement in demo-out/
	$(BIN)/fastlloyd demo --out demo-out --force

test: $(READY)  ## the tests every commit must pass
	$(BIN)/python -m pytest -n $(WORKERS)

test-pages: $(READY)  ## pages in a real browser: needs Chromium, Firefox and npm (apt install chromium firefox-esr npm), and says what it skips without them
	@npm ci --silent --prefix tests/pages || echo "npm has not installed axe-core: its checks of accessibility are skipped"
	$(BIN)/python -m pytest -n 0 -m pages tests/pages --ignore=tests/pages/test_site.py

docs: $(READY)  ## the documentation site in build/docs/VERSION, from docs/, notebooks and docstrings: open build/docs/index.html
	@test -n "$(VERSION)" || { echo "the version was not found"; exit 1; }
	rm -rf build/docs build/doctrees
	$(BIN)/python docs/site/assemble.py build/pages
	$(BIN)/python -m sphinx -W --keep-going -n -q -c docs/site -d build/doctrees build/pages build/docs/$(VERSION)
	rm -rf build/docs/jupyter_execute
	$(BIN)/python docs/site/versions.py build/docs

docs-zip: docs  ## the site as one file of a release, dist/fastlloyd-docs.zip
	@mkdir -p dist
	cd build && ../$(BIN)/python -m zipfile -c ../dist/fastlloyd-docs.zip docs

test-docs: docs  ## the site in a real browser, from the disk: links, search, requests, looks
	@npm ci --silent --prefix tests/pages || echo "npm has not installed axe-core: its checks of accessibility are skipped"
	$(BIN)/python -m pytest -n 0 -m pages tests/pages/test_site.py

quick: WORKERS := logical
quick: $(READY)  ## tests of single modules, without processes and network: about a minute, for while you work
	$(BIN)/python -m pytest -n $(WORKERS) --hypothesis-profile=quick tests/unit

# the Pythons that pyproject.toml names
# `make lowest LOWEST=quick` takes minutes
LOWEST ?= test
PYTHONS ?= python3.11 python3.12 python3.13
compatibility:  ## the tests on every Python that pyproject.toml names, each in a fresh clone; then `make lowest`
	@set -e; for python in $(PYTHONS); do \
		folder=$$(mktemp -d); \
		git clone --quiet . $$folder; \
		echo "$$python"; \
		$(MAKE) --no-print-directory -C $$folder test PYTHON=$$python; \
		rm -rf $$folder; \
	done
	@$(MAKE) --no-print-directory lowest

lowest:  ## the tests with the lowest versions that pyproject.toml allows, in a fresh clone
	@set -e; folder=$$(mktemp -d); \
	git clone --quiet . $$folder; \
	for lock in requirements requirements-run; do cp requirements-lowest.lock $$folder/$$lock.lock; done; \
	PYTEST_ADDOPTS="-W default::DeprecationWarning" $(MAKE) --no-print-directory -C $$folder $(LOWEST); \
	rm -rf $$folder

lint: $(READY)  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r src lab/src

audit: $(READY)  ## the long statistical campaigns; rewrites docs/results/audit*.md
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/audit_campaign.py
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/moment_audit_campaign.py tests/statistical/test_moment_audit.py tests/statistical/test_person_audit.py
	$(BIN)/python -m pytest -m audit -n 0 tests/statistical/test_loss_audit.py
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/coalition_campaign.py
	$(BIN)/python -m pytest -m audit -n 0 tests/unit/dp/test_quantiles.py tests/unit/dp/test_first_bits.py

campaign: $(READY)  ## schedules, kills, damaged stores, failing disks, fuzzed parsers, persons, bounds, dealt records, clipping, bytes; rewrites docs/results/campaigns.md; `make campaign SCHEDULES=5000 KILLS=50 DAMAGES=400 EXECUTIONS=9999 PERSONS=9999 RECORDS=9999 PAIRS=999 VECTORS=9999 COMPARISONS=9999` only prints
	$(INSTALL) $(LOCKED) requirements-fuzz.lock \
		|| echo "Atheris was not installed (pip says why; it has wheels for few platforms): no parser will be fuzzed"
	SCHEDULES=$(SCHEDULES) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/protocol_campaign.py
	KILLS=$(KILLS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/kill_campaign.py
	DAMAGES=$(DAMAGES) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/damage_campaign.py
	$(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/fault_campaign.py
	EXECUTIONS=$(EXECUTIONS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/fuzz_campaign.py
	PERSONS=$(PERSONS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/persons_campaign.py
	RECORDS=$(RECORDS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/bounds_campaign.py
	PAIRS=$(PAIRS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/deal_campaign.py
	$(BIN)/python -m pytest -m campaign -n $(WORKERS) tests/properties tests/unit tests/thorough tests/integration
	VECTORS=$(VECTORS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/clipping_campaign.py
	COMPARISONS=$(COMPARISONS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/eight_bits_campaign.py

notebook: $(READY)  ## runs the notebooks in examples/ anew and stores what they show
	$(BIN)/python examples/execute.py

supply-chain: $(READY)  ## known vulnerabilities in the locked dependencies; fails where the lists of vulnerabilities cannot be had
	$(BIN)/pip-audit --strict --require-hashes -r requirements-run.lock
	$(BIN)/pip-audit --strict --require-hashes -r requirements.lock

packages: $(PACKAGES)  ## sdists and wheels of the last commit in dist/, each built twice and compared
	.venv-packages/bin/python packages/wheels.py

# `make test-packages CHECK="--tests tests/unit/dp --kinds base newest"` tries less
test-packages: packages  ## the wheels in clean environments: every Python at hand; without extras; locked, newest and lowest versions; notebooks
	.venv-packages/bin/python packages/environments.py $(CHECK)

bundle: packages  ## an archive in dist/ that installs without a network on this platform and this Python; it is tried
	.venv-packages/bin/python packages/bundle.py

parts: packages  ## the licences of all that is installed (docs/licences.md), and the same as a bill of materials in dist/
	.venv-packages/bin/python packages/parts.py

COMPILE := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11
lock:  ## resolve the dependencies anew (needs uv)
	$(COMPILE) --upgrade pyproject.toml lab/requirements.in --extra dev -o requirements.lock
	$(COMPILE) pyproject.toml requirements-run.in --extra all -c requirements.lock -o requirements-run.lock
	$(COMPILE) pyproject.toml -c requirements-run.lock -o requirements-run-base.lock
	$(COMPILE) pyproject.toml --extra network -c requirements-run.lock -o requirements-run-network.lock
	$(COMPILE) --resolution lowest-direct pyproject.toml lab/requirements.in --extra dev -o requirements-lowest.lock
	for name in requirements-fuzz packages/requirements lab/requirements-overhead lab/requirements-rivals; do $(COMPILE) --upgrade $$name.in -o $$name.lock; done

clean:  ## remove everything that was made
	rm -rf .venv .venv-rivals .venv-packages build dist demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
