# Wraps the plain commands that README.md shows. PYTHON chooses the interpreter that makes .venv.
PYTHON ?= python3
VENV := .venv
DEMO_EXTRAS := agent,fleet,packager,onnxruntime,openvino,litert,demo

.PHONY: demo test check clean

demo: $(VENV)/.installed-demo
	$(VENV)/bin/python -m examples.demo $(ARGS)

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest $(ARGS)

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

$(VENV)/.installed-demo: pyproject.toml examples/install.py
	$(PYTHON) examples/install.py $(VENV) "$(DEMO_EXTRAS)"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml examples/install.py
	$(PYTHON) examples/install.py $(VENV) dev
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
