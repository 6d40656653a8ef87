# Orrery on one machine. `make help` lists the targets; `.venv/` holds the Python environment, `.local/` all that runs.
.DEFAULT_GOAL := help
SHELL := /bin/sh
VENV := .venv
RUN := $(VENV)/bin/python
LOCAL := $(RUN) -m deploy.local
# Anything that is set in PYTHON is tried first: make test PYTHON=/opt/python3.13/bin/python3
PYTHON ?=
REPLICAS ?=
SERVICE ?=
N ?=
ARGS ?=
# The servers of the tests are apart from those of `make up`, and do not wait for the disk.
TEST_SERVERS := $(LOCAL) servers --directory .local/test --volatile --
# One more than the processors of a small machine: some tests wait for servers to start, others compute meanwhile.
IN_PARALLEL ?= 3

# Compiled modules are kept: dozens of processes are started here, and each would compile a thousand files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help up scale down status logs demo test chaos night attack lint bench clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1	\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='	' read -r name text; do printf '  make %-9s %s\n' "$$name" "$$text"; done

# Made again only when the pinned packages or the project's definition change.
$(VENV)/installed: requirements.lock pyproject.toml
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			exec env PYTHONDONTWRITEBYTECODE=1 "$$python" -m deploy.local.environment; \
		fi; \
	done; echo "error: no Python 3.11 or newer on PATH; name one: make PYTHON=/path/to/python3" >&2; exit 1

up: $(VENV)/installed ## start private servers and all services in the background (REPLICAS=2, ARGS=--embedded)
	@$(LOCAL) up $(if $(REPLICAS),--replicas $(REPLICAS)) $(ARGS)

scale: $(VENV)/installed ## have more or fewer copies of a service while all runs (SERVICE=job-dispatch N=3)
	@$(LOCAL) scale '$(SERVICE)' '$(N)'

down: $(VENV)/installed ## stop all that was started here, and nothing else
	@$(LOCAL) down

status: $(VENV)/installed ## what runs, and where
	@$(LOCAL) status $(ARGS)

logs: $(VENV)/installed ## the end of the logs (ARGS="job-dispatch --follow")
	@$(LOCAL) logs $(ARGS)

demo: $(VENV)/installed ## the whole path with 200 simulated pilots (ARGS=--embedded)
	@$(VENV)/bin/orrery demo $(ARGS)

test: $(VENV)/installed ## unit, handler, integration, contract and simulation tests against real servers, of the seeds a tenth
	@$(TEST_SERVERS) $(RUN) -m pytest -n $(IN_PARALLEL) --dist loadfile --no-loadscope-reorder --ignore tests/chaos --ignore tests/attack --ignore tests/performance $(ARGS)

chaos: $(VENV)/installed ## kill -9 of services and servers in the middle of a small demo, frozen processes; a few of them
	@$(RUN) -m pytest tests/chaos --timeout 300 $(ARGS)

night: $(VENV)/installed ## all seeds and new ones, all kills, the whole attack and full benchmarks: what a push runs a part of
	@$(MAKE) test ARGS=--night
	@$(MAKE) chaos ARGS=--night
	@$(MAKE) attack
	@$(MAKE) bench

attack: $(VENV)/installed ## attack a system of its own: every route by every role, and named attacks (ARGS=--small: under 2 minutes)
	@$(RUN) -m tests.attack $(ARGS)

lint: $(VENV)/installed ## ruff, mypy, import contracts, generated diagrams
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(RUN) -m services.cli.readme --check

bench: $(VENV)/installed ## the figures, each beside the machine's own limit (ARGS=--small: seconds, to see that they run)
	@$(LOCAL) servers --directory .local/bench -- $(RUN) -m tests.performance $(ARGS)

clean: ## stop everything, forget its data and the Python environment
	@if [ -x $(RUN) ]; then for place in .local .local/test .local/bench .local/attack; do $(LOCAL) down --directory $$place; done; fi
	@rm -rf .local $(VENV)
