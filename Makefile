# Every target works for any user, from a fresh clone. `make help` says what there is.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PY := $(BIN)/python
ARGS ?=

MESSAGES := $(patsubst %.po,%.mo,$(wildcard locale/*/LC_MESSAGES/*.po))
STYLE := apps deploy maasportal tests manage.py
SWEEP := tests/prove/test_pages.py
AS_EACH := tests/prove/test_pages_people.py::test_a_page_as_each_who_may_see_it
ONE_ROW := tests/prove/test_pages_one.py
OUTAGES := tests/prove/test_api_away.py tests/prove/test_clusters_come_and_go.py
SERVED := $(PY) -m deploy.local.with_servers --

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: contract help setup demo demo-stop cluster testbed testbed-down check test prove looks outages bench clean

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: .venv/.stamp node_modules/.stamp $(MESSAGES) ## what the rest needs: .venv, node_modules, compiled messages

.venv/.stamp: requirements.txt deploy/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Python 3.11 is needed, $(PYTHON) is not it: make setup PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt -c deploy/constraints.txt
	@touch $@

node_modules/.stamp: package.json package-lock.json | .venv/.stamp
	$(PY) -m deploy.local.node npm ci --no-progress --no-update-notifier --loglevel=error
	@touch $@

%.mo: %.po | .venv/.stamp
	$(BIN)/pybabel --quiet compile --input-file $< --output-file $@

demo: setup ## the whole portal on this machine, until Ctrl-C
	@exec $(PY) -m deploy.local.demo $(ARGS)

demo-stop: ## end a demo that runs elsewhere
	@$(PY) -m deploy.local.demo --stop $(ARGS)

cluster: setup ## the small cluster alone, until Ctrl-C
	@exec $(PY) -m deploy.local.demo --dir var/cluster --only apiserver,volcano,nodeagent $(ARGS)

testbed: setup ## a real control plane in the background (deploy/testbed); prints its kubeconfig
	@$(PY) -m deploy.testbed up $(ARGS)

testbed-down: ## end it; ARGS=--wipe forgets its data too
	@$(PY) -m deploy.testbed down $(ARGS)

check: setup ## style, types, layers, migrations, messages
	$(BIN)/ruff check $(STYLE)
	$(BIN)/ruff format --check $(STYLE)
	MAAS_SECRET_KEY=$@ DATABASE_URL=postgres://$@/$@ REDIS_URL=redis://$@ $(BIN)/mypy apps deploy maasportal
	$(BIN)/lint-imports
	$(BIN)/djlint --quiet --lint templates
	$(PY) -m deploy.local.node npm run --silent lint
	MAAS_SECRET_KEY=$@ $(SERVED) $(PY) manage.py makemigrations --check --dry-run
	$(PY) -m deploy.local.messages

test: setup ## everything but what `make prove` does
	$(PY) -m deploy.local.node npm run --silent test
	$(PY) -m deploy.local.with_servers -- $(PY) -m pytest -n 3 -m "not prove" $(ARGS)

prove: setup ## the demo itself: walks in a browser, every page, processes killed at fixed moments
	$(PY) -m pytest tests/prove tests/audit tests/portal -m prove $(addprefix --ignore ,$(SWEEP) $(ONE_ROW) $(OUTAGES)) --deselect $(AS_EACH) $(ARGS)
	$(PY) -m pytest $(SWEEP) -m prove -n 2 $(ARGS)

looks: setup ## every kind of page in a browser as each of five people, and each list with one row
	$(PY) -m pytest $(AS_EACH) $(ONE_ROW) -m prove $(ARGS)

contract: setup ## the real control plane (Go, or KUBEBUILDER_ASSETS): the recorded answers, walk and story on it
	$(PY) -m pytest tests/testbed tests/localcluster tests/tenants tests/clusters -m prove -n 2 --dist loadfile $(ARGS)
	MAAS_PROVE_CLUSTER=apiserver $(PY) -m pytest tests/prove/test_walk.py tests/prove/test_story.py -m prove $(ARGS)

outages: setup ## a real API server killed under a stream of jobs; clusters that come and go while jobs run
	MAAS_PROVE_CLUSTER=apiserver $(PY) -m pytest $(OUTAGES) -m prove $(ARGS)

bench: setup ## speed and memory beside their rivals; ONLY=name for one of them
	@$(PY) -m tests.bench $(ONLY)

clean: demo-stop testbed-down ## everything that was made here, the demo's data too
	rm -rf .venv node_modules var $(MESSAGES) .mypy_cache .ruff_cache .import_linter_cache .hypothesis
