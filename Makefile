# Everything runs in .venv, which the first command makes. Needs Python 3.11 or later and make; the tests a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -q -n logical --maxprocesses 8 --dist worksteal
SLOW := corpus or predictions or browser or cluster
# Tests start a hundred processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-all sweep golden fuzz lint types contracts doctest notebooks docs site check bench clean

$(BIN)/overlapscope: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/overlapscope
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/overlapscope
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@

$(VENV)/hta/bin/python:
	$(PYTHON) -m venv $(VENV)/hta
	$(VENV)/hta/bin/python -m pip install --quiet HolisticTraceAnalysis psutil

demo: $(BIN)/overlapscope
	$(BIN)/overlapscope demo

test: $(VENV)/.test
	$(PYTEST) -m 'not ($(SLOW) or sweep)'

test-slow: $(VENV)/.test
	$(PYTEST) -m '($(SLOW)) and not sweep'

test-all: test test-slow

sweep: $(VENV)/.test
	$(PYTEST) -m sweep

golden: $(VENV)/.test
	$(BIN)/python -m tests.golden

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes 30

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

doctest: $(VENV)/.test
	$(BIN)/python -m pytest -q --doctest-modules overlapscope

notebooks: $(VENV)/.test
	$(BIN)/python notebooks/run.py --check

docs: $(BIN)/overlapscope
	$(BIN)/python docs/make_columns.py
	$(BIN)/python docs/make_workloads.py
	$(BIN)/python docs/make_pages.py
	$(BIN)/python docs/make_rules.py
	$(BIN)/python docs/make_predictions.py
	$(BIN)/python docs/make_wild.py
	$(BIN)/python docs/make_speed.py
	$(BIN)/python docs/make_fleet_scale.py
	$(BIN)/python docs/make_cli.py

site: $(VENV)/.dev
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs site

check: test-all lint types contracts doctest notebooks site

# Some seven minutes, with 5 GB of memory for HTA. TRACELENS=folder has its sources, PERFETTO=file is trace_processor_shell,
# BENCH="--largest 10000000" and others are options of it.
bench: $(VENV)/.bench $(VENV)/hta/bin/python
	$(BIN)/python -m benchmarks.speed --hta $(VENV)/hta/bin/python $(if $(TRACELENS),--tracelens $(TRACELENS)) \
		$(if $(PERFETTO),--perfetto $(PERFETTO)) $(BENCH)
	$(BIN)/python docs/make_speed.py

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
