# The only command surface. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# uv where it is installed, else a private copy that `make setup` brings along.
UV := $(or $(shell command -v uv 2>/dev/null),$(CURDIR)/.tools/bin/uv)
BIN := .venv/bin

# The page of `treefold view`, and what it is built from.
PAGE := python/treefold/viewing/assets/page.html
VIEWER := viewer/package.json viewer/package-lock.json viewer/tsconfig.json viewer/vite.config.ts $(shell find viewer/src -type f)

# Tests start hundreds of processes: where nothing keeps what Python compiled, each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

# Many tests wait for a timeout or a connection: there are more of them at once than cores.
CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
THREADS := $(shell echo $$(( 2 * $(CORES) )))
WORKERS := $(shell echo $$(( $(CORES) + 2 )))

# Of `make test-torch`: a version of PyTorch, such as 2.10, instead of the newest; it has an environment of its own.
TORCH ?=
TORCH_ENV := .venv-torch$(if $(TORCH),-$(TORCH))

# Of `make fuzz` and `make fuzz-core`: for how long, from which seed, in how many processes, and which targets.
FOR ?= 10m
SEED ?= 1
JOBS ?= 1
ONLY ?=

.PHONY: help setup viewer demo options test test-mpi test-torch test-view test-slow test-long fuzz fuzz-core lint bench bench-wan picture docs wheel test-wheel check

help: ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 12

setup: ## Build treefold and its environment in .venv; installs uv when it is missing.
	@command -v cargo >/dev/null || { echo "treefold is built with Rust: install it with rustup or your system's package, then run make again" >&2; exit 1; }
	@[ -x "$(UV)" ] || command -v "$(UV)" >/dev/null || { python3 -m venv .tools && .tools/bin/pip install --quiet uv; }
	@"$(UV)" sync --quiet $(if $(CI),--reinstall-package treefold)
	@$(MAKE) --no-print-directory $(PAGE)

viewer: $(PAGE) ## Build the page of `treefold view` from viewer/; brings Node along as a package, in .venv-viewer.

$(PAGE): $(VIEWER)
	@[ -x "$(UV)" ] || command -v "$(UV)" >/dev/null || { python3 -m venv .tools && .tools/bin/pip install --quiet uv; }
	@UV_PROJECT_ENVIRONMENT=.venv-viewer "$(UV)" sync --quiet --only-group viewer
	@cd viewer && export PATH="$(CURDIR)/.venv-viewer/bin:$$PATH" && { npm ci --silent && npm run --silent build -- --logLevel warn; } || \
		{ echo "the page of treefold view is not built: npm needs the package registry; then run make viewer again" >&2; exit 1; }
	@touch $(PAGE)

demo: setup ## Plan, check, really add arrays, and compare and draw algorithms on a torus and on a real WAN.
	@$(BIN)/python examples/01_tour.py

options: setup ## Write what follows from the options that the core declares: Python's dataclasses, schemas, the manual.
	@$(BIN)/python -m tools.options

test: setup ## Fast tests, Rust and Python.
	RUST_TEST_THREADS=$(THREADS) cargo test --quiet --release --workspace --test suite
	cargo test --quiet --release --workspace --doc
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

test-mpi: setup ## Plans over MPI, with real ranks under mpiexec; installs mpi4py and MPICH into .venv-mpi.
	@UV_PROJECT_ENVIRONMENT=.venv-mpi "$(UV)" sync --quiet --extra mpi $(if $(CI),--reinstall-package treefold)
	.venv-mpi/bin/pytest tests_mpi

# An older torch comes after all else, as the versions in pyproject.toml, which uv then has to ignore, name the newest.
test-torch: setup ## The PyTorch backend in real processes; installs torch (3 GB) and torchft into .venv-torch, or TORCH=2.10 beside it.
	@UV_PROJECT_ENVIRONMENT=$(TORCH_ENV) "$(UV)" sync --quiet $(if $(TORCH),--inexact,--extra torchft) $(if $(CI),--reinstall-package treefold)
	@$(if $(TORCH),"$(UV)" pip install --quiet --no-config --python $(TORCH_ENV) 'torch==$(TORCH).*' 'torchft==0.2.*')
	$(TORCH_ENV)/bin/pytest tests_torch

test-view: setup ## The page of `treefold view` in a real browser; installs Chromium, and playwright into .venv-view.
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install --yes -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }
	@UV_PROJECT_ENVIRONMENT=.venv-view "$(UV)" sync --quiet --group view $(if $(CI),--reinstall-package treefold)
	.venv-view/bin/pytest tests_view

