//! Flags, plans, reports and datasets that make no sense.

use std::path::Path;

use super::case::Case;

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Files that no reader can use.
fn bad_files(folder: &Path) {
    write(folder, "empty", "");
    write(folder, "open.json", "[");
    write(folder, "object.json", "{}");
    write(folder, "list.json", "[]");
    write(folder, "bytes", b"\xff\xfa\xf0\n");
    write(folder, "latin1.jsonl", b"{\"prompt\": \"a\"}\n{\"prompt\": \"caf\xe9\"}\n");
    write(folder, "packed.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00");
    write(folder, "utf16.jsonl", b"{\x00\"\x00p\x00\"\x00");
    write(folder, "no.parquet", "PAR1xxxxPAR1");
    write(folder, "number.jsonl", "{\"prompt\": 7}\n");
    write(folder, "time.jsonl", "{\"timestamp\": \"noon\"}\n");
    write(
        folder,
        "text.csv",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\nx,y,z,w,v,u\n",
    );
    write(folder, "text.txt", "one line\n");
}

const fn dataset(fault: &'static str, flags: &'static str) -> Case {
    Case::command(fault, "dataset --tokenizer cl100k --num-prompts 2")
        .prepare(bad_files)
        .flags(flags)
}

const fn reading(fault: &'static str, line: &'static str) -> Case {
    Case::command(fault, line).prepare(bad_files)
}

const fn flag(fault: &'static str, flags: &'static str) -> Case {
    Case::command(fault, "bench --no-run-dir").flags(flags)
}

