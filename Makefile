# The only door to the project: `make demo` and `make test` set everything up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# One process per core, each with one thread: tests that share cores by threads are slower than one after the other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: setup browser demo docs test check bench bench-smoke dist format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

browser: ## what the test of the report page needs; where it cannot be had, that test is skipped and says so
	@command -v chromedriver >/dev/null 2>&1 || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && echo "installing chromium for the test of the report page" && \
	  { timeout 300 apt-get update -qq; DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends chromium chromium-driver; } \
	  >/dev/null 2>&1 </dev/null; } || echo "no browser could be installed: the test of the report page will be skipped"

demo: setup ## run NN-GCD and k-means on the embedded digits
	$(BIN)/nngcd demo

docs: setup ## the site, into build/docs; stops at a warning, such as a broken link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open build/docs/index.html in a browser."

test: setup browser docs ## everything: the site, style, types and all tests, with the coverage of the fast ones
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) --cov --cov-report=term:skip-covered --cov-fail-under=90

check: setup ## the fast path: style, types and the tests that take seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -m "not slow"

bench: setup ## the short benchmarks, into benchmarks/RESULTS.md
	$(BIN)/python benchmarks/bench.py

bench-smoke: setup ## every method on miniature copies of the seven benchmarks: does everything run?
	$(BIN)/python benchmarks/smoke.py

dist: setup ## wheel and sdist into dist/, and the demo from the wheel alone in an empty environment
	rm -rf dist
	$(BIN)/python -m build
	.ci/try-wheel $(PYTHON)

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage build dist nngcd-demo
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
