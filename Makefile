# Everything runs from two virtual environments: .venv (hitcurve and its tools) and .venv-vllm (a real vLLM).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VENV_STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1

docs_output ?= site
VLLM ?= 0.29.0
vllm_on = $(CURDIR)/.venv-vllm-$(VLLM)
plugin_tests ?= tests/real_vllm/test_plugin_on_server.py tests/real_vllm/test_spans_on_server.py
bench_scripts ?= $(sort $(wildcard tests/benchmarks/*.py))

.PHONY: docs mutants help plugin-on venv vllm-env oracles oracles-full compat demo test lint bench clean

help:
	@echo "make demo      the whole suite on this machine, ending in one HTML report"
	@echo "make test      the tests"
	@echo "make lint      ruff and strict mypy"
	@echo "make bench     benchmarks (docs/benchmarks.md)"
	@echo "make docs      the documentation as a site below site/ (needs no network once mkdocs-material is installed)"
	@echo "make venv      .venv with everything but a real engine"
	@echo "make oracles   other engines' own caches, for tests of the cache rules (450 MB)"
	@echo "make oracles-full  10,000 random sequences against each of them (an hour or two)"
	@echo "make mutants   engines with one planted defect each: does a drill catch it? (ten minutes)"
	@echo "make compat    the engine patch on every vLLM release since 0.8.5 (fetches 3 GB of wheels, keeps 0.9 GB)"
	@echo "make vllm-env  .venv-vllm with a real vLLM for CPU (3.4 GB)"
	@echo "make plugin-on VLLM=0.29.0   the engine patch on servers of that release, in an environment beside it"

venv: $(VENV_STAMP)

$(VENV_STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

vllm-env: $(VENV_STAMP)
	$(BIN)/python -m hitcurve_chaos.demo.vllm_env

oracles: $(VENV_STAMP) vllm-env
	$(BIN)/python tests/real_vllm/oracles/install.py

oracles-full: oracles
	$(BIN)/python tests/real_vllm/oracles/run.py --sequences 10000

mutants: $(VENV_STAMP)
	$(BIN)/python tests/mutants/run.py

plugin-on: $(VENV_STAMP)
	HITCURVE_VLLM_ENV=$(vllm_on) $(BIN)/python -m hitcurve_chaos.demo.vllm_env --version $(VLLM)
	HITCURVE_VLLM_ENV=$(vllm_on) $(BIN)/python -m pytest $(plugin_tests)

compat: $(VENV_STAMP) vllm-env
	$(BIN)/python tests/real_vllm/compat/run.py

demo: $(VENV_STAMP)
	$(BIN)/hitcurve demo

test: $(VENV_STAMP)
	$(BIN)/python -m hitcurve_chaos.demo.vllm_env --if-possible
	$(BIN)/python -m pytest

lint: $(VENV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV_STAMP)
	@trap 'exit 130' INT; failed=; \
	for script in $(bench_scripts); do echo "== $$script"; $(BIN)/python $$script || failed="$$failed $$script"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

docs: $(VENV_STAMP)
	@$(BIN)/python -c 'import material' 2>/dev/null || $(BIN)/python -m pip install --quiet '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir $(docs_output)

clean:
	rm -rf .venv .venv-vllm .venv-vllm-* .cache runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
