# Two commands need nothing but Go and Debian's packages:
#
#   make demo    builds, starts a server and an agent, runs real jobs, shows their life
#   make test    installs what the tests need and runs all of them
#
# The others:
#
#   make         builds bin/berth
#   make demo-cluster  starts three servers and three nodes, kills the server that leads
#   make demo-stream   the same with a stream application in the middle of its submission
#   make demo-access  two teams, a secret that one task gets, refused requests, new keys
#   make ui      makes the files of the web UI again, after a change of internal/ui/src
#   make ui-test every page of the web UI in all looks, in a real browser: bin/ui
#   make screenshots  the pictures of the web UI that README shows
#   make check   what needs no test to be found wrong: format, vet, staticcheck, go.mod
#   make flaky   the tests N times, also under LOAD: which of them fail sometimes
#   make bench   the workloads over the real wire, and the small benchmarks
#   make clients real programs of others against a real agent
#   make fuzz    every fuzz target, FUZZTIME each (10m)
#   make soak    the long forms of the tests that kill processes
#   make canaries  plants secrets and looks for them everywhere, for CANARIES (1h)
#   make storm   kills an agent 20 times beside 50 tasks of all drivers
#   make bench-ui   the web UI beside a large cluster: frames, processor time, what it costs the load
#   make bench-drivers  what tasks cost a node, and how fast it starts them
#   make scenarios  the acceptance scenarios of stream jobs, a line for each
#   make hostile attacks one server and three for HOSTILE (1h), while users work
#   make faults  three servers and what they survive, ROUNDS times each: faults.out/report.html

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.7.0
FUZZTIME    ?= 10m
BENCH       ?= b1 b3 b4 b12
RUNS        ?= 3
ROUNDS      ?= 20
FAULT       ?=

# Tests that start processes wait for them, so two packages run beside each other,
# those that take longest first. In test/terms and test/histories there are none.
PROCESSES = $$($(GO) list -tags faults ./test/real ./test/faults ./internal/agent ./test/ui ./test/hostile ./test/network ./internal/agent/... ./test/... | grep -v -e '^berth/test/terms' -e '^berth/test/histories')
UNITS     = $$($(GO) list -tags faults ./... | grep -v -e '^berth/internal/agent' -e '^berth/test') ./test/terms ./test/histories

# Programs are static: they need no C compiler to build and no libc to run. Tests
# with the race detector need both.
BIN    ?= bin
STATIC  = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w'
RACE    = CGO_ENABLED=1 $(GO) test -race -tags faults

# Under the race detector a program sleeps for a second before it ends, unless
# told not to.
export GORACE ?= atexit_sleep_ms=0

# What is built does not depend on the directory, so clones share the cache.
export GOFLAGS ?= -trimpath

SHELL       = /bin/bash
.SHELLFLAGS = -o pipefail -c

.PHONY: build
build:
	$(STATIC) -o $(BIN)/berth ./cmd/berth

.PHONY: ui
ui:
	$(GO) run ./internal/ui/build

# Screenshots of every page are in bin/ui.
.PHONY: ui-test
ui-test: deps
	BERTH_LONG=1 $(RACE) -count=1 -timeout 30m -v ./test/ui

# The web UI beside SCALE times 10,000 jobs, 100,000 allocations and 5,000 nodes.
SCALE ?= 1
.PHONY: bench-ui
bench-ui: deps
	$(STATIC) -o $(BIN)/bench ./bench
	BERTH_BENCH=$(CURDIR)/$(BIN)/bench BERTH_BENCH_UI=$(SCALE) $(GO) test -count=1 -timeout 90m -v -run '^TestScale$$' ./test/ui

.PHONY: screenshots
screenshots: deps
	BERTH_SCREENSHOTS=$(CURDIR)/docs/images $(GO) test -tags faults -count=1 -timeout 10m -run '^TestScreenshots$$' ./test/ui

.PHONY: demo
demo: build
	@$(STATIC) -o bin/hello ./examples/hello
	@$(STATIC) -o bin/demo ./test/demo
	@bin/demo

.PHONY: demo-cluster
demo-cluster: build
	@$(STATIC) -o bin/hello ./examples/hello
	@$(STATIC) -o bin/demo ./test/demo
	@bin/demo -cluster

.PHONY: demo-stream
demo-stream: build
	@$(STATIC) -o bin/hello ./examples/hello
	@$(STATIC) -o bin/stream/ ./examples/stream/...
	@$(STATIC) -o bin/demo ./test/demo
	@bin/demo -stream

.PHONY: demo-access
demo-access: build
	@$(STATIC) -o bin/demo ./test/demo
	@bin/demo -access

