# Sourced by the scripts beside this folder: how they speak. Colours only on a terminal.

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
else
    bold='' green='' red='' plain=''
fi

say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }
good() { printf '%s%s%s\n' "$green" "$*" "$plain"; }
bad() { printf '%s%s%s\n' "$red" "$*" "$plain" >&2; }

die() {
    bad "$*"
    exit 1
}
