# What one types; the work is in stack/build, cargo and .ci/. `make help` lists it.

# Where the kernel tree is unpacked and images are built; survives `make clean`.
export VINK_CACHE ?= $(HOME)/.cache/vink
# `make stack LINUX=/path/to/tree` builds an image of that tree, `make stack LINUX=6.1` of
# Debian's package of that version, in place of 6.12's.
LINUX ?=
# `make stack PROFILE=kvs` builds one without what that profile leaves out: docs/images.md.
PROFILE ?=
# `make packetdrill SOURCE=/path/to/packetdrill` builds that: a folder, or an archive.
SOURCE ?=
# `make bench ONLY=null_call,boot_ms` runs some.
ONLY ?=
# `make install PREFIX=/usr DESTDIR=/tmp/package`, as packagers do it.
PREFIX ?= /usr/local
DESTDIR ?=
# What is installed.
BUILT ?= target/release
# Where make deb puts the package.
OUT ?= build
# Debian packages: the stack's build, the programs that demo and tests run, and debugging.
export PACKAGES ?= linux-source-6.12 linux-source-6.1 gcc make ccache flex bison bc libelf-dev libssl-dev \
	xz-utils rsync cpio python3 curl wget netcat-openbsd iperf3 iproute2 iputils-ping gdb \
	tcpdump nftables procps passt strace socat traceroute redis-server redis-tools frr dnsmasq-base bind9-dnsutils telnet patch \
	net-tools openssl ethtool dpkg-dev qemu-system-x86 busybox-static python3-venv \
	libmpg123-dev libmp3lame-dev lame mpg123 liblwip-dev clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32 \
	slurmctld slurmd slurm-client munge chromium fonts-dejavu-core openssh-server openssh-client mmdebstrap umoci runc bubblewrap wireshark-common

CARGO ?= cargo
# rustup's, for shells that were not told.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 8

.PHONY: setup
setup: ## install what is missing (apt-get; asks sudo if you are not root)
	@.ci/setup

.PHONY: stack
stack: setup ## build the image: build/libvink-linux-6.12.so [LINUX=tree or 6.1] [PROFILE=kvs]
	@stack/build $(if $(LINUX),--linux $(LINUX)) $(if $(PROFILE),--profile $(PROFILE))

.PHONY: ui
ui: setup ## the page of vink ui: ui/dist, which the next build of vink embeds
	@.ci/node npm run --silent build

.PHONY: build
build: stack ui ## the image, and vink, optimised: target/release
	@$(CARGO) build --release --quiet -p vink -p vink-preload -p vink-quick -p vink-pod

.PHONY: profiles
profiles: build ## the images of all profiles, and how they compare: docs/images.md
	@for profile in router kvs udp; do stack/build --profile $$profile || exit; done
	@target/release/vink image report $(foreach end,.so -router.so -kvs.so -udp.so,build/libvink-linux-6.12$(end))

# What was built before: `make build && sudo make install`, or `make build install PREFIX=$$HOME/.local`.
.PHONY: install
install: ## install what make build has made [PREFIX=/usr/local] [DESTDIR=folder]
	@.ci/install "$(BUILT)" "$(DESTDIR)$(PREFIX)"

.PHONY: uninstall
uninstall: ## remove what make install has installed [PREFIX=/usr/local] [DESTDIR=folder]
	@.ci/install --remove "$(DESTDIR)$(PREFIX)"

.PHONY: deb
deb: ## a Debian package of what make build has made: build/vink_VERSION_ARCH.deb [OUT=folder]
	@PACKAGES="dpkg-dev binutils" .ci/setup
	@.ci/deb "$(BUILT)" "$(OUT)"

.PHONY: container
container: deb ## a container image of that package: build/vink_VERSION_ARCH.oci.tar [OUT=folder]
	@PACKAGES="mmdebstrap" .ci/setup
	@.ci/container "$$(ls -t "$(OUT)"/vink_*.deb | head -n 1)" "$(OUT)"

# `pip install build/wheels/vink-*.whl`, on any Linux whose glibc is not older than the one here.
.PHONY: wheel
wheel: build ## a wheel of the Python package, with vink and its images: build/wheels
	@.ci/wheel "$(BUILT)" build/wheels

.PHONY: site
site: ## the pages of docs/ and the Python reference, to be read in a browser: build/site
	@PACKAGES=python3-venv .ci/setup
	@.ci/python python .ci/site build/site

.PHONY: demo
demo: stack ui ## three machines, two wires, unmodified programs
	@$(CARGO) build --release --quiet -p vink -p vink-preload -p vink-quick -p vink-pod
	@$(CARGO) run --release --quiet -p vink -- demo

.PHONY: test
test: setup ## everything that CI runs
	@.ci/test

