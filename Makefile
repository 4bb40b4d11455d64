# Every target works on a fresh clone: it first fills .venv from a lock file (hashes checked, nothing compiled).
# What people run comes from requirements-run.lock, what contributors need besides from requirements.lock.
PYTHON ?= python3
BIN := .venv/bin
RUN := .venv/.run
READY := .venv/.ready
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

.DEFAULT_GOAL := help
.PHONY: help demo test compatibility lint audit campaign bench bench-rivals bench-stream bench-engine bench-persons bench-growth bench-network bench-overhead study-groups study-coverage study-persons study-bounds study-suggestions paper paper-quick reproduction notebook reproduce-anchors lock clean supply-chain

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 20

$(RUN): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("fastlloyd needs Python 3.11 or later; try: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	@echo "Installing fastlloyd and $$(grep -c == requirements-run.lock) packages into .venv: about 220 MB to download, 850 MB on disk, one to three minutes."
	$(PYTHON) -m venv .venv
	$(INSTALL) $(LOCKED) requirements-run.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(RUN)

$(READY): requirements.lock $(RUN)
	@echo "Installing what tests and contributors need besides into .venv: $$(grep -c == requirements.lock) packages in all, 2 GB on disk."
	$(INSTALL) $(LOCKED) requirements.lock
	@touch $(READY)

demo: $(RUN)  ## three hospitals cluster tumour measurements: results, picture and statement in demo-out/
	$(BIN)/fastlloyd demo --out demo-out --force

test: $(READY)  ## the tests every commit must pass
	$(BIN)/python -m pytest -n $(WORKERS)

# the Pythons that pyproject.toml names
PYTHONS ?= python3.11 python3.12 python3.13
compatibility:  ## the tests on every Python that pyproject.toml names, each in a fresh clone
	@set -e; for python in $(PYTHONS); do \
		folder=$$(mktemp -d); \
		git clone --quiet . $$folder; \
		echo "$$python"; \
		$(MAKE) --no-print-directory -C $$folder test PYTHON=$$python; \
		rm -rf $$folder; \
	done

lint: $(READY)  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -c pyproject.toml -r src

audit: $(READY)  ## the long statistical campaigns; rewrites docs/results/audit*.md
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/audit_campaign.py
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/moment_audit_campaign.py tests/statistical/test_moment_audit.py tests/statistical/test_person_audit.py
	$(BIN)/python -m pytest -m audit -n 0 tests/statistical/test_loss_audit.py
	$(BIN)/python -m pytest -m audit -n 0 tests/campaigns/coalition_campaign.py
	$(BIN)/python -m pytest -m audit -n 0 tests/unit/dp/test_quantiles.py

campaign: $(READY)  ## schedules, kills, damaged stores, failing disks, fuzzed parsers, persons, bounds, dealt records, clipping; rewrites docs/results/campaigns.md; `make campaign SCHEDULES=5000 KILLS=50 DAMAGES=400 EXECUTIONS=9999 PERSONS=9999 RECORDS=9999 PAIRS=999 VECTORS=9999` only prints
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
	$(BIN)/python -m pytest -m campaign -n $(WORKERS) tests/properties tests/unit tests/integration
	VECTORS=$(VECTORS) $(BIN)/python -m pytest -m campaign -n 0 tests/campaigns/clipping_campaign.py

bench: bench-rivals  ## bench-rivals, then noise, masks, rounds, start-up and growth; rewrites docs/results/performance.md
	$(BIN)/python -m benchmarks

RIVALS := .venv-rivals/bin
bench-rivals: $(READY)  ## fits and iterations beside scikit-learn, its extension by Intel and faiss, which .venv-rivals holds
	test -x $(RIVALS)/python || $(BIN)/python -m venv .venv-rivals
	$(RIVALS)/python -m pip install --quiet --disable-pip-version-check $(LOCKED) requirements-rivals.lock \
		|| { echo "no rivals but scikit-learn: the others were not installed (pip says why; they have wheels for few platforms)"; rm -r .venv-rivals; }
	$(BIN)/python -m benchmarks.rivals

bench-stream: $(READY)  ## a Parquet file of 3.2 GB, written to the temporary folder, clustered in passes
	$(BIN)/python -m benchmarks.stream

bench-engine: $(READY)  ## a pass over a folder of Parquet, 1 GB: this process, other processes, a Dask cluster
	$(BIN)/python -m benchmarks.engines

bench-persons: $(READY)  ## a pass over twenty million rows of two million persons beside a pass over as many records
	$(BIN)/python -m benchmarks.persons

bench-growth: $(READY)  ## whole runs of a billion records, of thousands of clusters and of thousands of features
	$(BIN)/python -m benchmarks.growth

bench-network: $(READY)  ## rounds over gRPC, with and without durable state, a run of a hundred clients, and what pairwise masks cost
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.masks

PAPER := utility scaling-features scaling-clusters heatmaps ablation trust iris preset
# what is there is not run again; then its pictures and its page are made anew
rerun = set -e; for name in $(PAPER); do \
		$(BIN)/fastlloyd experiment run paper/$$name.toml --out $(1)/$$name $(2); \
		$(BIN)/fastlloyd experiment plot $(1)/$$name --force; \
		$(BIN)/fastlloyd experiment report $(1)/$$name --force; \
	done

paper: $(READY)  ## the paper's experiments, in full, to results/ (needs FASTLLOYD_DATA); it goes on where it was stopped
	@$(call rerun,results,)

reproduction: $(READY)  ## tables, figures and raw trials of results/ to docs/results/reproduction/
	@set -e; for name in $(PAPER); do \
		pooled=; test $$name != ablation || pooled=--pooled; \
		$(BIN)/fastlloyd experiment table results/$$name $$pooled --format csv > docs/results/reproduction/$$name.csv; \
		$(BIN)/fastlloyd experiment plot results/$$name --formats png --out docs/results/reproduction/$$name --force; \
		mkdir -p docs/results/reproduction/trials/$$name; \
		gzip -9nc results/$$name/trials.jsonl > docs/results/reproduction/trials/$$name/trials.jsonl.gz; \
		cp results/$$name/provenance.json results/$$name/spec.toml docs/results/reproduction/trials/$$name/; \
	done

paper-quick: $(READY)  ## the same with few runs, to results-quick/: does all of it work?
	@$(call rerun,results-quick,--quick)

bench-overhead: $(READY)  ## an iteration over MPI and gRPC beside the paper's Table 3, and exact Lloyd on shares; rewrites docs/results/overhead.md
	$(INSTALL) $(LOCKED) requirements-overhead.lock \
		|| echo "MPI and MPyC were not installed (pip says why; Open MPI has wheels for few platforms): what they need is left out"
	$(BIN)/python -m paper.overhead
	mkdir -p results
	$(BIN)/fastlloyd experiment plot docs/results --figure overhead --formats png --out results/overhead --force
	cp results/overhead/overhead-2.png docs/results/images/overhead.png

study-groups: $(READY)  ## MomentLloyd beside FastLloyd on 116 synthetic sets, to results/groups (long; goes on where it was stopped); rewrites docs/results/momentlloyd-evidence.md
	$(BIN)/python -m studies.groups results/groups
	$(BIN)/python -m studies.moment_ablation

study-coverage: $(READY)  ## do two standard errors cover what they say? fits of made-up groups and skewed columns; rewrites docs/results/coverage.md (S1 and adult need FASTLLOYD_DATA)
	$(BIN)/python -m studies.coverage --write

study-persons: $(READY)  ## shares beside what else would protect a person of several rows; rewrites docs/results/persons.md
	$(BIN)/python -m studies.persons --write

study-bounds: $(READY)  ## what bounds cost that are found privately, to results/private-bounds; rewrites docs/results/private-bounds.md (needs FASTLLOYD_DATA)
	$(BIN)/python -m studies.private_bounds results/private-bounds

study-suggestions: $(READY)  ## is the clearest split of noisy votes the right one? rewrites docs/results/suggestions.md (needs FASTLLOYD_DATA)
	$(BIN)/python -m studies.suggestions --write

notebook: $(READY)  ## runs the notebooks in examples/ anew and stores what they show
	$(BIN)/python examples/execute.py

reproduce-anchors: $(READY)  ## NICV of the preset `paper` beside the published code's figures (needs FASTLLOYD_DATA)
	$(BIN)/python -m paper.anchors

supply-chain: $(READY)  ## known vulnerabilities in the locked dependencies
	$(BIN)/pip-audit --require-hashes -r requirements-run.lock
	$(BIN)/pip-audit --require-hashes -r requirements.lock

COMPILE := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11
lock:  ## resolve the dependencies anew (needs uv)
	$(COMPILE) --upgrade pyproject.toml --extra dev -o requirements.lock
	$(COMPILE) pyproject.toml requirements-run.in --extra all -c requirements.lock -o requirements-run.lock
	for name in fuzz overhead rivals; do $(COMPILE) --upgrade requirements-$$name.in -o requirements-$$name.lock; done

clean:  ## remove everything that was made
	rm -rf .venv .venv-rivals build demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
