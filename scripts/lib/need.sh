# Sourced after say.sh. Installs a program that is missing, where apt-get can.

# need PROGRAM PACKAGE - returns at once when PROGRAM is on the PATH (or where a PATH without sbin hides it).
need() {
    local program=$1 package=$2
    [[ -n $(PATH=$PATH:/usr/sbin:/sbin type -P "$program") ]] && return
    command -v apt-get >/dev/null || die "$program is missing and there is no apt-get: please install it yourself."
    local root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || die "$program is missing: as root, run 'apt-get install $package'."
        root=(sudo)
    fi
    say "$program is missing: installing the package $package with ${root[*]:+sudo }apt-get"
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive sh -eu -s "$package" <<'ROOT'
# Debian starts a service when it installs one; policy-rc.d is how it is told not to.
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt-get -qq update </dev/null
apt-get -qq install --no-install-recommends "$1" </dev/null
ROOT
}

need_cargo() {
    command -v cargo >/dev/null || die "cargo is missing: see https://rustup.rs"
}

need_redis() { need redis-server redis-server; }

# need_space GIGABYTES FOLDER - warns where less than that is free for FOLDER: a linker without room dies of a bus error.
need_space() {
    local wanted=$1 folder=$2 free
    until [[ -d $folder ]]; do folder=$(dirname "$folder"); done
    free=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 1024 / 1024) }')
    ((free >= wanted)) || bad "$folder has $free GB free; building everything anew needs about $wanted GB there."
}
