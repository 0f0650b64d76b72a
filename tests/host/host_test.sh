#!/usr/bin/env bash
# Goal: what a host gets beside the executable is right: manual pages, completions, and the systemd unit. Method: the
# tools that people's machines have read them; each shell completes lines. What is missing here is named as skipped.
#   host_test.sh CALLGATE pages|completions|unit
# shellcheck disable=SC2016  # What stands in single quotes is for another shell.
set -euo pipefail

callgate=$1
part=$2
root=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

failures=0 checked=0
complain() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}
# equal NAME WANT GOT
equal() {
  checked=$((checked + 1))
  if [[ $2 != "$3" ]]; then complain "$1"$'\n'"wanted: $2"$'\n'"got:    $3"; fi
}
# there TOOL…: whether all are installed; names one that is not.
there() {
  local tool
  for tool in "$@"; do
    if ! command -v "$tool" >/dev/null; then
      printf 'skipped: %s is not installed\n' "$tool"
      return 1
    fi
  done
}

pages() {
  local page command
  "$callgate" man >"$scratch/callgate.1"
  "$callgate" man callgate.yaml >"$scratch/callgate.yaml.5"
  for page in callgate.1 callgate.yaml.5; do
    equal "$page is ASCII" "" "$(LC_ALL=C grep -nP '[^\x00-\x7F]' "$scratch/$page" || true)"
    if there mandoc; then equal "mandoc -T lint $page" "" "$(mandoc -T lint "$scratch/$page" 2>&1 || true)"; fi
    # Where man is only a stand-in for a missing one, it has no --warnings.
    if there man && man --version 2>/dev/null | grep -q '^man 2'; then
      equal "man --warnings $page" "" "$(LC_ALL=C.UTF-8 man --warnings -l "$scratch/$page" 2>&1 >/dev/null || true)"
    fi
  done
  # Every command of the table is there.
  while read -r command; do
    checked=$((checked + 1))
    grep -qxF ".SS \"callgate ${command//-/\\-}\"" "$scratch/callgate.1" || complain "callgate.1 lacks $command"
  done < <("$callgate" help | sed -n '/^Commands/,/^$/s/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p' | sed 's/ *$//')
  equal "an unknown page is refused" 2 "$("$callgate" man frobnicate >/dev/null 2>&1 || echo $?)"
}

# rows: the line up to the cursor | what all of it may become (or one of many: +word)
readonly kLines=(
  'con|config'
  'config |docs schema show'
  'config sche|schema'
  'calls list --outc|--outcome'
  'calls list --outcome |answered cancelled crashed drained failed refused'
  'calls list --outcome ans|answered'
  'pause ten|tenant'
  'completion |bash fish zsh'
  'help conf|config'
  'help exit|exit-codes'
  'help config sch|schema'
  'spend rec|reconcile'
  'classify --dialect anth|anthropic'
  'frobnicate |'
  'calls list --tenant |'
)

