# `make` alone lists the targets. Every target that runs Python makes the environment first, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A worker that runs out of tests takes some of another's; each loads torch and TVM, and keeps its warm children.
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format type bench docs dist clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with the pinned versions; again only when they change

# torch first, by itself: it is the largest download, and the one whose build (CPU or CUDA) pip's settings choose.
# No build isolation: the setuptools that builds is then the pinned one, and nothing is fetched behind pip's back.
$(STAMP): pyproject.toml constraints.txt
	@echo 'Making $(VENV): 2 GB with the CPU build of torch, 6 GB with its CUDA build; one to five minutes'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) setuptools torch
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
	@echo 'Ready: $(BIN)/costhub --help'

demo: $(STAMP)  ## tune MobileNet-V2 on this machine beside PyTorch, in two to four minutes
	@$(BIN)/python -m scripts.demo

test: $(STAMP)  ## the tests, without the slow ones
	@$(PYTEST)

test-all: $(STAMP)  ## every test
	@$(PYTEST) -m ""

lint: $(STAMP)  ## ruff: rules and format
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

format: $(STAMP)  ## write what `make lint` asks for, where ruff can
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

type: $(STAMP)  ## mypy, strict
	@$(BIN)/python -m mypy

bench: $(STAMP)  ## every benchmark beside its baselines, the quick form
	@$(BIN)/python -m scripts.bench quick

# An environment of its own, small and made in seconds: the pages are text, and need neither torch nor TVM.
.venv-docs/.installed: constraints-docs.txt
	@$(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --quiet --disable-pip-version-check --requirement constraints-docs.txt
	@touch $@

docs: .venv-docs/.installed  ## the documentation as a site, in build/docs/; fails where a link leads nowhere
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet
	@! grep -rE --include '*.html' '<(script|link|img|iframe)[^>]+(src|href)="?(https?:)?//' build/docs  # nothing from elsewhere

dist: $(STAMP)  ## sdist and wheel, in dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .

clean:  ## remove what the other targets made
	@rm -rf $(VENV) .venv-docs build dist src/costhub.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