# All parts run even if one fails. The end of the output lists what failed; the
# output of each part is in bin/PART.log.
PARTS ?= check unit processes demo demo-cluster demo-stream

.PHONY: test
test: deps
	@mkdir -p bin; failed=""; \
	for part in $(PARTS); do \
		printf '\n==== make %s\n' $$part; \
		$(MAKE) --no-print-directory $$part 2>&1 | tee bin/$$part.log || failed="$$failed $$part"; \
	done; \
	for part in $$failed; do \
		printf '\n==== make %s failed:\n' $$part; \
		grep -aE '^ *--- FAIL|^FAIL|^panic:|running tests:|^\t+Test|DATA RACE|ThreadSanitizer|^SIG[A-Z]+:|^fatal error:|^ +[a-z0-9_]+_test\.go:[0-9]+:' bin/$$part.log | tail -n 60 || tail -n 30 bin/$$part.log; \
	done; \
	if [ -n "$$failed" ]; then printf '\nFailed:%s\n' "$$failed"; exit 1; fi; printf '\nAll passed: %s\n' "$(PARTS)"

# The race detector needs a C compiler; the fault runner needs ip; networks of
# groups need CNI plugins and iptables; tests of drivers need their programs;
# those of the web UI need a browser.
.PHONY: deps
deps:
	@command -v gcc >/dev/null || (apt-get update && apt-get install -y gcc libc6-dev)
	@command -v dockerd >/dev/null && command -v docker-registry >/dev/null || (apt-get update && apt-get install -y --no-install-recommends docker.io docker-registry)
	@command -v podman >/dev/null && command -v conmon >/dev/null || (apt-get update && apt-get install -y --no-install-recommends podman runc netavark)
	@command -v qemu-system-x86_64 >/dev/null || (apt-get update && apt-get install -y --no-install-recommends qemu-system-x86)
	@command -v javac >/dev/null || (apt-get update && apt-get install -y --no-install-recommends default-jdk-headless)
	@command -v python3 >/dev/null || (apt-get update && apt-get install -y --no-install-recommends python3)
	@command -v git >/dev/null || (apt-get update && apt-get install -y --no-install-recommends git)
	@command -v chromium >/dev/null || (apt-get update && apt-get install -y --no-install-recommends chromium fonts-dejavu-core)
	@command -v ip >/dev/null || (apt-get update && apt-get install -y iproute2)
	@test -x /usr/lib/cni/bridge && command -v iptables >/dev/null || (apt-get update && apt-get install -y containernetworking-plugins iptables)

.PHONY: check
check:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	$(GO) mod tidy -diff
	CGO_ENABLED=0 $(GO) vet -tags faults ./...
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) -tags faults ./...

.PHONY: unit
unit:
	$(RACE) -timeout 20m $(UNITS)

.PHONY: processes
processes:
	$(RACE) -p 2 -timeout 40m $(PROCESSES)
	CGO_ENABLED=0 $(GO) test -tags faults -count=1 -run TestMemoryOfTheFetcher ./internal/agent/fetch

# Each package of PROCESSES alone and each part of the tests, N times: make flaky
# N=20 LOAD=20 FLAKY="./test/real unit" RUN=TestStorm. It prints a table of what
# failed; logs are in bin/flaky.
N     ?= 5
LOAD  ?= 0
RUN   ?=
FLAKY ?= $(patsubst berth/%,./%,$(shell $(GO) list -tags faults -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./internal/agent/... ./test/...)) $(PARTS)

.PHONY: flaky
flaky: deps build
	@$(STATIC) -o bin/flakytests ./test/flaky
	@bin/flakytests -n $(N) -load $(LOAD) -run '$(RUN)' $(FLAKY)

.PHONY: soak
soak:
	BERTH_LONG=1 $(RACE) -p 1 -count=1 -timeout 6h ./internal/consensus/... ./test/histories ./test/terms $(PROCESSES)

# Programs of others, built from their modules, which are not among Berth's own, or
# from Debian's packages, against a real agent.
.PHONY: clients
clients: deps
	@command -v prometheus >/dev/null || (apt-get update && apt-get install -y --no-install-recommends prometheus)
	cd test/clients && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/bin/clients/ ./coredns ./traefik github.com/hashicorp/consul-template
	GOBIN=$(CURDIR)/bin/clients CGO_ENABLED=0 $(GO) install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	cd test/clients/prometheus-sd && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/bin/clients/ .
	BERTH_CLIENTS=$(CURDIR)/bin/clients $(GO) test -tags faults -count=1 -timeout 20m -v -run '^TestClient' ./test/real

.PHONY: storm
storm: deps
	BERTH_STORM=1 $(GO) test -tags faults -count=1 -timeout 60m -v -run '^TestStorm$$' ./test/storm