pub(super) const CASES: &[Case] = &[
    flag("a misspelt flag", "--num-promts 5")
        .says(&["unknown flag `--num-promts`", "`--num-prompts`"]),
    flag("a flag of another tool without a counterpart", "--pd-separated")
        .says(&["unsupported flag `--pd-separated`"]),
    flag("a flag without its value", "--run-dir")
        .says(&["cannot use `--run-dir` without a value", "`--run-dir <DIR>`"]),
    flag("an unknown backend", "--backend vlm").says(&["unknown backend `vlm`", "vllm"]),
    flag("an unknown dataset", "--dataset-name rando").says(&["unknown dataset `rando`", "random"]),
    flag("an unknown layout", "--layout v9").says(&["unknown layout `v9`", "v4"]),
    flag("an unknown engine profile", "--sim nope")
        .exit(3)
        .says(&["unknown engine profile `nope`"]),
    flag("a rate of zero", "--request-rate 0")
        .says(&["a rate must be greater than zero", "--request-rate inf"]),
    flag("a rate that is not a number", "--request-rate nan")
        .says(&["cannot use `nan` for `--request-rate`"]),
    flag("a burstiness of zero", "--burstiness 0").says(&["cannot use `--burstiness 0`"]),
    flag("a negative length", "--random-input-len -3")
        .says(&["must not be negative", "`--random-input-len <"]),
    flag("a range of lengths above 1", "--random-range-ratio 2")
        .says(&["the range ratio `2` must be"]),
    flag("no prompts at all", "--num-prompts 0").says(&["there would be nothing to measure"]),
    flag("a number of prompts with a fraction", "--num-prompts 3.5")
        .says(&["not a whole number", "`--num-prompts <"]),
    flag("a list of points that never ends", "--num-prompts 1,2,...,5").says(&["never reaches 5"]),
    flag("a prompt of 4,294,967,295 tokens", "--random-input-len 4294967295")
        .says(&["cannot use 4294967295 for `workload.input_len`: the most is 10000000"]),
    flag("an answer of 4,294,967,295 tokens", "--random-output-len 4294967295")
        .says(&["cannot use 4294967295 for `workload.output_len`"]),
    flag("2^64 − 1 prompts", "--num-prompts 18446744073709551615")
        .says(&["for `--num-prompts`: the most is"]),
    flag("2^64 prompts", "--num-prompts 18446744073709551616").says(&["--num-prompts"]),
    flag("4,294,967,295 requests in flight", "--max-concurrency 4294967295")
        .says(&["load.max_concurrency"]),
    flag("65,535 worker threads", "--workers 65535").says(&["for `--workers`: the most is"]),
    flag("a duration of three million years", "--duration 99999999999999s")
        .says(&["for `--duration`: the most is"]),
    flag("an answer of no tokens", "--random-output-len 0").says(&["at least one token"]),
    flag("no time to connect", "--connect-timeout 0").says(&["no connection could be opened"]),
    Case::sim("`--timeout 0`: no limit", &[])
        .flags("--timeout 0 --stall-timeout 0")
        .counts(3, 0)
        .exit(0)
        .says(&["3 of 3 succeeded"]),
    flag("a concurrency of zero", "--max-concurrency 0").says(&["no request could be sent"]),
    flag("a duration of zero", "--duration 0").says(&["`--duration` must be greater than zero"]),
    flag("a duration in words", "--duration soon")
        .says(&["cannot use `soon` for `--duration`", "30s"]),
    flag("a temperature that is not finite", "--temperature nan")
        .says(&["it must be a finite number"]),
    flag("an extra body that is not an object", "--extra-body [1]")
        .says(&["for `--extra-body`", "JSON object"]),
    flag("an extra body that is cut", "--extra-body {").says(&["for `--extra-body`"]),
    flag("a header without a value", "--header novalue")
        .says(&["cannot use `[redacted]` for `--header`"]),
    flag("a header with a colon in its name", "--sim --num-prompts 1 --header a:b=c")
        .says(&["cannot send the header"]),
    flag("an objective without a limit", "--goodput ttft")
        .says(&["cannot use `ttft` for `--goodput`"]),
    flag("a percentile above 100", "--metric-percentiles 101").says(&["`101` is not a percentile"]),
    flag("a stop rule without a precision", "--until p99")
        .says(&["cannot use `p99` for `--until`"]),
    flag("blocks without a second target", "--block 5")
        .says(&["cannot use `--block` without `--against`"]),
    flag("turns from 5 to 2", "--multi-turn --multi-turn-min-turns 5 --multi-turn-max-turns 2")
        .says(&["from 5 to 2 turns"]),
    flag("an address of another protocol", "--base-url ftp://h --model m").says(&["ftp://h"]),
    flag("an address without a host", "--base-url http://").says(&["it has no host"]),
    flag("an address whose port is too large", "--base-url http://h:99999")
        .says(&["its port is not a number below 65536"]),
    flag("a tokenizer that does not exist", "--tokenizer missing/tokenizer.json")
        .says(&["cannot read the tokenizer `missing/tokenizer.json`"]),
    flag("a tokenizer file that is empty", "--tokenizer ./empty")
        .prepare(bad_files)
        .says(&["./empty"]),
    flag("a tokenizer file that is not a tokenizer", "--tokenizer ./list.json")
        .prepare(bad_files)
        .says(&["./list.json"]),
    flag("a plan that does not exist", "--plan missing.toml")
        .says(&["cannot read the plan `missing.toml`"]),
    flag("a plan that is not TOML", "--plan plan.toml")
        .prepare(|folder| write(folder, "plan.toml", "this = is = no toml"))
        .says(&["cannot read the plan `plan.toml`"]),
    flag("a plan with an unknown key", "--plan plan.toml")
        .prepare(|folder| write(folder, "plan.toml", "num_promts = 4\n"))
        .says(&["cannot read the plan `plan.toml`", "num_promts"]),
    flag("a plan with a percentile above 100", "--plan plan.toml")
        .prepare(|folder| write(folder, "plan.toml", "metrics = { percentiles = [101] }\n"))
        .says(&["cannot use 101 for `metrics.percentiles`"]),
    flag("a plan that is cut JSON", "--plan open.json")
        .prepare(bad_files)
        .says(&["cannot read the plan `open.json`"]),
    dataset(
        "a dataset file that does not exist",
        "--dataset-name custom --dataset-path missing.jsonl",
    )
    .says(&["missing.jsonl"]),
    dataset("a dataset without its file", "--dataset-name custom")
        .says(&["error:", "--dataset-path"]),
    dataset("custom: an empty file", "--dataset-name custom --dataset-path empty")
        .says(&["`empty`: it is empty"]),
    dataset("custom: bytes that are not text", "--dataset-name custom --dataset-path bytes")
        .says(&["neither a JSON array nor JSON lines"]),
    dataset("custom: a row without a prompt", "--dataset-name custom --dataset-path object.json")
        .says(&["line 1: it has no `prompt`"]),
    dataset("sharegpt: an empty file", "--dataset-name sharegpt --dataset-path empty")
        .says(&["`empty`: it is empty"]),
    dataset("sharegpt: no JSON", "--dataset-name sharegpt --dataset-path text.txt")
        .says(&["neither a JSON array nor JSON lines"]),
    dataset(
        "sharegpt: no entry has a conversation",
        "--dataset-name sharegpt --dataset-path object.json",
    )
    .says(&["none of its 1 entries can be used"]),
    dataset("burstgpt: an empty file", "--dataset-name burstgpt --dataset-path empty")
        .says(&["`empty`: it is empty"]),
    dataset("burstgpt: a column is missing", "--dataset-name burstgpt --dataset-path text.txt")
        .says(&["there is no column `Model`"]),
    dataset(
        "burstgpt: a length that is not a number",
        "--dataset-name burstgpt --dataset-path text.csv",
    )
    .says(&["`text.csv`, line 2"]),
    dataset("openai: a row without messages", "--dataset-name openai --dataset-path object.json")
        .says(&["line 1: it has no `messages`"]),
    dataset(
        "timed_trace: a time that is not a number",
        "--dataset-name timed_trace --dataset-path time.jsonl",
    )
    .says(&["`time.jsonl`, line 1"]),
    dataset("timed_trace: other columns", "--dataset-name timed_trace --dataset-path text.csv")
        .says(&["no column `ContextTokens`", "`--dataset-name burstgpt`"]),
    dataset("custom: a compressed file", "--dataset-name custom --dataset-path packed.gz")
        .says(&["it is compressed (gzip)", "zcat"]),
    dataset("custom: a row in Latin-1", "--dataset-name custom --dataset-path latin1.jsonl")
        .says(&["`latin1.jsonl`, line 2", "it is not text in UTF-8 (byte 0xe9)", "iconv"]),
    dataset("custom: UTF-16 without a mark", "--dataset-name custom --dataset-path utf16.jsonl")
        .says(&["it is not text in UTF-8", "iconv -f UTF-16LE"]),
    dataset("timed_trace: no requests", "--dataset-name timed_trace --dataset-path list.json")
        .says(&["it has no request"]),
    dataset("mooncake: a row without a time", "--dataset-name mooncake --dataset-path object.json")
        .says(&["missing field `timestamp`"]),
    dataset("mooncake: bytes that are not text", "--dataset-name mooncake --dataset-path bytes")
        .says(&["neither a JSON array nor JSON lines"]),
    dataset("sonnet: an empty file", "--dataset-name sonnet --dataset-path empty")
        .says(&["`empty`: it is empty"]),
    dataset("sonnet: bytes that are not text", "--dataset-name sonnet --dataset-path bytes")
        .says(&["it is not text in UTF-8", "iconv"]),
    dataset("book: shorter than one slice", "--dataset-name book --dataset-path text.txt")
        .says(&["but one slice needs 1024"]),
    dataset("hf: a Parquet file that is none", "--dataset-name hf --dataset-path no.parquet")
        .says(&["`no.parquet`"]),
    dataset("hf: no row has a prompt", "--dataset-name hf --dataset-path object.json")
        .says(&["none of its 1 entries can be used"]),
    reading("a report that does not exist", "report missing.txt").says(&["missing.txt"]),
    reading("a report in a file that has none", "report text.txt")
        .says(&["cannot find a report in `text.txt`"]),
    reading("a report of bytes that are not text", "report bytes")
        .says(&["cannot find a report in `bytes`"]),
    reading("doctor: a file that has no report", "doctor text.txt")
        .says(&["cannot find a report in `text.txt`"]),
    reading("doctor: a compressed file", "doctor packed.gz")
        .says(&["cannot find a report in `packed.gz`", "zcat FILE | tokometer doctor -"]),
    reading("doctor: JSON of another tool", "doctor object.json").says(&[
        "cannot read `object.json`",
        "GenAI-Perf, genai-bench, GuideLLM or inference-perf",
    ]),
    reading("doctor: a load that makes no sense", "doctor --load nonsense")
        .says(&["cannot use `nonsense` in `--load`"]),
    reading("compare: nothing to compare", "compare").says(&["no runs given for `--a`"]),
    reading("compare: one side does not exist", "compare --a text.txt --b missing")
        .says(&["cannot find a report in `text.txt`"]),
    reading("capacity: an objective of a figure that does not exist", "capacity --slo latncy<2s")
        .says(&["`latncy` is not a metric", "similar: E2E"]),
    reading("capacity: an objective without a comparison", "capacity --slo p99")
        .says(&["has no comparison"]),
    reading("sim: an unknown fault", "sim --faults {\"x\":1}").says(&["unknown field `x`"]),
    reading("sim: an address that is not this machine's", "sim --host 192.0.2.1 --port 0")
        .exit(3)
        .says(&["cannot listen on 192.0.2.1:0"]),
];
