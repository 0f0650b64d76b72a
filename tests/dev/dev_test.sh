#!/usr/bin/env bash
# Goal: ./dev says what it can do, and its setup installs what is missing, that and nothing else, or says why not.
# Method: the real script with stand-ins for apt-get, dpkg-query, id and node first in PATH; nothing is installed.
# shellcheck disable=SC2016  # What stands in single quotes is expanded by the stand-ins.
set -euo pipefail

root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset DEV_SETUP

stubs=$scratch/stubs
mkdir -p "$stubs"
stub() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$stubs/$1"
  chmod +x "$stubs/$1"
}
# $MISSING lists what this made-up machine lacks; $APT is what its apt-get says and does.
fresh_machine() {
  export MISSING="" APT=":" CALLS=$scratch/calls
  : >"$CALLS"
  stub dpkg-query 'shift 3; for p; do [[ " $MISSING " == *" $p "* ]] || echo "installed $p"; done; [[ -z $MISSING ]]'
  stub apt-get 'echo "$*" >>"$CALLS"; eval "$APT"'
  stub id 'echo 0'
  stub node 'echo v20.1.0'
  stub npm ':'
}

failures=0
# check NAME CODE PATTERN COMMAND…: its exit code, and a pattern in all that it prints (empty: it prints nothing).
check() {
  local name=$1 want=$2 pattern=$3 code=0 output
  shift 3
  output=$(PATH=$stubs:$PATH "$@" 2>&1 </dev/null) || code=$?
  if [[ $code != "$want" ]] || { [[ -z $pattern ]] && [[ -n $output ]]; } || ! grep -qE -- "$pattern" <<<"$output"; then
    printf 'FAILED: %s: exit code %s, wanted %s and /%s/\n%s\n' "$name" "$code" "$want" "$pattern" "$output"
    failures=$((failures + 1))
  fi
}
expect() {
  local name=$1
  shift
  if ! "$@"; then
    printf 'FAILED: %s\n' "$name"
    cat "$CALLS"
    failures=$((failures + 1))
  fi
}
# shellcheck disable=SC2329
install_line_is() { [[ $(grep ' install ' "$CALLS" | grep -v -- ' -s ' | sed 's/.* install //') == "$1" ]]; }

fresh_machine
for word in setup build demo serve test bench lint format help; do
  check "help names $word" 0 "^  $word " "$root/dev" help
done
check "no word is a question for help" 0 "^Usage:" "$root/dev"
check "a slip gets the nearest word" 2 "did you mean 'test'" "$root/dev" tset
check "a beginning is enough for a hint" 2 "did you mean 'serve'" "$root/dev" ser
check "a wild word gets the list" 2 "may be one of: setup build" "$root/dev" frobnicate
check "an unknown preset is named" 2 "unknown preset 'asam'; did you mean 'asan'" "$root/dev" test asam
check "an unknown group of packages is named" 2 "unknown group of packages 'tets'" "$root/dev" setup tets
check "an option without its value is said" 2 "-R needs a regular expression" "$root/dev" test asan -R

mkdir -p "$scratch/a b"
cp "$root/dev" "$scratch/a b/dev"
check "it works from anywhere, in a path with spaces, without a home" 0 "^Usage:" \
  env -u HOME -C / "$scratch/a b/dev" help
check "a home that is not there is replaced" 0 "" env -C / HOME=/nonexistent "$scratch/a b/dev" setup

fresh_machine
check "nothing to install is nothing to say" 0 "" "$root/dev" setup
expect "and apt-get is not asked" test ! -s "$CALLS"

fresh_machine
export MISSING="ninja-build shellcheck"
check "what is missing is said" 0 "installing ninja-build shellcheck" "$root/dev" setup
expect "just that is installed" install_line_is "ninja-build shellcheck"
expect "without recommendations, and waiting for the lock" grep -qE -- "--no-install-recommends .*Lock::Timeout" "$CALLS"

fresh_machine
export MISSING="ninja-build shellcheck"
check "a group is only that group" 0 "installing shellcheck" "$root/dev" setup lint
expect "nothing else is installed" install_line_is "shellcheck"

fresh_machine
stub node 'echo v16.20.2'
check "an old node is replaced" 0 "installing nodejs npm" env MISSING="nodejs npm" "$root/dev" setup test
fresh_machine
check "a new node may come from anywhere" 0 "" env MISSING="nodejs npm" "$root/dev" setup test

fresh_machine
check "what apt will remove is said before" 0 "apt will remove .*libboost1.74-dev libboost-dev" \
  env MISSING=libboost1.81-dev APT='[[ $* == *" -s "* ]] && printf "Remv libboost1.74-dev [1]\nRemv libboost-dev [1]\n"; true' \
  "$root/dev" setup build

fresh_machine
export MISSING=cmake
check "a full disk is told from a bad network" 3 "the disk is full" \
  env APT='[[ $* == *update* ]] || { echo "E: You don'"'"'t have enough free space"; exit 100; }' "$root/dev" setup build
check "a bad network is told from a full disk" 3 "cannot be reached" \
  env APT='echo "E: Failed to fetch x  Could not resolve y"; exit 100' "$root/dev" setup build
check "apt's own words are shown" 3 "E: some new trouble" env APT='echo "E: some new trouble"; exit 100' "$root/dev" setup build
check "a dead source does not stop the others" 0 "apt-get update had trouble" \
  env APT='[[ $* != *update* ]]' "$root/dev" setup build

fresh_machine
stub id 'echo 1000'
stub sudo 'exit 1'
check "without root the command is said" 3 "apt-get install --no-install-recommends cmake" \
  env MISSING=cmake "$root/dev" setup build
stub sudo 'if [[ $1 == -n ]]; then shift; fi; exec "$@"'
check "with sudo it goes on" 0 "installing cmake" env MISSING=cmake "$root/dev" setup build

bare=$scratch/bare
mkdir -p "$bare"
for tool in bash env dirname cut cat sed tr sort; do ln -s "$(command -v "$tool")" "$bare/$tool"; done
check "another system gets the list" 3 "by hand, then set DEV_SETUP=skip" env PATH="$bare" "$root/dev" setup build
check "and a way round" 0 "" env PATH="$bare" DEV_SETUP=skip "$root/dev" setup build

if ((failures > 0)); then
  printf '%d checks failed\n' "$failures"
  exit 1
fi
echo "all checks passed"
