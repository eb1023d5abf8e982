# Everything a newcomer or CI needs: `make demo` and `make test` set themselves up in $(VENV).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TWO := -n 2 --dist loadgroup
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# What a shell sets up for other Pythons is not meant for $(VENV): an older pip on PYTHONPATH, say, would install it.
unexport PYTHONPATH PYTHONHOME PYTHONWARNINGS

.PHONY: demo test test-wheel lint bench soak clean

demo: $(VENV)/.installed  ## audit the example traces with the embedded judge and show the result
	@mkdir -p .demo && chmod 700 .demo
	$(BIN)/otel-drift audit examples/traces --ledger .demo/ledger.sqlite3 --html .demo/report.html --sink jsonl:.demo/findings.jsonl
	@echo "The same as a page: .demo/report.html · as annotations: .demo/findings.jsonl"

test: lint  ## lint, types and tests; what needs more than pip packages skips with a reason
	$(BIN)/python -m pytest $(TWO)

test-wheel: $(VENV)/.installed-dev  ## a wheel built from the sdist passes the same tests in a clean venv
	rm -rf .wheel && mkdir .wheel
	$(BIN)/python -m build --outdir .wheel . > /dev/null
	tar -xzf .wheel/*.tar.gz -C .wheel
	$(PYTHON) -m venv .wheel/venv
	.wheel/venv/bin/python -m pip --disable-pip-version-check --quiet install "$$(echo .wheel/*.whl)[dev]"
	cd .wheel/otel_drift-*/ && rm -rf otel_drift connectors && \
		OTEL_DRIFT_SHARED="$${OTEL_DRIFT_SHARED:-$(abspath ../shared)}" ../venv/bin/pytest $(TWO) $(WHEEL_TESTS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed-dev  ## budgets: reading, overhead, embedded judge
	$(BIN)/python tests/bench/run.py

soak: $(VENV)/.installed-dev  ## the long fault runs
	OTEL_DRIFT_SOAK=1 $(BIN)/python -m pytest tests/test_kill.py tests/test_serve_kill.py tests/alerts/test_alert_histories.py tests/inbox tests/receiver/test_hostile.py
	OTEL_DRIFT_SOAK=1 $(BIN)/python -m pytest -m hypothesis  # other examples each time; `make test` always tries the same

clean:
	rm -rf $(VENV) .demo .wheel dist build

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "otel-drift needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@echo "installing otel-drift and what it needs into $(VENV): a minute or two, once"
	$(PIP) install -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing what the tests need into $(VENV): some minutes, once"
	$(PIP) install -e '.[dev]'
	@touch $@