test-slow: setup ## The long cases: all random networks, large networks, figures of the papers; Rust's with checks of overflow.
	RUST_TEST_THREADS=$(THREADS) cargo test --quiet --workspace -- --include-ignored
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow

test-long: setup ## 10,000 random all-reduces over TCP: no wrong result, nothing left behind; two minutes.
	$(BIN)/pytest tests_long

fuzz: setup ## Fuzz everything for a while: FOR=10m SEED=1 JOBS=1 ONLY="files plans"; fuzz/README.md tells what it finds.
	@$(BIN)/python -m fuzz $(ONLY) --for $(FOR) --seed $(SEED) --jobs $(JOBS)

fuzz-core: setup ## Fuzz the core's readers with libFuzzer: FOR=10m SEED=1; installs cargo-fuzz into .tools.
	@[ -x .tools/bin/cargo-fuzz ] || cargo install --quiet --locked --root .tools --version 0.13.2 cargo-fuzz
	@PATH="$(CURDIR)/.tools/bin:$$PATH" $(BIN)/python -m fuzz.libfuzzer --for $(FOR) --seed $(SEED)

lint: setup ## Formatting, clippy, ruff, mypy, the layers of the Python package, and the viewer's types.
	cargo fmt --all --check
	cargo clippy --quiet --all-targets -- --deny warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd viewer && PATH="$(CURDIR)/.venv-viewer/bin:$$PATH" npm run --silent check

bench: setup ## Speed of planning and of the event simulators in CPU seconds, as ratios against rivals; what wide-area plans reach.
	cargo bench --quiet --package treefold --bench planning --bench shared --bench flow --bench packet
	$(BIN)/python -m bench.wide_area

bench-wan: setup ## treefold, gloo, gloo in its best ring order and MPI on WANs in a box, beside the bound, and over loopback; needs root; installs torch and MPICH.
	@command -v iptables-legacy >/dev/null || { apt-get update -qq && apt-get install --yes -qq --no-install-recommends iptables >/dev/null; }
	@UV_PROJECT_ENVIRONMENT=.venv-torch "$(UV)" sync --quiet --extra torch
	@UV_PROJECT_ENVIRONMENT=.venv-mpi "$(UV)" sync --quiet --extra mpi
	$(BIN)/python -m bench.wan.compare
	$(BIN)/python -m bench.loopback

wheel: $(PAGE) ## Build dist/: a wheel for any Linux of the last ten years, and the source distribution; installs zig.
	@command -v cargo >/dev/null || { echo "treefold is built with Rust: install it with rustup or your system's package, then run make again" >&2; exit 1; }
	@[ -x "$(UV)" ] || command -v "$(UV)" >/dev/null || { python3 -m venv .tools && .tools/bin/pip install --quiet uv; }
	@rm -rf dist
	@UV_PROJECT_ENVIRONMENT=.venv-wheel "$(UV)" sync --quiet --only-group wheel
	RUSTFLAGS="--remap-path-prefix=$${CARGO_HOME:-$$HOME/.cargo}=cargo --remap-path-prefix=$(CURDIR)=treefold" CARGO_TARGET_DIR=target/wheel \
		TREEFOLD_COMMIT=$$(git rev-parse --short=9 HEAD) PATH="$(CURDIR)/.venv-wheel/bin:$$PATH" maturin build --release --sdist --zig --compatibility manylinux2014 --out dist --quiet

test-wheel: wheel setup ## Install the wheel into an empty environment, without Rust and without the checkout, and use it.
	$(BIN)/pytest tests_wheel

picture: setup ## The README's picture of `treefold view`, in docs/view.png; needs what `make test-view` installs.
	.venv-view/bin/python -m tools.manual.picture docs/view.png

docs: setup ## The manual as a site, in target/manual/site, and the Rust API's pages; warnings and dead links are errors.
	RUSTDOCFLAGS="--deny warnings" cargo doc --quiet --package treefold --no-deps
	@UV_PROJECT_ENVIRONMENT=.venv-docs "$(UV)" sync --quiet --only-group docs
	$(BIN)/python -m tools.manual
	.venv-docs/bin/zensical build --strict --config-file target/manual/zensical.toml
	$(BIN)/python -m tools.manual.links target/manual/site

# The core's unit tests compile it once more; `make test-slow` has them, too.
check: lint test docs ## Everything that must pass before a change lands.
	cargo test --quiet --release --workspace --lib
