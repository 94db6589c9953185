# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The Device Relay project authors
#
# Functions that the scripts share. A script sources this file in the project's root: `. scripts/common.sh`.

step() { printf '\n== %s\n' "$*"; }
fail() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }

# As root: installs the Debian package $1. Its services do not start, now or at the next boot (invoke-rc.d(8), policy-rc.d): tests start the
# programs themselves, and some services, such as fail2ban, change the firewall.
install_quietly='
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap "rm -f $policy" EXIT
        printf "#!/bin/sh\nexit 101\n" >"$policy"
        chmod 755 "$policy"
    fi
    find /var/lib/apt/lists/partial -maxdepth 0 -mmin -60 2>/dev/null | grep -q . || apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$1" >/dev/null
    ! command -v systemctl >/dev/null || for unit in $(dpkg -L "$1" | sed -n "s|^.*/lib/systemd/system/\([^/]*\.service\)$|\1|p"); do
        systemctl --quiet disable "$unit" 2>/dev/null || true
    done'

# Installs a Debian package if its command is missing.
need() {
    local command=$1 package=$2
    command -v "$command" >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 || fail "$package is missing; install it and run this again"
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || fail "$package is missing; run: sudo apt-get install $package"
        sudo=(sudo -n)
    fi
    step "installing $package"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive sh -euc "$install_quietly" sh "$package"
}

# Installs a Debian package that only some tests need, if that needs no question: in CI, and for root. Elsewhere these tests are skipped.
wish() {
    local command=$1 package=$2
    command -v "$command" >/dev/null 2>&1 && return
    if [ "${CI:-}" = true ] || { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; }; then
        need "$command" "$package"
    else
        step "tests that use $package are skipped, because it is not installed"
    fi
}

# Installs the tools that every build needs.
need_tools() {
    command -v swift >/dev/null 2>&1 || fail "Swift 6.3 or later is missing; see https://www.swift.org/install"
    need git git
    # The SQLite library that GRDB links.
    [ -f /usr/include/sqlite3.h ] || [ "$(uname)" = Darwin ] || need no-such-command libsqlite3-dev
    # PostgreSQL's client library.
    [ -f /usr/include/postgresql/libpq-fe.h ] || [ "$(uname)" = Darwin ] || need no-such-command libpq-dev
}

# The debug build, which demo and tests share. Other flags would cause a complete rebuild.
build=(swift build --explicit-target-dependency-import-check error)

# The release build for installation. It links Swift's libraries statically, except on macOS, where they belong to the system. Its folder is
# its own, because SwiftPM lets one build or test at a time use a folder.
release_build=(swift build -c release --scratch-path .build/release-build)
# The linker would keep the names of all functions in the programs, for libraries that look them up; there are none.
[ "$(uname)" = Darwin ] || release_build+=(--static-swift-stdlib -Xlinker --no-export-dynamic)

# What the release build on Linux needs to link SQLite and zlib statically: the first file of these that is missing. Debian has all of them.
missing_library() {
    local name
    [ "$(uname)" = Linux ] || return 0
    for name in libsqlite3.a libz.a pkgconfig/libpq.pc; do
        [ -f "/usr/lib/$(uname -m)-linux-gnu/$name" ] || { echo "/usr/lib/$(uname -m)-linux-gnu/$name"; return; }
    done
}

# Makes the release build on Linux link SQLite and zlib statically, if nothing is missing. So the programs run on more systems, and with the
# version of SQLite that was tested: with that of Ubuntu 22.04, 3.37, GRDB's migrations fail. The linker looks into the folder of the build
# first, unless pkg-config names another for libpq.
link_statically() {
    local folder=.build/release-build libraries missing name
    [ "$(uname)" = Linux ] || return 0
    missing=$(missing_library)
    if [ -n "$missing" ]; then
        step "the programs will need SQLite and zlib of this system, because $missing is missing"
        return
    fi
    libraries=/usr/lib/$(uname -m)-linux-gnu
    mkdir -p "$folder/pkgconfig"
    sed '/^Libs:/s/-L[^ ]*//' "$libraries/pkgconfig/libpq.pc" >"$folder/pkgconfig/libpq.pc"
    export PKG_CONFIG_PATH=$PWD/$folder/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    folder=$("${release_build[@]}" --show-bin-path)
    mkdir -p "$folder"
    for name in libsqlite3.a libz.a; do ln -sf "$libraries/$name" "$folder/$name"; done
}

