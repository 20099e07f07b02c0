# The project's commands; `make help` lists them.
# ARGS goes to the program: make run ARGS="--seconds 20 --offset -3s"

CARGO ?= cargo
ARGS ?=
SECONDS_LONG ?= 3600
PREFIX ?= /usr/local
DESTDIR ?=
sysconfdir ?= /etc

# Where scripts/install finds what was built, and puts it.
PLACES = PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" sysconfdir="$(sysconfdir)"
BUILT = "$${CARGO_TARGET_DIR:-target}/release"
JAVA = "$${CARGO_TARGET_DIR:-target}/java"

# What else programs need: the library that 'truechimer group exec' preloads, and the one for C, which packages have.
SHIPPED = -p truechimer-cli -p truechimer-group-preload -p truechimer-c

.PHONY: help run build install uninstall package static java python lab check test accuracy drawn attacks compare bench figures fuzz soak lint clean have-cargo
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: have-cargo ## watch a clock synchronise to an NTP server of our own, for a minute
	@$(CARGO) run --profile demo -p truechimer-cli --no-default-features -- demo $(ARGS)

build: have-cargo ## the command truechimer, the library that 'group exec' preloads and the one for C, in target/release
	@$(CARGO) build --release $(SHIPPED)

install: ## what 'make build' built, with manual pages, completions, units and configuration (PREFIX, DESTDIR, sysconfdir); what 'make java' built
	@$(PLACES) scripts/install $(BUILT)
	@$(PLACES) scripts/install $(BUILT) c
	@[ ! -f $(JAVA)/truechimer.jar ] || $(PLACES) scripts/install $(JAVA) java

uninstall: ## remove what 'make install' installed; a configuration that was changed stays
	@$(PLACES) scripts/install --remove

package: have-cargo ## a .deb and an .rpm, in target/package (MAINTAINER: 'Name <address>'), with the library for C and what 'make java' built
	@scripts/package $(ARGS)

static: have-cargo ## the command alone, for any Linux of this processor: it needs no library (no groups on Corosync, no 'group exec')
	@env "CC_$$(uname -m)_unknown_linux_musl=$${CC:-cc}" $(CARGO) build --release -p truechimer-cli --target "$$(uname -m)-unknown-linux-musl"

java: have-cargo ## the library for Java, truechimer.jar and libtruechimer_java.so, in target/java
	@CARGO="$(CARGO)" scripts/java $(JAVA) --release >/dev/null

python: have-cargo ## the wheel of the module for Python, in target/python/wheels
	@CARGO="$(CARGO)" scripts/python "$${CARGO_TARGET_DIR:-target}/python" --release >/dev/null

lab: have-cargo ## the laboratory, truechimer-lab, in target/release: simulations, replays, benchmarks
	@$(CARGO) build --release -p truechimer-cli -p truechimer-lab

check: have-cargo ## the inner loop: formatting, clippy and unit tests of what changed (ARGS: a commit, to say since when)
	@CARGO="$(CARGO)" scripts/check $(ARGS)

test: have-cargo ## everything that CI checks; installs or unpacks what that takes
	@CARGO="$(CARGO)" scripts/test

accuracy: have-cargo ## docs/results/accuracy.md anew: every scenario, every estimator, several seeds
	@$(CARGO) run --release --bin truechimer-lab -- simulate accuracy --seeds 5 $(ARGS) > $@.md.new
	@mv $@.md.new docs/results/$@.md

drawn: have-cargo ## docs/results/drawn.md anew: path-days drawn from ranges, every estimator
	@$(CARGO) run --release --bin truechimer-lab -- simulate drawn --days 2040 --markdown $(ARGS) > $@.md.new \
		|| [ $$? -eq 1 ]
	@mv $@.md.new docs/results/$@.md

attacks: have-cargo ## docs/results/attacks.md anew: attacks drawn from ranges, half an hour of a processor
	@mkdir -p target/attacks
	@lab="$(CARGO) run --release --bin truechimer-lab -- simulate attacks"; set -e; \
	$$lab --attacks 12155 --json $(ARGS) > target/attacks/rows.jsonl || [ $$? -eq 1 ]; rows=target/attacks/rows.jsonl; \
	for kind in redirect pool-minority pool-half; do \
		$$lab --kind $$kind --attacks 300 --json $(ARGS) > target/attacks/$$kind.jsonl || [ $$? -eq 1 ]; \
		rows=$$rows,target/attacks/$$kind.jsonl; \
	done; \
	$$lab --rows $$rows --markdown > $@.md.new || [ $$? -eq 1 ]
	@mv $@.md.new docs/results/$@.md

compare: have-cargo ## chronyd, ClockBound and Truechimer behind the same path, six rounds of three minutes (ARGS: --rounds, --minutes, --scenario ...)
	@CARGO="$(CARGO)" scripts/compare $(ARGS) || [ $$? = 1 ]

bench: have-cargo ## what the clock, the daemon, captures and groups cost; installs what that takes (ARGS: --quick, parts: read daemon group ...)
	@CARGO="$(CARGO)" scripts/bench $(ARGS) || [ $$? = 1 ]

figures: have-cargo ## docs/results/capture/ and docs/results/group/ anew (as root; hours, with ARGS=--quick some minutes)
	@CARGO="$(CARGO)" scripts/bench figures $(ARGS) || [ $$? = 1 ]

fuzz: have-cargo ## a minute of random packets for each parser (ARGS: options of libFuzzer, or --hour)
	@CARGO="$(CARGO)" scripts/fuzz $(ARGS)

soak: have-cargo ## property tests with other cases, tests against real servers and in virtual machines, and all under random faults, for an hour each (SECONDS_LONG=n for another time; ARGS="--minutes 60 --seed 1": under faults alone)
	@[ -n "$(ARGS)" ] || TRUECHIMER_SOAK=$(SECONDS_LONG) CARGO="$(CARGO)" scripts/test random stack vm
	@[ -n "$(ARGS)" ] || CARGO="$(CARGO)" scripts/bench soak -- --seconds $(SECONDS_LONG)
	@CARGO="$(CARGO)" scripts/bench faults -- $(or $(ARGS),--minutes $$(($(SECONDS_LONG) / 60)))

lint: have-cargo ## formatting, clippy and the documentation, all warnings being errors
	@CARGO="$(CARGO)" scripts/test lint

clean: ## remove all that was built
	rm -rf target fuzz/target bench/target examples/bare/target examples/follow/target clock/python/target

have-cargo:
	@command -v $(CARGO) >/dev/null || { \
	    echo "Rust's cargo is missing. Get it from https://rustup.rs:"; \
	    echo "    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
	    exit 1; } >&2
