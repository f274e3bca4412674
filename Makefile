# `make help` lists the targets. They set up what they need: only Python 3.11 and make are needed (Go for some targets).
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
NODES ?= 100
BENCH_NODES := $(if $(filter command line environment,$(origin NODES)),--nodes $(NODES))
STAMP := $(VENV)/.installed
RUNNABLE := $(VENV)/.runnable
# Targets that need no developers' tools: they wait for the package alone, unless these are there or are installed, too.
RUNNING := up up-real run-frontend run-filter run-score run-bind run-insight run-shadow certs controlplane
VERSION_NOW = $(shell sed -n 's/^TRIREME = "\(.*\)"$$/\1/p' internal/trireme/framework/release.py)
# Where the environment forbids bytecode, each run of pytest would compile and rewrite a thousand modules again: ten
# seconds in each worker.
export PYTHONDONTWRITEBYTECODE :=
# Maven ends before code that is optimised further pays: half of the processor time.
export MAVEN_OPTS ?= -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
comma := ,
empty :=
space := $(empty) $(empty)

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@[ -t 1 ] && color=1; awk -v color=$$color 'BEGIN {FS = ":.*## "} /^[a-zA-Z_-]+:.*## / { \
		line = sprintf(color ? "  \033[36m%-22s\033[0m" : "  %-22s", $$1); width = 24; count = split($$2, words, " "); \
		for (i = 1; i <= count; i++) { \
			if (width + 1 + length(words[i]) > 80) {print line; line = sprintf("%24s", ""); width = 24} \
			line = line " " words[i]; width += 1 + length(words[i]) \
		} \
		print line}' $(MAKEFILE_LIST)

# install(what,extras): into the environment, which is made if there is none.
define install
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not installed; set PYTHON to a Python of 3.11 or newer" >&2; exit 1; }
	@echo "installing $(1) into $(VENV): about a minute the first time, longer on a slow network" >&2
	@test -x $(BIN)/python || { echo "  making the environment" >&2; $(PYTHON) -m venv $(VENV); }
	@echo "  downloading and installing packages" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(2)'
	@echo "  compiling" >&2
	@$(BIN)/python -m compileall -q internal # as pip does; otherwise each start compiles again where Python may not write
	@touch $@
endef