# Sets the commit for `--version`, with `-modified` if the sources differ from it.
name_commit() {
    local commit
    commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || return 0
    [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || commit+=-modified
    export DEVICE_RELAY_COMMIT=$commit
}

# The version of the sources, such as 0.1.0.
release_version() {
    sed -n 's/.*static let release = "\([0-9.]*\)".*/\1/p' Sources/BuildVersion/BuildVersion.swift
}

# When the sources were committed, in seconds since 1970. What is made of them has this time.
release_time() { echo "${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}"; }

# Writes the manual pages of the programs in folder $1, and the completions, into folder $2, as they are below /usr/share. The version is $3.
write_share() {
    local programs=$1 share=$2 version=$3 date completion name
    date=$(python3 -c 'import datetime, sys; print(datetime.datetime.fromtimestamp(int(sys.argv[1]), datetime.timezone.utc).date())' "$(release_time)")
    for name in relay=1 relayd=8; do
        [ ! -x "$programs/${name%=*}" ] || python3 scripts/manual.py "$programs/${name%=*}" "${name#*=}" "$version" "$date" "$share/man/man${name#*=}"
    done
    for completion in bash=bash-completion/completions/relay zsh=zsh/vendor-completions/_relay fish=fish/vendor_completions.d/relay.fish; do
        [ -x "$programs/relay" ] || break
        mkdir -p "$(dirname "$share/${completion#*=}")"
        # It is no program.
        HOME=$share "$programs/relay" completions "${completion%%=*}" | sed '1{/^#!/d;}' >"$share/${completion#*=}"
    done
    # The desktop's menu opens the console.
    if [ -x "$programs/relay" ]; then
        install -D -m 644 packaging/device-relay.desktop "$share/applications/device-relay.desktop"
        install -D -m 644 Sources/ConsoleFiles/Web/mark.svg "$share/icons/hicolor/scalable/apps/device-relay.svg"
    fi
}

# The libraries that a debug build needs.
swift_libraries() { echo "$(dirname "$(dirname "$(readlink -f "$(command -v swift)")")")/lib/swift/linux"; }

# The libraries that the program $1 loads when it starts.
loaded() { objdump -p "$1" | sed -n 's/^ *NEEDED *//p'; }

# Puts Swift's libraries into the root folder $1, and the further ones, if the program $2 needs them: a debug build does.
put_swift_libraries() {
    local root=$1 program=$2
    shift 2
    loaded "$program" | grep '^libswiftCore' >/dev/null || return 0
    mkdir "$root/opt/swift"
    cp "$(swift_libraries)"/*.so "$@" "$root/opt/swift"
    echo /opt/swift >"$root/etc/ld.so.conf.d/swift.conf"
    chroot "$root" ldconfig
}

# Whether this machine lets root make containers.
contains() { unshare --mount --net --pid --fork true 2>/dev/null; }

# Makes the root folder $2 of the suite $1 of Debian or Ubuntu, with packages $3 (a,b,c), if it is not there. The cache of its apt-get has what the
# project's packages need, so that the runs are the same without the network. debootstrap knows the mirrors. Debian 13 has the keys of Ubuntu,
# Debian 12 has not, and does not know Ubuntu 24.04, which is made as 22.04 is. The log is beside the folder.
make_system() {
    local suite=$1 folder=$2 packages=$3 keys=/usr/share/keyrings/debian-archive-keyring.gpg known=() debian
    [ ! -d "$folder" ] || return 0
    need debootstrap debootstrap
    mkdir -p "$(dirname "$folder")"
    rm -rf "$folder.new"
    case $suite in
        jammy | noble)
            keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
            if [ ! -f "$keys" ]; then
                debian=$(dirname "$folder")/trixie
                make_system trixie "$debian" "$packages" || { cp "$debian.log" "$folder.log"; return 1; }
                keys=$debian$keys
            fi
            known=("" /usr/share/debootstrap/scripts/jammy)
            ;;
        trixie) packages+=,ubuntu-archive-keyring ;;
    esac
    step "$suite, once"
    debootstrap --variant=minbase --force-check-gpg --keyring="$keys" --include="$packages" "$suite" "$folder.new" "${known[@]}" \
        >"$folder.log" 2>&1 || return 1
    rm -f "$folder.new"/etc/apt/apt.conf.d/*clean*
    chroot "$folder.new" apt-get install -y -qq --download-only --no-install-recommends adduser libgcc-s1 libpq5 libsqlite3-0 libstdc++6 zlib1g \
        >"$folder.log" 2>&1 || return 1
    mv "$folder.new" "$folder"
}

# Lets apt-get in the root folder $1 take yes for an answer.
say_yes() {
    printf '%s;\n' 'APT::Get::Assume-Yes "true"' 'APT::Install-Recommends "false"' 'Dpkg::Use-Pty "false"' >"$1/etc/apt/apt.conf.d/yes"
}

# The commands of a block of `page`, docs/install.md: the heading, and the number of the block below it.
block() {
    awk -v heading="$1" -v number="$2" '
        /^##+ / { inside = ($0 ~ "^##+ " heading "$"); next }
        inside && /^```sh$/ { count += 1; shown = (count == number); next }
        /^```$/ { shown = 0 }
        shown { print; found = 1 }
        END { exit !found }' "${page:-docs/install.md}" || fail "${page:-docs/install.md} has no block $2 below $1"
}

# Writes the digests of all files in a folder.
write_digests() { (cd "$1" && LC_ALL=C && sha256sum -- * >.digests && mv .digests SHA256SUMS); }

# What the programs contain of others, by scripts/sbom.py. The sources are those that a build has fetched.
third_party() {
    local sources commit
    commit=$(git rev-parse HEAD 2>/dev/null) || commit=unknown
    for sources in .build/release-build/checkouts .build/checkouts; do [ ! -d "$sources" ] || break; done
    python3 scripts/sbom.py "$@" "$(release_version)" "$commit" "$(release_time)" packaging/packages.lock.json "$sources"
}

# Runs a build step, and prints its duration.
timed() {
    local title=$1 begin=$SECONDS
    shift
    step "$title"
    "$@"
    printf '   took %d min %02d s\n' $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60))
}