bash_line() {
  bash --norc --noprofile -c '
    source "$1"; shift
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _callgate 2>/dev/null
    printf "%s\n" "${COMPREPLY[@]}"' - "$scratch/completion.bash" "$@"
}
fish_line() {
  # No user's own files.
  HOME=$scratch XDG_CONFIG_HOME=$scratch fish -c 'source $argv[1]; complete -C $argv[2]' "$scratch/completion.fish" "$1" |
    cut -f1
}
sorted() { sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//'; }

# Types lines into a real zsh, each up to a TAB, and says what it made of them.
zsh_lines() {
  mkdir -p "$scratch/functions"
  cp "$scratch/completion.zsh" "$scratch/functions/_callgate"
  cat >"$scratch/tab.zsh" <<'END'
zmodload zsh/zpty || exit 77
where=$1
shift
for line; do
  zpty z zsh -f -i
  zpty -w z 'PS1=""; TERM=dumb; fpath=('$where' $fpath); autoload -Uz compinit; compinit -u -D; setopt no_beep no_auto_menu; callgate() { print -r -- "ARGS<$*>" }; print REA''DY'
  zpty -r z out '*READY*'
  zpty -n -w z "callgate $line"$'\t\n'
  zpty -r z out '*ARGS<*>*'
  print -r -- ${${out##*ARGS<}%%>*}
  zpty -d z
done
END
  timeout 60 zsh -f "$scratch/tab.zsh" "$scratch/functions" "$@"
}

completions() {
  local shell row line want
  local -a words
  for shell in bash zsh fish; do "$callgate" completion "$shell" >"$scratch/completion.$shell"; done
  if there shellcheck; then shellcheck -s bash "$scratch/completion.bash" || complain "shellcheck"; fi
  local fish=""
  if there fish; then fish=yes; fi
  for row in "${kLines[@]}"; do
    line=${row%%|*} want=${row#*|}
    read -ra words <<<"$line"
    if [[ $line == *' ' ]]; then words+=(""); fi
    equal "bash: callgate $line" "$want" "$(bash_line callgate "${words[@]}" | sorted)"
    if [[ -n $fish ]]; then equal "fish: callgate $line" "$want" "$(fish_line "callgate $line" | sorted)"; fi
  done
  : >"$scratch/some.yaml"
  equal "bash: files" "$scratch/some.yaml" "$(bash_line callgate serve --config "$scratch/so" | sorted)"
  equal "bash: a value behind =" "refused" "$(bash_line callgate calls list --outcome = ref | sorted)"
  if [[ -n $fish ]]; then
    equal "fish: files" "$scratch/some.yaml" "$(fish_line "callgate validate $scratch/so" | sorted)"
    equal "fish: a value behind =" "--outcome=refused" "$(fish_line "callgate calls list --outcome=ref" | sorted)"
  fi
  if there zsh; then
    equal "zsh" "config|config schema|calls list --outcome answered|calls list --outcome=refused|pause tenant|help completion|" \
      "$(zsh_lines conf 'config sche' 'calls list --outc'$'\t''ans' 'calls list --outcome=ref' 'pause ten' 'help compl' |
        tr '\n' '|')"
  fi
  equal "an unknown shell is refused" 2 "$("$callgate" completion tcsh >/dev/null 2>&1 || echo $?)"
}

unit() {
  there systemd-analyze || exit 77
  local file=$root/packaging/systemd/callgate.service found
  # The unit as it is, but for where things are that this machine has not installed.
  mkdir -p "$scratch/man/man1" "$scratch/man/man5"
  "$callgate" man >"$scratch/man/man1/callgate.1"
  "$callgate" man callgate.yaml >"$scratch/man/man5/callgate.yaml.5"
  sed "s|/usr/bin/callgate|$(realpath "$callgate")|" "$file" >"$scratch/callgate.service"
  if ! there man || ! man --version 2>/dev/null | grep -q '^man 2'; then sed -i '/^Documentation=/d' "$scratch/callgate.service"; fi
  found=$(MANPATH=$scratch/man SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=yes "$scratch/callgate.service" 2>&1) ||
    complain "systemd-analyze verify: $found"
  equal "systemd-analyze verify" "" "$(grep -F callgate <<<"$found" || true)"
  # Exposure of at most 2.0 of 10.
  found=$(systemd-analyze security --offline=yes --threshold=20 "$file" 2>&1) || complain "security: $(tail -n 3 <<<"$found")"
  checked=$((checked + 1))
  # What the service says to itself is longer than what drains, and the watchdog is on.
  equal "the unit's type" "Type=notify" "$(grep '^Type=' "$file")"
  # The package makes that folder; of another mode in the unit systemd would warn at each start, and not set it.
  equal "whose /etc/callgate is" "" "$(grep '^ConfigurationDirectory' "$file" || true)"
  equal "the unit's watchdog" "WatchdogSec=30" "$(grep '^WatchdogSec=' "$file")"
}

"$part"
printf '%d checked, %d failed\n' "$checked" "$failures"
((failures == 0 && checked > 0))
