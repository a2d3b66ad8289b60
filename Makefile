# Two commands for everybody: `make demo` and `make test`. The rest is for contributors.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: differential differential-security demo test check docs reference picture package coverage interop interop-versions spark-clusters sim campaign chaos chaos-mixed bench-smoke bench-unavailability bench-controller bench-work-costs bench-scale bench-log bench-soak bench-clients bench-security bench-mixed attack fuzz bench-spark bench-ingest-kills bench-spark-connector clean help

help:
	@echo "make demo         the main job: replicate real records, kill a leader, prove nothing was lost"
	@echo "make test         all tests"
	@echo "make check        format, lint, types, layers, tidy, documentation"
	@echo "make docs         the documentation site, strictly, in build/site"
	@echo "make reference    write the reference pages that are made from the code"
	@echo "make picture      run the demo and draw its screen for the README"
	@echo "make package      build wheel and sdist, and try the wheel in a bare environment"
	@echo "make coverage     lines of the core that its unit tests reach"
	@echo "make interop      foreign clients: Spark's Kafka connector, Apache Kafka's tools, kcat; needs Maven"
	@echo "make interop-versions  Apache Kafka 3.9 to 4.3 as partners in a cluster; needs Maven"
	@echo "make differential the same requests to Apache Kafka 4.3.1 and to Tidelog; needs Maven (DIFFERENTIAL_ARGS)"
	@echo "make differential-security  the same requests of users with and without rights, 3 minutes; needs Maven (DIFFERENTIAL_SECURITY_ARGS)"
	@echo "make spark-clusters  Spark jobs where executors are other processes, some minutes"
	@echo "make chaos        faults on real nodes under checked clients, 15 minutes (CHAOS_MINUTES)"
	@echo "                  on protected clusters: CHAOS_ARGS=--secure"
	@echo "make chaos-mixed  the same with nodes of Apache Kafka that change places with ours; needs Maven"
	@echo "                  300 faults: CHAOS_MINUTES=30 CHAOS_ARGS='--steps 44 --speed 0.5'"
	@echo "make sim          150 simulated clusters and 1000 quorums, seeds of this commit (SIM_FIRST, SIM_JOBS)"
	@echo "make campaign     simulated clusters without end, added up in build/campaign.json"
	@echo "make bench-smoke  start, memory, throughput, failover, measured on this machine"
	@echo "make bench-unavailability  time without acks after kills, pauses and cuts of leaders"
	@echo "make bench-spark  the figures of the Spark pipeline: sessions, sources, audit, campaigns"
	@echo "make bench-spark-connector  our topic source beside Spark's official connector"
	@echo "make bench-ingest-kills  exactly once, tried: kills of everything under a running ingest"
	@echo "make bench-scale  thousands of partitions: creation, kill, restart, election, deletion"
	@echo "make bench-log    compaction, retention, moves, sizes, catch-up; Apache Kafka beside; needs Maven"
	@echo "make bench-soak   one hour at 20 MB/s with retention: memory, descriptors, latency (BENCH_ARGS)"
	@echo "make bench-clients  groups and transactions beside Apache Kafka 4.3.1; needs Maven"
	@echo "make bench-security  TLS, logins, rights and quotas beside Apache Kafka 4.3.1; needs Maven"
	@echo "make bench-mixed  rolling exchanges of Apache Kafka and Tidelog, throughput of mixtures; needs Maven"
	@echo "make attack       what other clients notice while a node is attacked (BENCH_ARGS)"
	@echo "make fuzz         damaged frames by the million, before and behind a login (FUZZ_ARGS)"
	@echo "make bench-work-costs  what operations of the disk and work of the node cost, for the simulator"
	@echo "make bench-controller  virtual time until the partitions of a dead broker have leaders"

$(VENV)/.demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $(VENV)/.demo $@

$(VENV)/.dev: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(VENV)/.demo $(VENV)/.test $@

demo: $(VENV)/.demo
	$(BIN)/tidelog demo $(DEMO_ARGS)

# What starts no nodes and no Spark runs in several processes.
PURE := tests/unit tests/scripts tests/history tests/differential tests/tidy tests/sim tests/fuzz
# What starts nodes mostly waits for them, so it runs beside Spark, which computes. The examples make
# both take as long.
NODES := tests/process tests/chaos tests/examples
TEST_JOBS ?= 2
test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(PURE) $(PYTEST_ARGS)
	@mkdir -p build
	@$(BIN)/python -m pytest $(NODES) $(PYTEST_ARGS) > build/nodes.log 2>&1 & nodes=$$!; \
	    $(BIN)/python -m pytest $(PURE:%=--ignore=%) $(NODES:%=--ignore=%) $(PYTEST_ARGS); spark=$$?; \
	    wait $$nodes; nodes=$$?; cat build/nodes.log; exit $$((spark | nodes))

