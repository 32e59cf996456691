# The few tasks of a developer. Each is one command, printed as it runs.
PYTHON = .venv/bin/python
PURE = tests/accounts/test_core.py tests/accounts/test_core_machine.py tests/accounts/test_credits.py \
	tests/gateway/calls/test_jsonrpc.py tests/methods/test_rules.py tests/gateway/calls/test_outcomes.py \
	tests/identity tests/launch_programs tests/methods/test_catalog.py tests/test_config.py tests/test_errors.py

.PHONY: help setup fast lint all bench
help:
	@echo "make setup   a virtual environment with everything that the tests need"
	@echo "make fast    tidy tests and the pure rules"
	@echo "make lint    ruff, mypy and the other tidy tests"
	@echo "make all     the whole suite, on two workers"
	@echo "make bench   billed calls, measured beside the upstream asked directly"

setup:
	python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '.[test]'
fast:
	$(PYTHON) -m pytest -q tests/tidy $(PURE)
lint:
	$(PYTHON) -m pytest -q tests/tidy
all:
	$(PYTHON) -m pytest -n 3
bench:
	$(PYTHON) -m bench calls