.PHONY: packetdrill
packetdrill: setup ## build packetdrill, for vink packetdrill: build/packetdrill SOURCE=folder or archive
	@mkdir -p build
	@.ci/packetdrill "$(SOURCE)" build

.PHONY: mutants
mutants: stack ## all planted bugs: an image of each, which its script and the search tell from the stock one: docs/mutants.md
	@$(CARGO) build --quiet -p vink -p vink-preload -p vink-quick
	@VINK_MUTANTS=all $(CARGO) test --quiet -p vink --test mutants -- --nocapture

.PHONY: coverage
coverage: stack ## which lines of TCP vink explore reaches in the labs of tests/coverage and tests/mutants: docs/explore.md
	@stack/build --profile coverage
	@$(CARGO) build --quiet -p vink -p vink-preload -p vink-quick
	@VINK_COVERAGE=all $(CARGO) test --quiet -p vink --test coverage -- --nocapture labs_reach

.PHONY: explore
explore: stack ## Linux 6.12 and 6.1 as they are, for hours: every order of events in all labs; goes on where the last one ended [HOURS=8, PART=1/4]
	@stack/build --linux 6.1
	@$(CARGO) build --release --quiet -p vink
	@VINK_EXPLORE_HOURS=$(or $(HOURS),8) $(if $(PART),VINK_EXPLORE_PART=$(PART)) $(CARGO) test --release --quiet -p vink --test stock -- --nocapture stock_images

.PHONY: bench
bench: stack ## Vink beside the host kernel [ONLY=name,...]
	@PACKAGES="nginx-light libnginx-mod-stream haproxy socat redis-server redis-tools wrk iperf3 iproute2 \
		$$(cd tests/compat/programs && sed -n 's/^# packages: //p' go-grpc.sh unbound.sh mosquitto.sh aioquic.sh | tr '\n' ' ')" .ci/setup
	@.ci/guest
	@$(CARGO) build --release --quiet -p vink -p vink-preload -p vink-quick -p vink-pod -p vink-compat
	@$(CARGO) run --release --quiet -p vink-bench -- $(if $(ONLY),--only $(ONLY))

# The programs' own packages come on top.
.PHONY: compat
compat: stack ## well-known programs on the host and on Vink: docs/compatibility.md [ONLY=name,...]
	@PACKAGES="$$(sed -n 's/^# packages: //p' tests/compat/programs/*.sh | tr '\n' ' ')" .ci/setup
	@$(CARGO) build --release --quiet -p vink-preload -p vink-quick
	@$(CARGO) run --release --quiet -p vink-compat -- $(if $(ONLY),--only $(ONLY),--json bench/compat.json \
		--page docs/compatibility.md)

.PHONY: determinism
determinism: stack ## the same and the ready labs, twice in virtual time, on a busy machine: docs/determinism.md [ONLY=name,...]
	@PACKAGES="$$(sed -n 's/^# packages: //p' tests/compat/programs/*.sh | tr '\n' ' ') $(PACKAGES)" .ci/setup
	@$(CARGO) build --release --quiet -p vink -p vink-preload -p vink-quick -p vink-pod
	@$(CARGO) run --release --quiet -p vink-compat -- --repeat $(if $(ONLY),--only $(ONLY),--json bench/determinism.json \
		--page docs/determinism.md)

.PHONY: loss
loss: stack ## iperf3 with CUBIC and random loss, in virtual time, by the host's clock and by the model: docs/loss.md
	@PACKAGES="iperf3 iproute2" .ci/setup
	@$(CARGO) run --release --quiet -p vink-bench -- loss

.PHONY: fidelity
fidelity: stack ## the ready labs' transfers in virtual time and by the host's clock: docs/fidelity.md
	@PACKAGES="iperf3 iproute2" .ci/setup
	@VINK_FIDELITY_PAGE=docs/fidelity.md $(CARGO) test --release --quiet -p vink --test fidelity -- --nocapture virtual

.PHONY: fuzz
fuzz: setup ## random system calls against a worker [SECONDS=600] [SEED=1]
	@$(CARGO) run --quiet -p vink-stress -- fuzz --seconds $(or $(SECONDS),600) --seed $(or $(SEED),1)

.PHONY: soak
soak: setup ## a mixed load under signals and kills [MINUTES=10] [SEED=1]
	@$(CARGO) run --quiet -p vink-stress -- soak --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)

.PHONY: lint
lint: ## formatting, clippy, licences, ruff, mypy, checkpatch
	@.ci/lint

.PHONY: fmt
fmt: ## format the Rust code
	@$(CARGO) fmt --all

.PHONY: clean
clean: ## remove target/ and build/ (not $VINK_CACHE)
	@$(CARGO) clean
	@rm -rf build