$(STAMP): pyproject.toml
	$(call install,Trireme with its developers' tools,[dev$(comma)docs])

$(RUNNABLE): pyproject.toml
	$(call install,Trireme,)

$(RUNNING): $(if $(filter-out $(RUNNING),$(MAKECMDGOALS))$(wildcard $(STAMP)),$(STAMP),$(RUNNABLE))

.PHONY: setup
setup: $(STAMP) ## Install everything into .venv

##: running

.PHONY: up
up: ## Run everything against the embedded cluster, with sample workloads (NODES=100 ARGS="--feature-gates=...")
	@$(BIN)/trireme up --nodes $(NODES) --demo $(ARGS)

.PHONY: up-real
up-real: controlplane ## As up, against a real control plane without kubelets (needs Go)
	@$(BIN)/python -m tools.controlplane.launcher --controllers --nodes $(NODES) -- bash -c '$(BIN)/trireme up --kubeconfig "$$KUBECONFIG" --demo'

.PHONY: run-frontend
run-frontend: ## Run the frontend alone (ARGS="--kubeconfig FILE")
	@$(BIN)/python cmd/frontend $(ARGS)

.PHONY: run-filter
run-filter: ## Run a filter replica alone (ARGS="--listen 127.0.0.1:7001")
	@$(BIN)/python cmd/filter $(ARGS)

.PHONY: run-score
run-score: ## Run a score replica alone (ARGS="--listen 127.0.0.1:7002")
	@$(BIN)/python cmd/score $(ARGS)

.PHONY: run-bind
run-bind: ## Run a bind replica alone (ARGS="--listen 127.0.0.1:7003 --kubeconfig FILE")
	@$(BIN)/python cmd/bind $(ARGS)

.PHONY: run-insight
run-insight: ## Run an insight replica alone (ARGS="--listen 127.0.0.1:7004")
	@$(BIN)/python cmd/insight $(ARGS)

.PHONY: run-shadow
run-shadow: ## Compare Trireme with a cluster's scheduler, only reading (ARGS="--kubeconfig FILE")
	@$(BIN)/python cmd/shadow $(ARGS)

.PHONY: image
image: ## Build the image with all commands, trireme:VERSION (with docker, podman or buildah: BUILDER=podman; BUILD_FLAGS=...)
	@deploy/image/build.sh trireme:$(VERSION_NOW) $(BUILD_FLAGS)

.PHONY: test-image
test-image: $(STAMP) ## Build the image of Debian's packages for amd64 and arm64, twice, without a registry, check and sign it; says what it skips for lack of root, buildah, mmdebstrap, arch-test, qemu-user-static or Go
	@$(BIN)/python -m tools.image.whole_image
	@TRIREME_WHOLE_IMAGE=1 $(BIN)/pytest -q tools/image tools/release tests/contract/test_image_contents.py

.PHONY: node
node: $(STAMP) ## Run a real cluster on this machine, with containers, until Ctrl-C (NODES=2 ARGS="-- kubectl get nodes"; root on Debian, Go)
	@$(BIN)/python -m tools.node.node_cluster --nodes $(if $(BENCH_NODES),$(NODES),2) $(ARGS)

.PHONY: test-node
test-node: $(STAMP) programs ## Install the chart on a real cluster of two nodes, break everything, renew certificates, upgrade and roll back, 20 minutes, more the first time (ARGS="--steps install,lost" chooses steps; root on Debian, Go)
	@$(BIN)/python -m tools.node.installation_trial $(ARGS)

.PHONY: manifests
manifests: $(STAMP) programs ## Write the dashboards from deploy/dashboards.yaml, and the kustomizations of deploy/ from the chart (needs Go)
	@$(BIN)/python -m deploy.make_dashboards
	@$(BIN)/python -m deploy.make_manifests

.PHONY: certs
certs: ## Make an authority and certificates in build/certificates, valid for 30 days, to try out TLS between the services
	@$(BIN)/python deploy/make_certificates.py

##: checking

.PHONY: lint
lint: $(STAMP) ## Style, layering and proto rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/buf lint
	@$(BIN)/buf breaking --against protos/frozen.binpb
	@PATH="$(CURDIR)/$(BIN):$$PATH" protos/generate.sh --check

.PHONY: freeze
freeze: $(STAMP) ## Freeze what was added to protos/ and to the reason codes (refuses if anything else of protos/ changed)
	@$(BIN)/buf breaking --against protos/frozen.binpb
	@$(BIN)/buf build --exclude-source-info -o protos/frozen.binpb
	@$(BIN)/python -m tests.helpers.reasons_document --freeze

.PHONY: related
related: $(STAMP) ## Which places a change of a file may concern (FILE=internal/trireme/bind/flags.py NAME=a name or message in it, ARGS=--all)
	@$(BIN)/python -m tools.related.related_files $(FILE) "$$NAME" $(ARGS)

.PHONY: types
types: $(STAMP) ## Types
	@$(BIN)/mypy

.PHONY: unit
unit: $(STAMP) ## Unit tests
	@$(BIN)/pytest tests/unit --numprocesses 2

.PHONY: check
check: $(STAMP) lint types ## While you work: style, types and the quick unit tests, in half a minute (no property tests, no processes, nothing over a quarter of a second)
	@$(BIN)/pytest tests/unit --quiet --numprocesses 2 -m 'not hypothesis and not slow and not processes'

.PHONY: test
test: $(STAMP) lint types ## Everything that CI checks (with Go: on the real control plane too)
	@if command -v go >/dev/null; then $(BIN)/python -m tools.controlplane.build_controlplane --node && $(BIN)/python -m tests.conformance.real_framework && $(BIN)/python -m tools.programs.build_programs; fi
	@status=0; $(BIN)/pytest tests/unit --numprocesses 2 --dist worksteal || status=1; $(BIN)/pytest --ignore tests/unit --numprocesses 3 --dist loadfile --no-loadscope-reorder || status=1; exit $$status

CHART_TESTS = tests/contract/test_chart.py tests/contract/test_chart_manifests.py tests/unit/project/test_chart_values.py

.PHONY: chart-test
chart-test: $(STAMP) programs controlplane ## Test the chart: lint, values, wrong values, install, upgrade, uninstall (needs Go)
	@$(BIN)/pytest $(CHART_TESTS) tests/e2e/controlplane/test_controlplane_chart.py tests/e2e/test_e2e_chart.py

.PHONY: chart-snapshots
chart-snapshots: $(STAMP) programs ## Record what the chart renders of the values in tests/contract/data/chart (needs Go)
	@UPDATE_SNAPSHOTS=1 $(BIN)/pytest --quiet -k recorded tests/contract/test_chart.py

.PHONY: flaky
flaky: $(STAMP) ## Run the tests that start processes 20 times, several at a time, and list the failed ones (ROUNDS=20 TESTS=tests/contract)
	@$(BIN)/python -m tools.flaky --rounds $(or $(ROUNDS),20) $(TESTS)

.PHONY: conformance
conformance: $(STAMP) ## Agreement with kube-scheduler's decisions, of services and in process (CASES=file for another set, ANSWERS=1: print ours)
	@$(BIN)/python -m tests.conformance.agreement $(if $(CASES),--cases $(CASES)) $(if $(ANSWERS),--print-answers)

.PHONY: differential
differential: $(STAMP) ## Compare with kube-scheduler on random input (KIND=decisions|hints|config|flags N=500 SEED=1 FROM=both|golden|scratch|preemption|gates; needs Go)
	@$(BIN)/python -m tests.conformance.differential --kind $(or $(KIND),decisions) --count $(or $(N),500) --seed $(or $(SEED),1) \
		--from $(or $(FROM),both)

.PHONY: follow
follow: $(STAMP) ## What another version of Kubernetes changes: answers, and what can be set or measured (VERSION=v1.38.0; needs Go)
	@$(BIN)/python -m tests.conformance.follow $(VERSION)

.PHONY: test-versions
test-versions: $(STAMP) ## The end-to-end tests on real control planes of several versions, an hour each after building (VERSIONS="v1.35.4 v1.36.3" FILES=test_e2e_scheduling.py; needs Go)
	@$(BIN)/python -m tools.controlplane.versions_run $(VERSIONS) $(if $(FILES),--files $(FILES))

.PHONY: simulate
simulate: $(STAMP) ## The whole system on one virtual clock, with faults; the same SEED gives the same run (SEED=7 HOURS=1 FAULTS=kill,stall FEATURES=plugins,insight LOAD=light TRACE=file, PLAN=file of a failure, REPLAY=trace to compare with, DEFECT=lost-rows put into the product)
	@$(BIN)/python -m tests.simulation.simulate --seed $(or $(SEED),7) --hours $(or $(HOURS),1) $(if $(FAULTS),--faults $(FAULTS)) $(if $(FEATURES),--features $(FEATURES)) $(if $(LOAD),--load $(LOAD)) \
		$(if $(TRACE),--trace $(TRACE)) $(if $(PLAN),--plan $(PLAN)) $(if $(REPLAY),--replay $(REPLAY)) $(if $(DEFECT),--defect $(DEFECT))

.PHONY: simulate-coverage
simulate-coverage: $(STAMP) ## Which branches of the scheduler simulations reach, by module, and in how many runs (SEEDS=1-6 HOURS=0.08 NEVER=1: those that none reaches)
	@$(BIN)/python -m tests.simulation.simulated_coverage --seeds $(or $(SEEDS),1-6) --hours $(or $(HOURS),0.08) $(if $(NEVER),--never)

.PHONY: compare-simulations
compare-simulations: $(STAMP) ## Compare what insight says would happen with what a whole Trireme then does (N=1000 SEED=1 SEVERAL=1: several pods at once)
	@$(BIN)/python -m tests.simulation.scenarios.simulated_questions --seed $(or $(SEED),1) --scenarios $(or $(N),1000) $(if $(SEVERAL),--several)

.PHONY: compare-scenarios
compare-scenarios: $(STAMP) controlplane ## As compare-simulations, on a real control plane, and scenarios of all kinds (N=100 SEED=1 KINDS=drain,scale; needs Go)
	@$(BIN)/python -m tests.simulation.scenarios.compare_scenarios --seed $(or $(SEED),1) \
		--scenarios $(or $(N),100) $(if $(KINDS),--kinds $(KINDS)) $(ARGS)

.PHONY: replay-proof
replay-proof: $(STAMP) ## Record a simulated run of mixed load, and decide all of it again (N=100000 SEED=1 REDACT=1 KEEP=folder)
	@$(BIN)/python -m tests.simulation.replay_proof --decisions $(or $(N),100000) --seed $(or $(SEED),1) $(if $(REDACT),--redact) \
		$(if $(KEEP),--keep $(KEEP))

.PHONY: simulate-long
simulate-long: $(STAMP) ## Simulate one seed after another until Ctrl-C or a violation (SEED=1 to begin with, HOURS=1 each, FAULTS=kill,stall LOAD=light)
	@$(BIN)/python -m tests.simulation.simulate --endless --seed $(or $(SEED),1) --hours $(or $(HOURS),1) $(if $(FAULTS),--faults $(FAULTS)) $(if $(LOAD),--load $(LOAD))

.PHONY: simulate-regressions
simulate-regressions: $(STAMP) ## Whether simulations find defects put into the product, ten minutes each at most (NAMES="lost-rows", TODAY=1: those that CI looks for today, SAVE=1: keep what was found for docs/reference/simulation-checks.md)
	@$(BIN)/python -m tests.simulation.defect_search $(if $(SAVE),--save) $(if $(TODAY),--today) $(NAMES)

.PHONY: simulate-mutants
simulate-mutants: $(STAMP) ## How many of some small mistakes in the core simulations find (N=10 SEED=1 MINUTES=10 of processor time for each)
	@$(BIN)/python -m tests.simulation.mutant_search --draw $(or $(N),10) --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10)

