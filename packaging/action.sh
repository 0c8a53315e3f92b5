#!/usr/bin/env bash
# The steps of the GitHub Action (action.yml): install, bench, page, compare. Each reads its inputs from
# the environment and exits with the code of `tokometer`.
set -euo pipefail

# Adds a text to the summary of the job, where there is one.
summarise() {
  if [[ -n "${GITHUB_STEP_SUMMARY:-}" ]]; then
    cat >>"$GITHUB_STEP_SUMMARY"
  else
    cat
  fi
}

install() {
  # An environment of its own: the system's Python refuses packages on current runners.
  local environment="$RUNNER_TEMP/tokometer"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "$PACKAGE"
  "$environment/bin/tokometer" --version
  echo "$environment/bin" >>"$GITHUB_PATH"
}

bench() {
  local words=() list
  list="$(mktemp)"
  # xargs splits words at blanks and reads quotes, but expands and runs nothing. It fails if a quote is
  # not closed, which a process substitution would hide.
  xargs --no-run-if-empty printf '%s\0' <<<"$ARGUMENTS" >"$list"
  mapfile -d '' -t words <"$list"
  rm -f "$list"
  if [[ "${STRICT:-true}" == true ]]; then
    words+=(--strict)
  fi
  tokometer bench "${words[@]}" --run-dir "$RUN_DIR"
}

page() {
  # A measurement that was refused leaves no folder.
  if [[ ! -d "$RUN_DIR" ]]; then
    echo "no page: there is no run in $RUN_DIR"
    return
  fi
  local text
  text="$(mktemp)"
  tokometer report "$RUN_DIR" --html "$PAGE" --markdown "$text" >/dev/null
  summarise <"$text"
  rm -f "$text"
}

compare() {
  local runs=() rules=() words=() rule
  mapfile -t runs < <(grep -v '^[[:space:]]*$' <<<"$BASELINE")
  mapfile -t rules < <(grep -v '^[[:space:]]*$' <<<"${FAIL_IF:-}")
  for rule in "${rules[@]}"; do
    words+=(--fail-if "$rule")
  done
  if [[ "${REQUIRE_POWER:-false}" == true && ${#rules[@]} -gt 0 ]]; then
    words+=(--require-power)
  fi
  local code=0 text
  text="$(tokometer compare --a "${runs[@]}" --b "$RUN_DIR" --format markdown "${words[@]}")" || code=$?
  summarise <<<"$text"
  return "$code"
}

case "${1:-}" in
  install | bench | page | compare) "$1" ;;
  *)
    echo "usage: action.sh install|bench|page|compare" >&2
    exit 2
    ;;
esac
