#!/usr/bin/env bash
# Drives tokometer through the routes of a server, and leaves one folder per case for
# `cargo lab real --server NAME --judge FOLDER`. Needs bash, curl and GNU coreutils; no cargo.
#
#   TOKOMETER     the program under test
#   MODELS        folder of the models (`cargo lab real --server NAME --script FILE` makes it)
#   RESULTS       folder that receives runs, counters and logs
#   LIMIT         seconds for everything [3600]; a case that cannot end in time is left out
#   START_LIMIT   seconds for the start of a server [1200]
#   CASE_LIMIT    seconds for one case [120]
#   TOGETHER      1: start all servers at once; otherwise one after another
#   PACK          a file that receives RESULTS as a compressed archive
set -u -m
: "${TOKOMETER:?the program under test}" "${MODELS:?the folder of the models}" "${RESULTS:?a folder for the results}"
LIMIT=${LIMIT:-3600} START_LIMIT=${START_LIMIT:-1200} CASE_LIMIT=${CASE_LIMIT:-120} TOGETHER=${TOGETHER:-}
TOKOMETER=$(realpath "$TOKOMETER") MODELS=$(realpath "$MODELS")
mkdir -p "$RESULTS"
RESULTS=$(realpath "$RESULTS")
SECONDS=0
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false
unset OPENAI_API_KEY
mkdir -p "$RESULTS/cases" "$RESULTS/logs"
# A server that serves until its input closes gets an input that stays open.
[ -p "$RESULTS/input" ] || mkfifo "$RESULTS/input"
exec 9<> "$RESULTS/input"
declare -A PORT FURTHER PROCESS STATE

say() { echo "[${SECONDS}s] $*"; }

# server NAME PORT [FLAGS]: a server, and the flags of a second attempt where the first one ends.
server() { PORT[$1]=$2 FURTHER[$1]=${3:-} STATE[$1]=planned; }

# begin NAME [FLAGS]: starts a server in a process group of its own.
begin() {
  local name=$1
  shift
  (cd "$RESULTS" && exec 9>&- && "serve_$name" "$@") < "$RESULTS/input" >> "$RESULTS/logs/$name.log" 2>&1 &
  PROCESS[$name]=$! STATE[$name]=starting
}

look() {
  local name=$1
  [ "${STATE[$name]}" = starting ] || return 0
  if curl -sf -m 3 -o /dev/null "http://127.0.0.1:${PORT[$name]}$HEALTH"; then
    STATE[$name]=up
    say "server $name is up"
  elif ! kill -0 "${PROCESS[$name]}" 2> /dev/null; then
    if [ -n "${FURTHER[$name]}" ]; then
      say "server $name ended; second attempt with ${FURTHER[$name]}"
      local flags=${FURTHER[$name]}
      FURTHER[$name]=
      # shellcheck disable=SC2086
      begin "$name" $flags
    else
      STATE[$name]=ended
      say "server $name ended:"
      tail -n 15 "$RESULTS/logs/$name.log" | cut -c 1-300
    fi
  fi
}

# open_server NAME: waits until it is up, ended or late.
open_server() {
  [ "${STATE[$1]}" = planned ] && begin "$1"
  local begun=$SECONDS
  [ -n "$TOGETHER" ] && begun=0
  while [ "${STATE[$1]}" = starting ]; do
    local name
    for name in "${!STATE[@]}"; do look "$name"; done
    if [ "${STATE[$1]}" = starting ] && [ $((SECONDS - begun)) -gt "$START_LIMIT" ]; then
      STATE[$1]=late
      say "server $1 did not start within $START_LIMIT s:"
      tail -n 15 "$RESULTS/logs/$1.log" | cut -c 1-300
    fi
    [ "${STATE[$1]}" = starting ] && sleep 0.5
  done
}

# close_server NAME
close_server() {
  local process=${PROCESS[$1]:-}
  [ -n "$process" ] || return 0
  kill -TERM -- "-$process" 2> /dev/null
  local try
  for try in $(seq 50); do
    kill -0 -- "-$process" 2> /dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$process" 2> /dev/null
  unset "PROCESS[$1]"
  STATE[$1]=closed
}

close_all() {
  local name
  for name in "${!PROCESS[@]}"; do close_server "$name"; done
}
trap close_all EXIT
trap 'exit 130' INT TERM

counters() { curl -s -m 5 "http://127.0.0.1:${PORT[$1]}/metrics"; }

# settled NAME: the server's page once two readings of its token counters agree.
settled() {
  local last='' now try
  for try in $(seq 50); do
    now=$(counters "$1")
    [ "$(grep -E "$COUNTERS" <<< "$now")" = "$last" ] && [ -n "$last" ] && break
    last=$(grep -E "$COUNTERS" <<< "$now")
    sleep 0.2
  done
  printf '%s\n' "$now"
}

# try_case SERVER NAME WORDS…: one command of tokometer, between two readings of the counters.
try_case() {
  local server=$1 name=$2 folder=$RESULTS/cases/$2 code
  shift 2
  mkdir -p "$folder"
  rm -rf "${folder:?}"/*
  if [ "${STATE[$server]}" != up ]; then
    echo "server $server: ${STATE[$server]}" > "$folder/left-out"
    return 0
  elif [ $((LIMIT - SECONDS)) -lt 15 ]; then
    echo "no time left" > "$folder/left-out"
    return 0
  fi
  settled "$server" > "$folder/before"
  (cd "$folder" && exec timeout -s INT -k 5 "$CASE_LIMIT" "$TOKOMETER" "$@" --run-dir run < /dev/null > out 2> err)
  code=$?
  settled "$server" > "$folder/after"
  echo "$code" > "$folder/code"
  say "$name: exit code $code"
}

# @servers

if [ -n "$TOGETHER" ]; then
  for name in "${!STATE[@]}"; do begin "$name"; done
fi

# @cases

close_all
rm -f "$RESULTS/input"
[ -z "${PACK:-}" ] || tar -C "$RESULTS" -cJf "$PACK" .
say "done: $(find "$RESULTS/cases" -name code | wc -l) cases"