.PHONY: chaos
chaos: $(STAMP) controlplane ## Break real processes under load, a fault every six seconds (N=1000 SIDE=trireme|kube-scheduler SEED=1 LEASE=4; Linux, root or user namespaces; needs Go)
	@$(BIN)/python -m tools.chaos.chaos --faults $(or $(N),1000) \
		--side $(or $(SIDE),trireme) --seed $(or $(SEED),1) --lease $(or $(LEASE),4) $(ARGS)

MUTATION = $(BIN)/python -m tools.mutation.mutation_run $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(JOBS),--jobs $(JOBS))
HINTS = $(wildcard internal/trireme/plugins/*/hints.py)

.PHONY: mutation
mutation: $(STAMP) ## Whether a test notices each small change of the code (FOLDER=internal/trireme/queueing, or files; without: the queueing hints. SAMPLE=200 SEED=1: some of the changes)
	@$(MUTATION) --folder $(or $(FOLDER),$(HINTS))

.PHONY: mutation-changed
mutation-changed: $(STAMP) ## As mutation, for the functions that differ from another commit's (BASE=main SAMPLE=200)
	@$(MUTATION) --base $(or $(BASE),main)

.PHONY: module-tests
module-tests: $(STAMP) ## Whether the tests that docstrings name notice small mistakes in the module, some hours for all (FOLDER=internal/trireme/bind, or files. WRITE=1: correct them)
	@$(BIN)/python -m tools.module_tests.compare $(or $(FOLDER),internal) $(if $(WRITE),--write)

.PHONY: sig-scheduling
sig-scheduling: $(STAMP) ## Kubernetes' own end-to-end tests of scheduling, 15 minutes (SCHEDULER=kube-scheduler, VERSION=v1.38.0: the suite of that version; PARTS="groups scheduling" FOCUS=expression; needs Go)
	@if command -v go >/dev/null; then $(BIN)/python -m tools.controlplane.build_controlplane; fi
	@$(BIN)/python -m tests.e2e.sig_scheduling.sig_scheduling $(if $(SCHEDULER),--scheduler $(SCHEDULER)) $(if $(FOCUS),--focus "$(FOCUS)") \
		$(if $(VERSION),--version $(VERSION)) $(if $(PARTS),--parts $(PARTS))

.PHONY: fuzz
fuzz: $(STAMP) ## Fuzz parsers and RPC handlers, a minute each (SECONDS=60 RUNS=n TARGETS=cel,delta; SAVE=1: keep interesting inputs)
	@$(BIN)/python -m tools.fuzz.fuzz_run --seconds $(or $(SECONDS),60) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(TARGETS),--targets $(TARGETS)) $(if $(SAVE),--save)

.PHONY: audit
audit: $(STAMP) ## Known vulnerabilities of the installed packages (OSV_URL=server to ask in place of PyPI)
	@$(BIN)/python -m tests.security.dependency_audit $(if $(OSV_URL),--osv-url "$(OSV_URL)")

.PHONY: clients
clients: $(STAMP) ## Clients of Kubernetes against the embedded cluster (CLIENTS="helm rust"; needs their toolchains)
	@$(BIN)/python -m tests.e2e.clients.run_clients $(CLIENTS)

.PHONY: presubmit
presubmit: test ## Check whether a change may land: everything that CI checks

.PHONY: protos
protos: $(STAMP) ## Generate internal/trireme/v1 from protos/, and with Go or Rust the code of sdk/go, sdk/rust
	@PATH="$(CURDIR)/$(BIN):$$PATH" protos/generate.sh
	@if command -v go >/dev/null; then sdk/go/generate.sh; fi
	@if command -v cargo >/dev/null; then sdk/rust/generate.sh; fi

.PHONY: sdk-packages
sdk-packages: $(STAMP) ## Build the packages of the SDKs and the protos as a buf module into build/sdk (LANGUAGES="go rust")
	@$(BIN)/python sdk/build_packages.py $(LANGUAGES)

.PHONY: set-version
set-version: $(STAMP) ## Write another version to all places that name it (VERSION=0.3.0)
	@$(BIN)/python -m tools.release.versions $(VERSION)

.PHONY: release
release: $(STAMP) ## Build what a release consists of into build/release, and check it in clean environments (VERSION=0.2.0 KEY=cosign.key, or any that cosign takes, to sign them, URL=https://…; Go, and for the image what test-image needs)
	@$(BIN)/python -m tools.release.build_release $(VERSION) $(if $(URL),--url $(URL)) $(if $(KEY),--key $(KEY))

.PHONY: console
console: ## Build the console's page from console/ into the package (needs npm)
	@cd console && npm ci --silent --ignore-scripts && npm run --silent check && npm run --silent build

.PHONY: docs
docs: $(STAMP) ## Write the documents generated from the code: metrics, configuration, flags, command line, HTTP, feature gates, queue, plugin verification, the contract of plugins, the chart's values, reason codes, JSON schemas
	@$(BIN)/python -m tests.contract.metrics_document
	@$(BIN)/python -m tests.simulation.defects_document
	@$(BIN)/python -m tests.helpers.configuration_document
	@$(BIN)/python -m tests.helpers.gates_document
	@$(BIN)/python -m tests.helpers.queue_document
	@$(BIN)/python -m tests.helpers.verification_document
	@$(BIN)/python -m tests.helpers.contract_document
	@$(BIN)/python -m tests.helpers.chart_values_document
	@$(BIN)/python -m tests.helpers.reasons_document
	@$(BIN)/python -m tests.helpers.flags_document
	@$(BIN)/python -m tests.helpers.schemas_document
	@$(BIN)/python -m tests.helpers.command_line_document
	@$(BIN)/python -m tests.helpers.http_document
	@$(BIN)/python -m tests.helpers.tutorials_document
	@$(BIN)/python -m tests.helpers.versions_document

.PHONY: site
site: $(STAMP) ## Build the documents as a site into build/site, without a network (ARGS=serve: serve it on 127.0.0.1:8000 instead)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --strict --quiet)

.PHONY: pictures
pictures: $(STAMP) ## Take the pictures of docs/images from a real run, three minutes (needs Chromium)
	@$(BIN)/python -m tools.website.pictures

.PHONY: site-version
site-version: $(STAMP) ## Add the site of a version to the branch gh-pages, without pushing it (VERSION=0.2.0; the newest is also `latest`)
	@PATH="$(CURDIR)/$(BIN):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --update-aliases $(or $(VERSION),$(VERSION_NOW)) latest
	@PATH="$(CURDIR)/$(BIN):$$PATH" mike set-default latest

.PHONY: changes
changes: $(STAMP) ## Show what changelog.d has for the next release
	@$(BIN)/towncrier build --draft --version next --date unreleased

.PHONY: controlplane
controlplane: ## Build the real control plane, once (needs Go)
	@$(BIN)/python -m tools.controlplane.build_controlplane

.PHONY: programs
programs: $(STAMP) ## Build Helm, actionlint and a check of dashboards, once (needs Go)
	@$(BIN)/python -m tools.programs.build_programs

.PHONY: test-traces
test-traces: $(STAMP) ## Send traces to a real collector, and read them from its store (builds Jaeger, ten minutes; needs Go)
	@$(BIN)/python -m tools.programs.build_jaeger
	@$(BIN)/pytest tests/e2e/test_e2e_tracing_store.py

.PHONY: bench
bench: $(STAMP) controlplane ## Benchmark against kube-scheduler (NODES=5000 WORKLOADS="basic nodeaffinity")
	@$(BIN)/python -m tools.bench.run $(BENCH_NODES) $(if $(WORKLOADS),--workloads $(subst $(space),$(comma),$(WORKLOADS)))

.PHONY: bench-before
bench-before: $(STAMP) controlplane ## Benchmark against another commit, such as the last release (COMMIT=v0.1.0 WORKLOADS="basic distinct")
	@test -n "$(COMMIT)" || { echo "bench-before: name a commit: make bench-before COMMIT=v0.1.0" >&2; exit 1; }
	@rm -rf build/before && git clone --quiet . build/before && git -C build/before checkout --quiet $(COMMIT)
	@$(MAKE) --no-print-directory -C build/before setup
	@$(BIN)/python -m tools.bench.run $(BENCH_NODES) --workloads $(or $(subst $(space),$(comma),$(WORKLOADS)),basic$(comma)twentyclasses$(comma)distinct) --sides trireme,trireme-before --rounds 5 --result build/before.json

.PHONY: bench-plots
bench-plots: $(STAMP) controlplane ## Plot what a pod costs by the number of kinds of pods and of nodes, beside kube-scheduler, in docs/performance.svg
	@$(BIN)/python -m tools.bench.run --workloads distinct,kinds --nodes 500,5000,50000,100000 --sides trireme,kube-scheduler --rounds 1 --merge
	@$(BIN)/python -m tools.bench.run --render

.PHONY: bench-guard
bench-guard: $(STAMP) ## Count what a pod costs in calls, bytes and evaluated nodes, and compare with tools/bench/guard.json (ARGS=--write stores it)
	@$(BIN)/python -m tools.bench.guard $(ARGS)

.PHONY: event-pace
event-pace: $(STAMP) controlplane ## Check that events keep pace with 100,000 pods at a steady rate (PODS=100000 RATE=200; needs Go)
	@$(BIN)/python -m tools.bench.run --workloads eventpace --nodes 5000 --rounds 1 --result build/eventpace.json \
		--set measurePods=$(or $(PODS),100000),podsPerSecond=$(or $(RATE),200)

.PHONY: soak
soak: simulated-soak ## A simulated day, then two hours of pods that come and go, and whether anything grows (HOURS=2 RATE=100 PLOT=file.svg)
	@$(BIN)/python -m tools.soak.soak_run --hours $(or $(HOURS),2) --rate $(or $(RATE),100) $(if $(PLOT),--plot $(PLOT)) $(ARGS)

.PHONY: simulated-soak
simulated-soak: $(STAMP) ## A day of steady load in the simulator, ten minutes, and whether anything grows (VIRTUAL_HOURS=24)
	@$(BIN)/python -m tools.soak.simulated_soak --hours $(or $(VIRTUAL_HOURS),24)

.PHONY: clean
clean: ## Remove build results and the environment
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
