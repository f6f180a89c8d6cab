# Everything a developer or CI runs. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

CARGO ?= cargo
# Tools that cargo installs for us; kept out of the user's own.
TOOLS := $(or $(CARGO_TARGET_DIR),target)/tools
DENY := $(TOOLS)/bin/cargo-deny
DENY_VERSION := 0.20.2

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: packages ## a controller, three nodes with real switches, pods of two namespaces; then all gone
	$(CARGO) build --quiet --locked -p osier -p osier-cni
	@scripts/demo $(or $(CARGO_TARGET_DIR),target)/debug/osier

.PHONY: test
test: packages tools kubernetes check ## all that CI runs: checks, unit, golden and end-to-end tests
	$(CARGO) test --workspace --locked

.PHONY: check
check: fmt-check lint docs-check deny ## the fast part: format, lints, documentation, licences

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

.PHONY: lint
lint:
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) check -p osier-openflow -p osier-ovsdb --no-default-features --locked

.PHONY: docs-check
docs-check:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) xtask check

.PHONY: deny
deny: $(DENY)
	$(DENY) --all-features --log-level error check bans licenses sources

$(DENY):
	$(CARGO) install --quiet --locked --root $(TOOLS) cargo-deny@$(DENY_VERSION)

.PHONY: bench
bench: packages $(if $(filter-out k8s%,$(BENCH)),,kubernetes) ## print the figures; BENCH=name for one of them
	scripts/install-packages ovn-central ovn-host
	$(CARGO) run --release --quiet -p osier-bench -- run $(BENCH)

.PHONY: fuzz
fuzz: ## every fuzz target for a while; SECONDS_EACH=n (default 20)
	scripts/fuzz $(or $(SECONDS_EACH),20)

.PHONY: soak
soak: packages ## the long suites, not in CI
	$(CARGO) test --workspace --locked --no-fail-fast -- --ignored soak --nocapture

# What upgrades begin with: an earlier commit, newer than the last change that broke them.
EARLIER ?= 27e6cfa

.PHONY: upgrade
upgrade: packages kubernetes ## from an earlier build to this one, in a cluster whose pods talk meanwhile; EARLIER=commit
	earlier=$$(scripts/build-earlier $(EARLIER)) && OSIER_EARLIER_DIR=$$earlier \
		$(CARGO) test --release --locked -p osier-kubelab --test osier -- --ignored --nocapture upgrade

KUBELAB = $(or $(CARGO_TARGET_DIR),target)/debug/kubelab
# What a cluster is to be like: NODES=n, DUAL=1, PROXY=iptables|nftables|osier|none, CNI=osier|bridge|none.
CLUSTER = --nodes $(or $(NODES),2) --proxy $(or $(PROXY),iptables) --cni $(or $(CNI),osier)
with_osier = $(filter osier,$(or $(CNI),osier))

.PHONY: kubernetes
kubernetes: packages ## install the Kubernetes that clusters run, or build it
	@scripts/install-packages kubernetes
	@scripts/install-kubernetes >/dev/null

.PHONY: kubelab
kubelab: kubernetes
	@$(CARGO) build --quiet --locked -p osier-kubelab $(if $(with_osier),-p osier -p xtask)
	@$(if $(with_osier),$(MAKE) --silent cni >/dev/null)

.PHONY: k8s
k8s: kubelab ## a real cluster with Osier on this machine; NODES=n DUAL=1 PROXY=nftables CNI=bridge
	@$(KUBELAB) up $(CLUSTER) $(if $(DUAL),--dual)

.PHONY: k8s-status
k8s-status: ## nodes and pods of that cluster
	@$(KUBELAB) status

.PHONY: k8s-down
k8s-down: ## end that cluster
	@$(KUBELAB) down

# What is run: FOCUS and SKIP are patterns of specs' names, PROCS how many run at once.
SPECS = $(if $(FOCUS),--focus '$(FOCUS)') $(if $(SKIP),--skip '$(SKIP)') --procs $(or $(PROCS),4)
REPORTS = $(or $(CARGO_TARGET_DIR),target)/e2e

.PHONY: e2e
e2e: ## specs of the Kubernetes end-to-end suite on that cluster; FOCUS='DNS.*Conformance' SKIP=Slow
	@$(KUBELAB) e2e $(SPECS) --out $(REPORTS)

.PHONY: conformance
conformance: kubelab ## all network conformance specs, IPv4 and dual stack, Services, and policies, against recorded baselines
	$(KUBELAB) conformance $(CLUSTER) $(SPECS) \
		--out $(REPORTS)/ipv4 --baseline crates/kubelab/baseline-ipv4.tsv
	$(KUBELAB) conformance --nodes $(or $(NODES),2) --proxy osier --dual $(SPECS) \
		--out $(REPORTS)/dual --baseline crates/kubelab/baseline-dual.tsv
	$(KUBELAB) conformance --nodes 3 --proxy osier --dual --procs $(or $(PROCS),4) --beyond \
		--out $(REPORTS)/services --baseline crates/kubelab/baseline-services.tsv
	$(KUBELAB) conformance --nodes 2 --proxy osier --procs $(or $(PROCS),4) --focus NetworkPolicy --skip SCTP \
		--out $(REPORTS)/policies

.PHONY: rows
rows: ## generate the OVSDB row types from the schemas
	$(CARGO) xtask rows

.PHONY: docs
docs: ## write docs/pipeline.md from the pipeline's declaration
	$(CARGO) xtask docs

.PHONY: cni
cni: ## build the CNI plugin, static and small: target/plugin/osier-cni
	@ls -l $$($(CARGO) xtask cni)

.PHONY: image
image: packages ## write the container image without a builder: target/osier-image.tar; IMAGE=name:tag
	$(CARGO) xtask image $(if $(IMAGE),--name $(IMAGE))

.PHONY: deploy
deploy: ## write deploy/osier.yaml and what else is made from the chart
	$(CARGO) xtask deploy

.PHONY: chart
chart: ## compare what the chart gives with what the real Helm makes of it
	$(CARGO) test --locked -p xtask --test helm -- --ignored

.PHONY: man
man: ## write the manual's pages; MANDIR=folder (default target/man)
	$(CARGO) run --quiet --locked -p osier -- man $(or $(MANDIR),$(or $(CARGO_TARGET_DIR),target)/man)

.PHONY: packages
packages: ## install the Debian packages that tests need, starting no service
	@scripts/install-packages

.PHONY: tools
tools: ## build the foreign tools that tests need and Debian does not have
	@scripts/install-tools >/dev/null

.PHONY: clean
clean: ## remove what was built
	$(CARGO) clean
