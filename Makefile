# Everything one does with Retune. `make help` lists it; `make run` and `make test` are all that a newcomer needs.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin/retune
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TOOL := $(GO) tool -modfile=tools/go.mod
# Packages whose tests run at the same time. They put load on real sockets: more would measure each other.
PACKAGES_AT_ONCE ?= 2
TEST_FLAGS ?=
# More flags for bench-proxy; `bin/peers -help` lists them.
BENCH_PROXY ?=
# And for bench-judge.
BENCH_JUDGE ?=
# How long the soak lasts.
SOAK ?= 30m

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build postgres ## Build, bring Postgres, start everything with its web UI; Ctrl-C stops it
	$(BIN) up

.PHONY: cycle
cycle: build postgres ## The same without a browser: start, one quick cycle, its table of results, stop
	$(BIN) cycle --up --profile quick

.PHONY: build
build: ## Build bin/retune
	@echo "Building $(BIN). The first build fetches and compiles every module: a minute or two on two cores."
	@$(GO) build -v -buildvcs=false -trimpath -tags timetzdata -ldflags "-X main.version=$(VERSION)" -o $(BIN) ./cmd/retune

.PHONY: test
test: postgres chromium ## Run the whole test suite, unit to end-to-end, bringing what it needs
	@echo "Testing. Packages report as they finish; the first run compiles them first."
	$(GO) test -p $(PACKAGES_AT_ONCE) -timeout 15m $(TEST_FLAGS) ./...

.PHONY: race
race: postgres chromium ## The whole suite under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -p $(PACKAGES_AT_ONCE) -timeout 20m $(TEST_FLAGS) ./...

# How many towns, each with a Postgres, a proxy, backends and an orchestrator of its own, are struck at the same time.
TOWNS ?= 3

.PHONY: test-chaos
test-chaos: postgres ## Kill, freeze and starve every process in every step of a cycle; CHAOS=verifying/proxy narrows it
	$(GO) test ./cmd/retune -run '^(TestChaos|TestTwo|TestTheOther|TestAnOwner|TestKill9)$(if $(CHAOS),/^$(CHAOS)$$)' -count 1 -chaos -v -parallel $(TOWNS) -timeout 3h

.PHONY: soak
soak: ## The proxy under load with backends that die, hang and come and go, and new rules every second, for SOAK=30m
	$(GO) test ./cmd/retune -run '^TestSoak$$' -count 1 -soak $(SOAK) -v -timeout 24h

# How long each fuzz target runs. By default Go would spend a minute on making one interesting input shorter, and try nothing.
FUZZTIME ?= 30s

.PHONY: fuzz
fuzz: ## Each fuzz target for FUZZTIME (30s): heads, answers, rule files, the admin API, models' answers, shapes, schedules
	@git ls-files '*_test.go' | xargs grep -o '^func Fuzz[A-Za-z0-9]*' | while IFS=: read -r file target; do \
		echo "./$${file%/*} $${target#func }, for $(FUZZTIME)"; \
		$(GO) test "./$${file%/*}" -run '^$$' -fuzz "^$${target#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x </dev/null || exit 1; \
	done

.PHONY: lint
lint: ## gofmt, go vet, golangci-lint, and whether generated files are up to date
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "Not gofmt'd (gofmt -w mends it):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@echo "golangci-lint is built first, which takes minutes the first time."
	$(TOOL) golangci-lint run
	@generated() { git ls-files -z -co --exclude-standard -- '*_templ.go' 'orchestrator/postgres/queries/*.go' | xargs -0 cksum; }; \
	before=$$(generated); $(MAKE) generate; \
	[ "$$before" = "$$(generated)" ] || { echo "Generated files were out of date and are new now: commit them."; exit 1; }

.PHONY: generate
generate: postgres ## Generate the pages from web/*.templ and the queries from orchestrator/postgres/queries/*.sql
	@echo "Generating. The generators are built first, which takes minutes the first time."
	$(GO) generate ./...

.PHONY: bench
bench: bench-picks bench-algorithms bench-load bench-faults bench-judge bench-proxy ## Every benchmark

.PHONY: bench-picks
bench-picks: ## Work per request in ns and allocations: a pick among 4 and 1,000 backends, the records at two threads
	$(GO) test ./proxy/balance -run '^$$' -bench '^BenchmarkPick$$/^.*$$/^(4|1000)$$' -cpu 1
	$(GO) test -p 1 ./proxy/traffic ./proxy/balance ./proxy -run '^$$' -bench '^Benchmark(Record|BeginEndParallel)$$' -cpu 2

.PHONY: bench-algorithms
bench-algorithms: build postgres ## The ten algorithms under the reference load, as ratios to ROUND_ROBIN
	$(BIN) bench --reference

.PHONY: bench-faults
bench-faults: build ## A backend lost in five ways and back again, under every algorithm: what clients see (4 min)
	$(BIN) bench --faults

.PHONY: bench-load
bench-load: ## The built-in driver: CPU per 100k requests, the rate it holds, a 2 s stall as its p95 shows it
	$(GO) test ./orchestrator/loadtest -run '^$$' -bench '^BenchmarkLoad' -benchtime 1x -v

.PHONY: bench-judge
bench-judge: ## How often the judge errs, on recorded runs and simulated machines, beside a rule of one run; BENCH_JUDGE="-o json"
	@$(GO) run ./bench/judge $(BENCH_JUDGE)

.PHONY: bench-proxy
bench-proxy: build ## The proxy beside nginx and HAProxy, goals met or missed; BENCH_PROXY="--quick --scenario c64" narrows it
	@$(GO) build -o bin/peers ./bench/peers
	bin/peers --retune $(BIN) $(BENCH_PROXY)

.PHONY: screenshots
screenshots: chromium ## A picture of every page into docs/screenshots, 1280 and 390 wide, light and dark
	$(GO) test ./web -run '^TestScreenshots$$' -count 1 -screenshots "$(CURDIR)/docs/screenshots"

.PHONY: tools
tools: postgres chromium ## Bring what is not written in Go: Postgres, and Chromium for the browser tests

.PHONY: postgres
postgres:
	@bash tools/postgres.sh

.PHONY: chromium
chromium:
	@bash tools/chromium.sh

.PHONY: clean
clean: ## Remove what was built (data stays)
	rm -rf bin
