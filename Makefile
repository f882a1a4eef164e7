# SPDX-License-Identifier: Apache-2.0
# Thin over Meson: `make help` lists what there is. Each configuration has a build folder of its own.

BUILD    ?= build
PREFIX   ?=
DESTDIR  ?=

.DEFAULT_GOAL := all

# Everything by default: Meson knows what changed. A failed set-up says which packages are missing.
.PHONY: all
all: $(BUILD)/build.ninja
	ninja -C $(BUILD)
	@tools/stage $(BUILD)
	@tools/give-back

$(BUILD)/build.ninja:
	meson setup $(BUILD) $(if $(PREFIX),--prefix $(PREFIX)) || { tools/bootstrap --check build; exit 1; }

.PHONY: help
help:
	@echo 'make                  build ./perf-agent and ./libperfagent.so'
	@echo 'sudo make demo        install what is missing, build, profile a bundled program for 5 s'
	@echo 'sudo make check       install what is missing, run every test (sanitizers, an installation, Linux 5.10)'
	@echo 'make check-vm         tests under 5.10, 6.1, 6.12, the newest kernel and arm64, in virtual machines (KERNELS=6.1: only that)'
	@echo 'make check-totals     totals of redis, nginx, postgres and others against the scheduler, in every mode (some 5 minutes)'
	@echo 'make check-viewers    our files in speedscope, flamegraph.pl, inferno and others, fetched or built first (some minutes)'
	@echo 'make check-abi        compare the ABI of the library with the last tag (SKIP without one)'
	@echo 'make install          DESTDIR= and PREFIX= as usual (default prefix /usr/local)'
	@echo 'make lint | format    check style and spelling | reformat the sources'
	@echo 'make asan | tsan      tests under sanitizers'
	@echo 'make fuzz             FUZZ_SECONDS=60 of new input for each fuzz target'
	@echo 'make oracle           unwind rows and steps of all programs and libraries below /usr against libdw (ORACLE=DIR)'
	@echo 'make cov              line coverage, by module'
	@echo 'make bench            benchmarks, one JSON line each'
	@echo 'make clean            remove what was built'

.PHONY: bootstrap-build bootstrap-test bootstrap-vm bootstrap-vm-arm64
bootstrap-build bootstrap-test bootstrap-vm bootstrap-vm-arm64: bootstrap-%:
	@tools/bootstrap $*

.PHONY: demo
demo: bootstrap-build
	@$(MAKE) --no-print-directory all
	@tools/demo; status=$$?; tools/give-back; exit $$status

# The tests first build what they need themselves.
.PHONY: check asan tsan fuzz lint
check: bootstrap-test
	@tools/check

asan: bootstrap-test
	@tools/check path asan

tsan: bootstrap-test
	@tools/check tsan

lint: bootstrap-test
	@tools/check lint tidy

fuzz: bootstrap-test
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} tools/check fuzz

# Kernels are fetched once, into build-vm.
.PHONY: check-vm
check-vm: bootstrap-vm bootstrap-vm-arm64
	@$(MAKE) --no-print-directory all
	@tests/vm/run-vm $(BUILD) $(KERNELS); status=$$?; tools/give-back; exit $$status

# Alone on the machine: what else runs takes CPU time from both sides of each comparison.
.PHONY: check-totals
check-totals: bootstrap-test
	@$(MAKE) --no-print-directory all
	@TOTALS=full /usr/bin/python3 tests/live/test-live-totals.py ./perf-agent $(BUILD)/tests/workloads/udp; status=$$?; tools/give-back; exit $$status

# With the viewers that cargo and go build once, into build-readers.
.PHONY: check-viewers
check-viewers: bootstrap-test
	@$(MAKE) --no-print-directory all
	@tools/fetch-readers debian speedscope flamegraph inferno pyroscope || :
	@/usr/bin/python3 tests/live/test-live-viewers.py ./perf-agent $(BUILD)/tests/workloads/demo; status=$$?; tools/give-back; exit $$status

# 77: nothing to compare, and it said why.
.PHONY: check-abi
check-abi: all
	@status=0; tools/check-abi $(BUILD) || status=$$?; tools/give-back; [ $$status -eq 77 ] || exit $$status

.PHONY: format
format:
	find src include tests bench examples \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) -exec clang-format-14 -i {} +

.PHONY: cov
cov: bootstrap-test
	@tools/coverage; status=$$?; tools/give-back; exit $$status

ORACLE ?= /usr
.PHONY: oracle
oracle: bootstrap-build $(BUILD)/build.ninja
	ninja -C $(BUILD) tests/oracle/cfi-oracle
	$(BUILD)/tests/oracle/cfi-oracle $(ORACLE); status=$$?; tools/give-back; exit $$status

.PHONY: bench
bench: all
	ninja -C $(BUILD) $(addprefix bench/bench-,session baseline inherit walk tables startup sched programs lines symbolize libdw flame perf-data)
	@bench/run $(BUILD); status=$$?; tools/give-back; exit $$status

.PHONY: install
install: $(BUILD)/build.ninja
	$(if $(PREFIX),meson configure $(BUILD) -Dprefix=$(PREFIX))
	ninja -C $(BUILD)
	meson install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))
	$(if $(DESTDIR),,[ "$$(id -u)" -ne 0 ] || ldconfig)
	@tools/give-back

.PHONY: clean
clean:
	rm -rf build build-asan build-tsan build-clang build-fuzz build-cov build-check build-dest build-vm build-go
	rm -f perf-agent libperfagent.so* demo.pb.gz
