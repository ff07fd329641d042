# make run: the main job. make test: all checks. Both set up .venv first, each with what it needs, with versions from
# constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RLBERRY := .venv-rlberry
SOAK := 1800

# make coverage runs these tests, by the names of their files. The compiler hides lines from the tracer, so the core runs
# as plain Python, with the tests that are quick that way; the laboratory and the service have no compiled functions.
COVERED_PLAIN = agent budgets budget_is_hard hard_instances learners ledger problems randomness rules saving testing vectors withdraw
COVERED_DIGESTS = episodic linear simulate
COVERED_COMPILED = api claims_report client episodic experiment gym json_body linear off_policy openapi planning statistics theory
files = $(foreach name,$(1),$(shell find tests -name test_$(name).py))

.PHONY: run test soak check coverage docs browser postgres bench bench-versions bench-steps bench-service bench-peers peers worlds mutants figures gallery episodes dist first-run clean

run: $(VENV)/lab
	@echo "== Running every claim of the paper and judging it (three to four minutes; an interrupted run resumes)"
	$(BIN)/sparingly reproduce --quick --out results/reproduce/quick

test: $(VENV)/ready browser postgres
	@echo "== Lint and format (ruff)"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "== Types (mypy --strict)"
	$(BIN)/mypy
	@echo "== Tests (pytest, on all cores), and two minutes of faults beside them (make soak has more)"
	@mkdir -p build
	@$(BIN)/python -m tests.serve.soak --seconds 120 > build/soak.txt 2>&1 & soak=$$!; $(BIN)/pytest -n auto; tests=$$?; \
		wait $$soak; faults=$$?; cat build/soak.txt; exit $$((tests || faults))

soak: $(VENV)/ready postgres
	@echo "== Faults of many kinds on SQLite and PostgreSQL, and an audit (half an hour; make soak SOAK=60 for a minute)"
	$(BIN)/python -m tests.serve.soak --seconds $(SOAK)

check: $(VENV)/ready
	@echo "== The quick checks: lint, format, types and the tests of the core; no browser, no database, no cluster"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n auto -m 'core and not slow' tests

coverage: $(VENV)/ready postgres
	@echo "== Coverage of the quicker tests: the core with the compiler off, the laboratory and the service with it on"
	rm -rf build/coverage && mkdir -p build/coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n auto --cov --cov-report= -k 'not worse_labelling' \
		$(call files,$(COVERED_PLAIN)) \
		$(addsuffix ::test_compiled_and_interpreted_runs_are_identical,$(call files,$(COVERED_DIGESTS)))
	$(BIN)/pytest -n auto --cov --cov-append --cov-report=term --cov-report=html $(call files,$(COVERED_COMPILED))
	@echo "Line by line: build/coverage/index.html"

docs: $(VENV)/ready
	@echo "== Building the documentation site: guides, gallery, reference; offline, half a minute"
	$(BIN)/python docs/site/build.py build/docs

browser:
	@echo "== Finding a browser for the tests of the pages (installs Debian's Chromium if there is none)"
	@scripts/browser.sh

postgres: $(VENV)/ready
	@echo "== Finding a PostgreSQL server for the tests of the service (installs Debian's, or one from the registry, if there is none)"
	@scripts/postgres.sh

bench: $(VENV)/ready
	@echo "== Measuring speed against a C program and those other packages that are installed (make peers installs them)"
	$(BIN)/python -m benchmarks.arms
	$(BIN)/python -m benchmarks.learners
	$(BIN)/python -m benchmarks.own_parts
	$(BIN)/python -m benchmarks.linear
	$(BIN)/python -m benchmarks.labels
	$$([ -x $(RLBERRY)/bin/python ] && echo $(RLBERRY) || echo $(VENV))/bin/python -m benchmarks.episodic

bench-steps: $(VENV)/ready
	@echo "== One model for all steps in eleven environments, against Q-learning and UCBVI, and in large ones; an hour and more"
	$(BIN)/python -m benchmarks.stationary
	$(BIN)/python -m benchmarks.large

OLD ?= HEAD

bench-versions: $(VENV)/ready
	@echo "== This working tree against another version (make bench-versions OLD=COMMIT), in turns; about two minutes"
	$(BIN)/python -m benchmarks.versions $(OLD)

bench-service: $(VENV)/ready
	@echo "== Measuring the service's durable decisions per second against an application that does one insert (about five minutes)"
	$(BIN)/python -m benchmarks.service

bench-peers: $(VENV)/ready
	@echo "== Comparing decisions, labels and speed with the alternatives that are installed (make peers installs them; about half an hour)"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.peers --document

peers: $(VENV)/ready
	@echo "== Installing the packages that the benchmarks compare with"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[peers]'
	$(PYTHON) -m venv $(RLBERRY)  # a separate environment: rlberry needs an older Gymnasium
	$(RLBERRY)/bin/pip install --quiet --disable-pip-version-check -c benchmarks/rlberry.txt -e . rlberry==0.6.0

worlds: $(VENV)/ready
	@echo "== Every rule and three simple baselines in every world; judges BalancedMatching, writes docs/worlds.md and the table of the README (about a quarter of an hour on two cores; an interrupted run resumes)"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.worlds --document

mutants: $(VENV)/ready postgres
	@echo "== Mutants: what tests and claims notice; writes docs/mutants.md (about half an hour on two cores; an interrupted run resumes)"
	$(BIN)/python -m tests.mutants --document

figures: $(VENV)/ready
	@echo "== Redrawing the figures of the README and the guides, and writing docs/claims.md (full runs: a quarter of an hour on two cores)"
	$(BIN)/sparingly reproduce --full --out results/reproduce/full
	$(BIN)/python docs/figures/claims.py
	$(BIN)/python docs/figures/frozen_lake.py
	$(BIN)/python docs/figures/choosing.py
	$(BIN)/python docs/figures/parts.py
	$(BIN)/python docs/figures/environments.py

gallery: $(VENV)/ready
	@echo "== Running the programs of the gallery, for the tables and figures of docs/gallery (two to three minutes on two cores)"
	$(BIN)/python docs/figures/gallery.py

dist: $(VENV)/lab
	@echo "== Building a wheel and a source archive, and trying both in environments of their own (two minutes)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dist]'
	$(BIN)/python scripts/dist.py

first-run:
	@echo "== Recording what a newcomer meets, from the clone to the first figure (some minutes, mostly downloads)"
	$(PYTHON) scripts/first_run.py

episodes: $(VENV)/ready
	@echo "== Running the studies of episodes that docs/episodes.md quotes (about twenty minutes on two cores)"
	$(BIN)/sparingly episodes --out results/episodes
	cp results/episodes/figure.png docs/figures/episodes.png

# What `make run` needs, and no more; .venv/ready adds the tools of the tests.
$(VENV)/lab: pyproject.toml constraints.txt
	@echo "== Setting up $(VENV) (once; needs $(PYTHON) >= 3.11 and a package registry)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab]'
	@touch $@

$(VENV)/ready: $(VENV)/lab
	@echo "== Adding the tools of the tests to $(VENV) (once)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab,test]'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps SMPyBandits  # an independent MOSS to test against
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps obp  # for the files with its data set
	@touch $@

clean:
	rm -rf $(VENV) $(RLBERRY) results build dist src/sparingly.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
