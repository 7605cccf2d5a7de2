# Sourced after say.sh: a Debian 12 that systemd has booted in a container, and checks of it.

machine="" init="" checks=0

# boot BASE FOLDER - boots a machine whose files are those of BASE, which debootstrap makes if it is missing. What the machine
# writes is in memory. It sees FOLDER as /packages.
boot() {
    local base=$1 folder=$2 log=$2/boot.log
    if ! [[ -e $base/usr/bin/redis-server ]]; then
        say "== a Debian for $base"
        rm -rf "$base"
        debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,man-db,redis-server bookworm "$base.part" \
            >"$folder/debootstrap.log" 2>&1 || { tail "$folder/debootstrap.log" >&2 && die "debootstrap failed"; }
        : >"$base.part/etc/machine-id"
        # dpkg installs manuals, too.
        rm -f "$base.part"/etc/dpkg/dpkg.cfg.d/*doc*
        mv "$base.part" "$base"
    fi
    systemd-nspawn --quiet --directory "$base" --volatile=overlay --boot --register=no --keep-unit --private-network \
        --link-journal=no --console=pipe --bind-ro="$folder:/packages" </dev/null >"$log" 2>&1 &
    machine=$!
    eventually 30 find_init || { cat "$log" >&2 && die "the machine does not boot"; }
    eventually 60 is_up || die "the machine is $(inside systemctl is-system-running): $(inside systemctl --failed --no-pager)"
}

# PID 1 of the machine: the child of systemd-nspawn.
find_init() {
    init=$(cat "/proc/$machine/task/$machine/children" 2>/dev/null)
    init=${init// /}
    [[ -n $init ]] && inside true
}

is_up() { [[ $(inside systemctl is-system-running) == running ]]; }

# inside COMMAND... - runs it in the machine.
inside() { nsenter --target "$init" --all -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }

# halt - ends the machine, if it runs.
halt() {
    [[ -n $machine ]] || return 0
    kill -RTMIN+4 "$init" 2>/dev/null || true
    eventually 10 ended || kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    machine=''
}

ended() { ! kill -0 "$machine" 2>/dev/null; }

# eventually SECONDS COMMAND... - until the command succeeds.
eventually() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" 2>/dev/null; do
        ((SECONDS < deadline)) || return
        sleep 0.1
    done
}

# check WHAT COMMAND... - ends the script if the command fails, with what the service says.
check() {
    local what=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        bad "failed: $what: $*"
        inside systemctl status topupd --no-pager --full >&2 || true
        inside journalctl -u topupd -o cat --no-pager -n 20 >&2 || true
        exit 1
    fi
    checks=$((checks + 1))
    say "   ok: $what"
}
