# The book's commands. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python
HTML := _build/html
PORT ?= 8000

# A command that also works on a machine with no environment: make gpu PYTHON=python3
ifeq ($(origin PYTHON),command line)
BARE := $(PYTHON)
BARE_NEEDS :=
else
BARE := $(RUN)
BARE_NEEDS := $(VENV)/.runtime
endif

.DEFAULT_GOAL := help
.PHONY: help setup book serve lab sync notebooks notebook test-notebook test format bench \
	mutate publish clean compile-all gpu

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.runtime $(VENV)/.dev ## build the environment in .venv

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created requirements.txt constraints.txt
	@echo "Installing the book's packages; the first time takes a few minutes"
	$(RUN) -m pip install --disable-pip-version-check --quiet -r requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.txt
	@echo "Installing what the checks need"
	$(RUN) -m pip install --disable-pip-version-check --quiet -r requirements-dev.txt
	@touch $@

book: $(VENV)/.runtime ## build the site, and say where to open it
	@$(RUN) tools/build.py

serve: book ## serve the site on this machine (PORT=8000)
	@$(RUN) -m http.server --directory $(HTML) --bind 127.0.0.1 $(PORT)

lab: $(VENV)/.runtime ## open the chapters in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir=.

sync: $(VENV)/.runtime ## fill the generated cells of all chapters
	@$(RUN) tools/notebooks.py sync

notebooks: $(VENV)/.runtime ## execute and save all chapters
	@$(RUN) tools/notebooks.py run

notebook: $(VENV)/.runtime ## execute and save one chapter (NB=07)
	@test -n "$(NB)" || { echo "Which chapter? make notebook NB=07"; exit 2; }
	@$(RUN) tools/notebooks.py run $(NB)

test: $(VENV)/.dev ## run every check
	@$(RUN) tools/check.py

test-notebook: $(VENV)/.dev ## run the checks of one chapter (NB=07)
	@test -n "$(NB)" || { echo "Which chapter? make test-notebook NB=07"; exit 2; }
	@$(RUN) tools/check.py --notebook $(NB)

format: $(VENV)/.dev ## format the code, notebooks included
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

bench: $(VENV)/.runtime ## time the counted machine
	@$(RUN) tools/bench.py

mutate: $(VENV)/.dev ## put faults into the code; each must turn a test red
	@$(RUN) tools/mutate.py

publish: $(VENV)/.runtime ## write the address everywhere (URL=https://host/owner/name; URL= for none)
	@test "$(origin URL)" != undefined || { echo "make publish URL=https://host/owner/name"; exit 2; }
	@$(RUN) tools/publish.py "$(URL)"

compile-all: $(BARE_NEEDS) ## compile every kernel configuration for every GPU generation
	@$(BARE) tools/compile_all.py

gpu: $(BARE_NEEDS) ## test and measure on a real GPU (PYTHON=python3 PIECES="race small" OUT=dir COMMIT=rev)
	@$(BARE) tools/gpu.py $(PIECES) $(if $(OUT),--out $(OUT)) $(if $(COMMIT),--commit $(COMMIT))

clean: ## remove the site and every cache; keeps .venv
	rm -rf _build build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