CODE := src tests bench tools examples
check: $(VENV)/.dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/wrong_declarations.py
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/tidy
	$(BIN)/zensical build --strict --clean

docs: $(VENV)/.dev
	$(BIN)/zensical build --strict --clean

reference: $(VENV)/.demo
	$(BIN)/python -m tools.reference

picture: $(VENV)/.demo
	$(BIN)/python -m tools.picture

package: $(VENV)/.dev
	$(BIN)/python -m tools.package

# Tracing costs as much as the tests themselves, so only the core, whose tests take a minute.
COVERED := log replication kraft controller metadata rsm records wire config env
coverage: $(VENV)/.dev
	@mkdir -p build
	$(BIN)/python -m pytest -n $(TEST_JOBS) $(COVERED:%=tests/unit/%) \
	    $(COVERED:%=--cov=tidelog.%) --cov-report=term:skip-covered

INTEROP_ARGS ?=
interop: $(VENV)/.test
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m pytest tests/interop $(INTEROP_ARGS)

interop-versions: $(VENV)/.test
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m tests.interop.versions
	$(BIN)/python -m tools.reference

DIFFERENTIAL_ARGS ?=
differential: $(VENV)/.test
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m tests.differential --json build/differential.json $(DIFFERENTIAL_ARGS)

differential-security: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m tests.differential.rights --json build/differential-security.json $(DIFFERENTIAL_SECURITY_ARGS)

CHAOS_MINUTES ?= 15
chaos: $(VENV)/.test
	$(BIN)/python -m tests.chaos --minutes $(CHAOS_MINUTES) --json build/chaos/result.json $(CHAOS_ARGS)

chaos-mixed: $(VENV)/.test
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m tests.chaos --kinds mixed --steps 20 --minutes $(CHAOS_MINUTES) \
	    --json build/chaos/mixed.json $(CHAOS_ARGS)

bench-unavailability: $(VENV)/.test
	$(BIN)/python -m bench.unavailability $(BENCH_ARGS)

bench-spark: $(VENV)/.test
	$(BIN)/python -m bench.spark $(BENCH_ARGS)

bench-spark-connector: $(VENV)/.test
	$(BIN)/python -m bench.spark_connector $(BENCH_ARGS)

bench-ingest-kills: $(VENV)/.test
	$(BIN)/python -m bench.ingest_kills $(BENCH_ARGS)

bench-work-costs: $(VENV)/.test
	$(BIN)/python -m bench.work_costs $(BENCH_ARGS)

bench-controller: $(VENV)/.test
	$(BIN)/python -m bench.controller $(BENCH_ARGS)

bench-scale: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m bench.scale --json build/scale.json $(BENCH_ARGS)

bench-soak: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m bench.soak --json build/soak.json --svg build/soak.svg $(BENCH_ARGS)

bench-log: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m bench.log --kafka --json build/log.json $(BENCH_ARGS)

bench-clients: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m bench.clients --json build/clients.json $(BENCH_ARGS)

bench-security: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m bench.security --json build/security.json $(BENCH_ARGS)

bench-mixed: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.interop.prepare
	$(BIN)/python -m bench.mixed --json build/bench-mixed.json $(BENCH_ARGS)

attack: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m bench.attack --json build/attack.json $(BENCH_ARGS)

fuzz: $(VENV)/.test
	@mkdir -p build
	$(BIN)/python -m tests.fuzz --json build/fuzz.json $(FUZZ_ARGS)

spark-clusters: $(VENV)/.test
	$(BIN)/python -m pytest tests/clusters $(PYTEST_ARGS)

SIM_JOBS ?= 2
# Seeds of this commit: another commit runs others, and the same commit the same again. Sources
# without a commit begin at a random seed.
COMMIT := git -c safe.directory='*' rev-parse --verify --quiet HEAD
SIM_FIRST ?= $(shell printf %d 0x$$({ $(COMMIT) || od -An -N4 -tx1 /dev/urandom; } 2>/dev/null | tr -d ' ' | cut -c1-7))

sim: $(VENV)/.test
	@first=$(SIM_FIRST); echo "simulated quorums and clusters, from seed $$first"; \
	    $(BIN)/tidelog sim run --seeds $$first:$$((first + 1000)) --tier quorum --jobs $(SIM_JOBS); quorums=$$?; \
	    $(BIN)/tidelog sim run --seeds $$first:$$((first + 150)) --jobs $(SIM_JOBS); exit $$((quorums | $$?))

campaign: $(VENV)/.test
	$(BIN)/tidelog sim campaign --jobs $(SIM_JOBS) $(CAMPAIGN_ARGS)

bench-smoke: $(VENV)/.demo
	$(BIN)/python bench/smoke.py $(BENCH_ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
