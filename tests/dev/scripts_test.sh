#!/usr/bin/env bash
# Goal: no script that is run by hand alone, such as a measurement, is broken unseen. Method: each is read by its own
# language, not run.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
failed=0 read=0
scripts() { find bench demo tests -name node_modules -prune -o -name "$1" -print; }
while read -r script; do
  read=$((read + 1))
  node --check "$script" || failed=$((failed + 1))
done < <(scripts '*.mjs'; scripts '*.js')
while read -r script; do
  read=$((read + 1))
  python3 - "$script" <<<'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' || failed=$((failed + 1))
done < <(if command -v python3 >/dev/null; then scripts '*.py'; fi)
printf '%d scripts, %d broken\n' "$read" "$failed"
((failed == 0 && read > 0))
