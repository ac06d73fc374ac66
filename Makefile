# The words that people and CI use. `make help` lists them; docs/decisions/setup.md says how set-up works.
#
# Variables, given as `make demo PORT=8001` or in the environment, reach the programs as they are:
#   PORT, HOST, NODES, TRAINYARD_HOME   for demo and up
#   ONCE=1                              demo: wait for the run, print its summary, stop
#   ARGS="..."                          more words for pytest or the benchmarks
#   SEEDS, CHAOS_SEED                   chaos: how many, and the first of them
#   EXAMPLES, SECURITY_SEED             fuzz: how many for each entry point, and what they are made from

PYTHON ?= $(shell command -v python3 || command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
BIN := .venv/bin
# Set-up is quick when nothing changed, and replaces itself by the command after `--`,
# so that Ctrl-C and the exit status are that command's.
SETUP = exec $(PYTHON) -m dashboard.setup

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo up test test-database test-all parity quality chaos slurm containers images sweeps security fuzz gpu ssh tls notebook ray kubernetes sagemaker systems check bench docs release lock clean

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do printf '  make %-8s  %s\n' "$$name" "$$text"; done

setup: ## make .venv and node_modules with everything that Trainyard runs on
	@$(SETUP)

demo: ## set up, start on this machine with two CPU nodes, launch the hello-gpt run, print its link
	@$(SETUP) -- $(BIN)/python -m dashboard.up --demo

up: ## set up and serve, without a run
	@$(SETUP) -- $(BIN)/python -m dashboard.up

test: ## set up what the tests need, a browser too, and run the tests (ARGS="tests/code_rules -x")
	@$(PYTHON) -m dashboard.setup --for tests
	@# In parts, three at a time; picked ones in one pytest.
	@$(BIN)/python -m $(if $(ARGS),pytest $(ARGS),tests.parts)

test-database: ## run the tests that have a database on PostgreSQL, the second one
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m tests.parts database

test-all: ## run what `make test` leaves out: the second database, pages in each size and theme, long random trials
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m tests.parts extended

parity: ## train in every parallel way and in one process, and compare losses, gradients, resumed runs (ARGS="-k shard")
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest tests/parity $(ARGS)

quality: ## train the language model's examples to the nats per byte that they state (ARGS="-k bpe")
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/quality $(ARGS)

chaos: ## kill everything at random, SEEDS times (20), and compare what is stored with what was acknowledged
	@$(PYTHON) -m dashboard.setup --for tests
	@CHAOS_SEEDS=$${SEEDS:-20} $(BIN)/python -m pytest -s $(or $(ARGS),tests/chaos tests/workers/training/checkpoints/test_kills.py)

slurm: ## run on a Slurm that the tests start, with several machines (Debian: slurm-wlm, munge, openssh-server; root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s $(or $(ARGS),tests/whole/slurm)

containers: ## run ranks in containers of this machine's Podman, in images that the tests make (Debian: podman, python3, docker-registry; root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/workers/containers/test_podman.py tests/workers/containers/test_registry.py tests/workers/containers/test_sessions.py tests/workers/containers/test_terminal_tab.py $(ARGS)

images: ## build the images of server and node from Debian's packages, and run them (Debian: podman, mmdebstrap, postgresql; root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/whole/test_images.py $(ARGS)

ray: ## run on a Ray that the tests start, with several machines; installs Ray itself
	@$(PYTHON) -m dashboard.setup --for tests
	@$(PYTHON) -m tests.contributing ray
	@$(BIN)/python -m pytest -s tests/whole/test_ray.py $(ARGS)

kubernetes: ## run in pods that are processes of this machine, beside a stand-in for Kubernetes' API server (root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/whole/test_kubernetes.py $(ARGS)

sagemaker: ## run in training jobs that are processes of this machine, with moto's server in the place of AWS (root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/whole/test_sagemaker.py $(ARGS)

systems: ## training systems of others by their real names, which nodes install: docs/systems.md (ARGS="tests/systems/test_deepspeed.py")
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s $(or $(ARGS),tests/systems)

sweeps: ## sweeps whose control and ingest are killed, and a population of which a member is killed, on two nodes
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s $(or $(ARGS),tests/whole/test_sweeps.py tests/whole/test_population.py)

security: ## attack: every route as every caller, random requests to every operation, a member removed in mid-flight
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s $(or $(ARGS),tests/dashboard/rules tests/security)

FUZZED = tests/dashboard/pages/test_fuzzed_pages.py tests/dashboard/proxy/test_fuzzed_requests.py \
	tests/dashboard/proxy/test_tunnel.py tests/dashboard/sockets/test_fuzzed_sockets.py \
	tests/runs/api/test_fuzzed_calls.py tests/runs/api/test_fuzzed_requests.py tests/runs/people/identity/test_fuzzed_answers.py \
	tests/runs/finding/test_fuzzed_filters.py tests/runs/ingest/test_fuzzed_entries.py \
	tests/runs/life/reconcile/test_fuzzed_documents.py \
	tests/runs/people/scim/test_fuzzed_scim.py tests/trainyard/spec/test_fuzzed_files.py tests/workers/transport/test_fuzzed_orders.py

fuzz: ## random and nearly right bytes wherever a person or a node may send some, EXAMPLES (10000) for each entry point
	@$(PYTHON) -m dashboard.setup --for tests
	@SECURITY_EXAMPLES=$(or $(EXAMPLES),10000) $(BIN)/python -m pytest -s $(or $(ARGS),$(FUZZED))

gpu: ## on a machine with an NVIDIA GPU: every test and figure of one, in some ten minutes
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s -rs tests/workers/training/test_gpu.py tests/whole/test_gpu.py $(ARGS)
	@$(BIN)/python -m benchmarks gpu

ssh: ## run on hosts over SSH: two sshd that the tests start (Debian: openssh-server; root)
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s $(or $(ARGS),tests/whole/ssh)

tls: ## a node that joins, trains and comes back after a rotation over TLS
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/whole/test_tls.py $(ARGS)

notebook: ## JupyterLab, which the node installs, in Chromium through the proxy of apps
	@$(PYTHON) -m dashboard.setup --for tests
	@$(BIN)/python -m pytest -s tests/whole/test_notebook.py $(ARGS)

check: ## format, lint, types, migrations, import rules, Django's own checks
	@$(PYTHON) -m dashboard.setup --for check
	@# mypy takes one core: the others run beside it.
	@$(BIN)/mypy & types=$$!; \
	(set -ex; \
	$(BIN)/ruff format --check .; \
	$(BIN)/ruff check .; \
	$(BIN)/python manage.py makemigrations --check --dry-run; \
	$(BIN)/lint-imports; \
	$(BIN)/python manage.py check --fail-level WARNING; \
	$(BIN)/python -m tests.javascript biome check --error-on-warnings static; \
	$(BIN)/python -m tests.javascript tsc; \
	$(BIN)/python -m tests.javascript tsc -p tsconfig.all.json); \
	others=$$?; wait $$types && exit $$others

bench: ## measure against other trackers and against limits, into benchmarks/RESULTS.md (ARGS="name" for one)
	@$(PYTHON) -m dashboard.setup --for check
	@$(BIN)/python -m benchmarks.trackers
	@$(BIN)/python -m benchmarks $(ARGS)

docs: ## draw the documentation as files for any web server, into build/docs
	@$(PYTHON) -m tests.contributing docs
	@.venv-docs/bin/python -m sphinx -q -b html -W --keep-going -d build/docs-read docs build/docs
	@echo build/docs/index.html

release: ## build the source distribution and the wheel of this version into dist/
	@$(PYTHON) -m dashboard.setup
	@rm -rf dist build
	@$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')" >/dev/null
	@ls -l dist

lock: ## resolve pyproject.toml and package.json anew into the locks
	@$(PYTHON) -m tests.contributing lock

clean: ## remove what set-up made; .trainyard/ with your runs stays
	rm -rf .venv .venv-docs .venv-peers node_modules staticfiles build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache test-results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
