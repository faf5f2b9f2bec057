# Shoal. `make demo` and `make test` need Python 3.11 or newer and nothing else.

PYTHON ?= python3
BIN := .venv/bin
# Shoal is measured against these; each has an environment of its own.
STACKS := scrapy crawlee tutorial
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test check services format bench chaos fleet requirements clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | sort

demo: .venv/run.stamp  ## crawl the bundled bookshop with embedded Valkey and real Celery workers
	@$(BIN)/python -m examples.demo

test: .venv/dev.stamp  ## all tests, the short fault drill and the short benchmark
	@$(MAKE) --no-print-directory -j 2 check services
	scripts/in-memory $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --ignore tests/chaos
	scripts/in-memory $(BIN)/python -m pytest -n 4 --dist worksteal tests/chaos  # most of the time, these wait

check: .venv/dev.stamp  ## ruff, pyright strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	PYTHONPATH=src $(BIN)/lint-imports --no-cache

services: .venv/dev.stamp
	@scripts/get-services

format: .venv/dev.stamp  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv-bench/stamp $(STACKS:%=.venv-bench-%/stamp)  ## measure Shoal beside others (over an hour; the machine should be idle)
	PYTHONPATH=src .venv-bench/bin/python -m benchmarks $(BENCH)

chaos: .venv/dev.stamp  ## the long version of the fault tests, and 20 runs of the drill
	SHOAL_TEST_LONG=1 $(BIN)/python -m pytest tests/chaos tests/acceptance/test_recover.py tests/acceptance/test_hostile_pages.py \
	  tests/acceptance/test_benchmarks.py tests/acceptance/test_browser.py tests/contract/test_frontier_machine.py
	$(BIN)/shoal drill --runs 20 --seed 1

fleet: services  ## the acceptance tests on another fleet: FLEET=postgres, sentinel or rabbitmq
	SHOAL_TEST_FLEET=$(or $(FLEET),rabbitmq) $(BIN)/python -m pytest -n 2 --dist loadfile $(or $(TESTS),tests/acceptance)

requirements: .venv/dev.stamp  ## renew the pinned, hashed requirements
	cd requirements && for name in run dev bench bench-scrapy bench-crawlee bench-tutorial fleet browser; do \
	  ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-emit-find-links --no-annotate --no-header --upgrade $$name.in -o $$name.txt; done

clean:  ## remove everything that was made here
	rm -rf .venv .venv-bench .venv-bench-* .ruff_cache .pytest_cache .hypothesis demo-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Shoal needs Python 3.11 or newer; say which one with: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/run.stamp: requirements/run.txt pyproject.toml | .venv/bin/python
	$(PIP) install --require-hashes --no-deps -r requirements/run.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev.stamp: requirements/dev.txt pyproject.toml | .venv/bin/python
	$(PIP) install --require-hashes --no-deps -r requirements/dev.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ .venv/run.stamp

# Made anew each time: what a list no longer names must not be measured.
define bench_environment
$(PYTHON) -m venv --clear $(@D)
$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps -r $<
@touch $@
endef

.venv-bench/stamp: requirements/bench.txt
	$(bench_environment)

.venv-bench-%/stamp: requirements/bench-%.txt
	$(bench_environment)