CANARIES ?= 1h

.PHONY: canaries
canaries: deps
	BERTH_CANARIES=$(CANARIES) $(GO) test -tags faults -count=1 -timeout 6h -v -run '^TestCanaries$$' ./test/real

# It needs root. "docker run" is that of the docker client, Debian's docker-cli.
.PHONY: bench-drivers
bench-drivers: deps build
	@command -v docker >/dev/null || (apt-get update && apt-get install -y --no-install-recommends docker-cli)
	$(GO) run ./bench/drivers -berth $(BIN)/berth -drivers raw_exec,exec,docker -idle 200 -starts 200

HOSTILE ?= 1h

.PHONY: hostile
hostile:
	BERTH_HOSTILE=$(HOSTILE) $(GO) test -tags faults -count=1 -timeout 3h -v ./test/hostile

# The whole output is in bin/scenarios.log.
.PHONY: scenarios
scenarios:
	@mkdir -p bin
	@BERTH_LONG=1 $(GO) test -tags faults -count=1 -timeout 60m -v -run '^Test(S[0-9]+|Resume|SlowDeletion)$$' ./test/scenarios 2>&1 | tee bin/$@.log | grep --line-buffered -aE '^(--- |FAIL|ok)' || \
		{ printf '\nWhat failed:\n'; grep -aE '^ +[a-z]+_test\.go:[0-9]+:|^panic:|processes are left' bin/$@.log | grep -av 'harness_test.go.*log of' | head -n 100; exit 1; }

# It needs root and takes some two hours: all faults, then the defects that the
# checks must find. FAULT=F-01,F-08 plays those alone.
.PHONY: faults
faults: deps
	$(STATIC) -tags faults -o bin/berth-faults ./cmd/berth
	$(STATIC) -o bin/faults ./test/faults
	bin/faults -rounds $(ROUNDS) -fault "$(FAULT)"
	bin/faults -planted all

.PHONY: bench
bench:
	$(GO) run ./bench -runs $(RUNS) $(BENCH)
	$(GO) test -run '^$$' -bench . -benchmem ./internal/state ./internal/schedule ./internal/schedule/place ./internal/worker ./internal/consensus ./internal/wire ./internal/events ./internal/cow

# B1, B3 and B4 without and with access control, in turns.
.PHONY: bench-access
bench-access:
	$(GO) run ./bench -runs $(RUNS) -tokens 10000 b1 b3 b4

# What meets bytes from outside: job files in HCL and JSON, bodies, log entries,
# snapshots, frames; then everything else that parses.
FUZZ = \
	./jobspec:FuzzHCL ./jobspec:FuzzJSON ./jobspec:FuzzExpression ./internal/admit:FuzzDecodeJob \
	./internal/state:FuzzDecodeEntry ./internal/state:FuzzLoad ./internal/wire:FuzzFrame ./internal/wire:FuzzStream ./internal/wire:FuzzAnswer \
	./internal/consensus/logstore:FuzzDecodeRecord ./internal/consensus/logstore:FuzzDecodeBody ./internal/consensus/logstore:FuzzDecodeMeta \
	./internal/api:FuzzRequests ./internal/api:FuzzTokens ./internal/events:FuzzFilter ./client:FuzzAnswer ./client:FuzzAddress ./internal/config:FuzzConfig ./internal/state:FuzzUnpack \
	./internal/agent/dns:FuzzQuery ./internal/agent/fingerprint:FuzzDefaultRoute ./internal/agent/task:FuzzReplace ./internal/agent/local:FuzzRecord ./internal/agent/local:FuzzFile \
	./internal/agent/supervise:FuzzFrame ./internal/agent/supervise:FuzzState ./internal/agent/supervise:FuzzProcStat ./internal/saferoot:FuzzPathsStayInside \
	./internal/filter:FuzzCompile ./internal/api:FuzzPagingTokens ./internal/api:FuzzQueries ./internal/api:FuzzSocket ./internal/diff:FuzzJobs ./jobspec:FuzzFormat ./jobspec:FuzzPool ./internal/expr:FuzzParse ./internal/acl:FuzzParse ./internal/gossip:FuzzTags \
	./internal/agent/plugin/pluginwire:FuzzUnmarshal ./internal/wire/certs:FuzzParse ./internal/msgpack:FuzzStorage ./internal/agent/record:FuzzNext \
	./internal/agent/check:FuzzGRPCAnswer ./internal/agent/fingerprint:FuzzTopology

.PHONY: fuzz
fuzz:
	@set -e; for t in $(FUZZ); do \
		echo "== $$t"; $(GO) test -run '^$$' -fuzz "^$${t##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x "$${t%%:*}"; \
	done
