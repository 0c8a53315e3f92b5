//! Rewrites command lines of other tools before they are parsed.
//!
//! In: words as typed after `bench` or `dataset`. Out: the same words in our own spelling: `_` has
//! become `-` in flags, unambiguous beginnings are completed, renamed flags have our name, flags
//! without effect are gone and named in a list of remarks. An unknown flag, or one that is
//! known and cannot be honoured, is an error. The rest of the program knows none of this.

mod dotted;
pub(super) mod habit;
pub(crate) mod table;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::exit::Refusal;
use table::{CompatFlag, known};

/// How another tool's flag is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagSupport {
    /// Accepted with its meaning; the text says what is worth knowing, if anything.
    Kept(&'static str),
    /// Accepted under another name, without dashes.
    Renamed(&'static str),
    /// Accepted without effect; the text says why.
    Ignored(&'static str),
    /// Not accepted; the text says why or what to use.
    Refused(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) words: Vec<String>,
    /// One sentence per flag that has no effect here.
    pub(crate) remarks: Vec<String>,
}

/// Puts `words` into our spelling. `own` are the long flags that the command itself declares.
pub(crate) fn rewrite(words: &[String], own: &BTreeSet<String>) -> Result<Rewritten, Refusal> {
    let mut rewritten = Rewritten { words: Vec::new(), remarks: Vec::new() };
    let words = dotted::gathered(words)?;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(typed) = word.strip_prefix("--").filter(|typed| !typed.is_empty()) else {
            rewritten.words.push(word.clone());
            continue;
        };
        let (name, value) =
            typed.split_once('=').map_or((typed, None), |(name, value)| (name, Some(value)));
        let flag = complete(&format!("--{}", name.replace('_', "-")), own)?;
        let fate = find(&flag).map_or(FlagSupport::Kept(""), |row| row.fate);
        let spelled = match fate {
            FlagSupport::Kept(_) => flag,
            FlagSupport::Renamed(ours) => format!("--{ours}"),
            FlagSupport::Refused(why) => {
                return Err(Refusal::usage(format!("unsupported flag `{flag}`"), why));
            }
            FlagSupport::Ignored(why) => {
                let remark = format!("`{flag}` has no effect here: {why}");
                if !rewritten.remarks.contains(&remark) {
                    rewritten.remarks.push(remark);
                }
                // An address stands in front, so whatever follows up to the next flag belongs to this
                // one.
                while words.next_if(|next| !is_flag(next)).is_some() {}
                continue;
            }
        };
        rewritten.words.push(match value {
            Some(value) => format!("{spelled}={value}"),
            None => spelled,
        });
    }
    Ok(rewritten)
}

/// Whether a word is a flag, long or short, and not a negative number.
fn is_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| {
        rest.starts_with(|first: char| first == '-' || first.is_ascii_alphabetic())
    })
}

/// The row of a flag, a starred one included.
fn find(flag: &str) -> Option<&'static CompatFlag> {
    let exact = known().iter().find(|row| row.flag == flag);
    exact.or_else(|| known().iter().find(|row| is_starred_start(row, flag)))
}

fn is_starred_start(row: &CompatFlag, flag: &str) -> bool {
    row.flag.strip_suffix('*').is_some_and(|start| flag.starts_with(start))
}

/// The flag that `typed` means: itself when it is known, else the only one that begins so. Where our
/// longer list makes a beginning ambiguous that was not so in an older tool, that tool decides.
fn complete(typed: &str, own: &BTreeSet<String>) -> Result<String, Refusal> {
    if own.contains(typed) || find(typed).is_some() {
        return Ok(typed.to_owned());
    }
    let starts = |name: &str| name.starts_with(typed);
    let tables = || known().iter().filter(|row| starts(&row.flag));
    let all: BTreeSet<&str> = own
        .iter()
        .map(String::as_str)
        .filter(|name| starts(name))
        .chain(tables().map(|row| row.flag.as_str()))
        .collect();
    for candidates in [all, of_tool('S', tables()), of_tool('O', tables())] {
        if let [only] = candidates.iter().copied().collect::<Vec<_>>()[..] {
            return Ok(only.to_owned());
        }
    }
    Err(habit::unknown(typed, own))
}

fn of_tool<'a>(tool: char, rows: impl Iterator<Item = &'a CompatFlag>) -> BTreeSet<&'a str> {
    rows.filter(|row| row.tools.contains(tool)).map(|row| row.flag.as_str()).collect()
}

/// `docs/migrating.md`: what becomes of each flag, for people who bring a script.
pub(crate) fn migrating_markdown() -> String {
    let mut page = String::from(MIGRATING_HEAD);
    for row in known() {
        let (fate, remark) = match row.fate {
            FlagSupport::Kept(remark) => ("kept", remark.to_owned()),
            FlagSupport::Renamed(ours) => ("kept", format!("spelled `--{ours}`")),
            FlagSupport::Ignored(why) => ("ignored", why.to_owned()),
            FlagSupport::Refused(why) => ("refused", why.to_owned()),
        };
        let tools: Vec<&str> = row.tools.chars().filter_map(tool_name).collect();
        let _ = writeln!(page, "| `{}` | {} | {fate} | {remark} |", row.flag, tools.join(", "));
    }
    page
}

fn tool_name(letter: char) -> Option<&'static str> {
    match letter {
        'P' => Some("vLLM"),
        'R' => Some("vLLM (Rust)"),
        'S' => Some("SGLang"),
        'O' => Some("benchmark_serving"),
        _ => None,
    }
}

const MIGRATING_HEAD: &str = "\
# Coming from another tool

How do I replace `vllm bench serve` or SGLang's `bench_serving` in my scripts? Replace the first words of your script with `tokometer bench`:

| before | after |
|---|---|
| `vllm bench serve …` | `tokometer bench …` |
| `python benchmark_serving.py …` | `tokometer bench …` |
| `python -m sglang.bench_serving --backend NAME …` | `tokometer bench --backend NAME …` |
| `python -m sglang.bench_serving …` without `--backend` | `tokometer bench --conventions sglang …` |

`--conventions sglang` selects SGLang's defaults, which differ from vLLM's. You may write `_` for `-` in a flag, and
shorten it while it stays unique.

Flags of other load tools are refused, with exit code 2, and the message names ours:

| tool | its flag | here |
|---|---|---|
| AIPerf, GenAI-Perf | `--url` | `--base-url` |
| AIPerf, GenAI-Perf | `--concurrency` | `--max-concurrency` |
| AIPerf, GenAI-Perf | `--request-count` | `--num-prompts` |
| AIPerf, GenAI-Perf | `--synthetic-input-tokens-mean` | `--input-len` |
| AIPerf, GenAI-Perf | `--output-tokens-mean` | `--output-len` |
| AIPerf | `--benchmark-duration` | `--duration` |
| GenAI-Perf | `--measurement-interval` | `--duration` |
| k6 | `--vus` | `--max-concurrency` |
| k6 | `--iterations` | `--num-prompts` |

GuideLLM (`guidellm run`) has kinds and values instead of flags:

| GuideLLM | here |
|---|---|
| `--backend kind=openai_http,target=URL,model=NAME` | `--base-url URL --model NAME` |
| `--profile kind=synchronous` | `--max-concurrency 1` |
| `--profile kind=concurrent,streams=32`, `kind=throughput,max_concurrency=32` | `--max-concurrency 32` |
| `--profile kind=poisson,rate=10` | `--request-rate 10` |
| `--profile kind=constant,rate=10` | `--request-rate 10 --burstiness inf` |
| `--profile kind=sweep`, `kind=knee` | `tokometer URL`, or lists such as `--max-concurrency 1,2,...,64` |
| `--constraint kind=max_requests,count=1000` | `--num-prompts 1000` |
| `--constraint kind=max_duration,seconds=60` | `--duration 60s` |
| `--constraint kind=over_saturation` | `--stop-when-overloaded` |
| `--data kind=synthetic_text,prompt_tokens=256,output_tokens=128` | `--random-input-len 256 --random-output-len 128` |
| `--data kind=huggingface,source=ID` | `--dataset-name hf --dataset-path ID` |
| `--tokenizer kind=huggingface_auto,model=NAME` | `--tokenizer NAME` |
| `--seed kind=static,value=42` | `--seed 42` |
| `--output kind=json,path=FILE` | `summary.json` in the run folder |

What TTFT, TPOT and ITL mean in each tool: [Metrics across tools](parity.md).

The last table says what happens to each flag of vLLM and SGLang. The program uses the same table, and
`tokometer docs migrating` prints this page. `--extra-body.a.b VALUE` sets one field of a JSON flag. Backends and datasets have the names of the tools;
one that is not supported (`gserver`, `openai-embeddings-clip`, `speed_bench`, `mmmu`, `agentic-trace`, …) is refused
with what to use instead.

| here | meaning |
|---|---|
| kept | works as before |
| ignored | accepted, without effect; named once on stderr |
| refused | ends the program with exit code 2 |

| known to | which tool that is |
|---|---|
| vLLM | `vllm bench serve` |
| vLLM (Rust) | its client in Rust, with `VLLM_USE_RUST_BENCH=1` |
| SGLang | `sglang.bench_serving` |
| benchmark_serving | vLLM's older script and its forks |

| flag | known to | here | remark |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> BTreeSet<String> {
        crate::args::command::flags_of("bench")
    }

    fn rewritten(line: &str) -> Result<Rewritten, Refusal> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        rewrite(&words, &own())
    }

    #[test]
    fn other_spellings_become_ours() {
        let check = |line: &str, expected: &str| {
            assert_eq!(rewritten(line).unwrap().words.join(" "), expected, "{line}");
        };
        check("--num_prompts 5", "--num-prompts 5");
        check("--num-prompt=1,2,...,4096", "--num-prompts=1,2,...,4096");
        check("--random-input 80 --random-output=1", "--random-input-len 80 --random-output-len=1");
        check("--extra-request-body {}", "--extra-body {}");
        check("--dataset-path=a_b.txt", "--dataset-path=a_b.txt");
        check("--header a=b c_d=e --insecure", "--header a=b c_d=e --insecure");
        check("--request 4", "--request-rate 4");
        check("--sweep-max-concurrency 1,2", "--max-concurrency 1,2");
    }

    #[test]
    fn flags_without_effect_are_named_once_and_taken_out_with_their_values() {
        let line = "--trust-remote-code --tokenizer-mode auto -n 5 --trust-remote-code --seed 1";
        let rewritten = rewritten(line).unwrap();
        assert_eq!(rewritten.words, ["-n", "5", "--seed", "1"]);
        assert_eq!(rewritten.remarks.len(), 2);
        assert!(rewritten.remarks[0].contains("`--trust-remote-code` has no effect here"));
    }

    #[test]
    fn unknown_and_refused_flags_are_errors_that_help() {
        let check = |line: &str, part: &str| {
            let refusal = rewritten(line).unwrap_err();
            assert_eq!(refusal.kind, crate::exit::RefusalKind::Usage);
            assert!(refusal.to_string().contains(part), "{line}: {refusal}");
        };
        check("--num-promts 5", "`--num-prompts`");
        check("--rate 5", "similar: `--request-rate`");
        check("--url http://h", "similar: `--base-url`");
        check("--concurrency 5", "similar: `--max-concurrency`");
        check("--key k", "similar: `--api-key`");
        check("--max-conc-urrency 5", "`--max-concurrency`");
        check("--zzz", "`--help` lists all flags");
        check("--asr-max-audio-len-sec 3", "custom_audio");
    }

    /// `--concurrency` was answered with a flag that is then refused.
    #[test]
    fn no_suggestion_is_a_flag_that_does_nothing() {
        let own = own();
        for row in known() {
            let typo = format!("{}x", row.flag.trim_end_matches('*'));
            let Err(refusal) = complete(&typo, &own) else { continue };
            for name in refusal.hint.split('`').filter(|part| part.starts_with("--")) {
                assert!(own.contains(name) || name == "--help", "{typo}: {name}");
            }
        }
    }

    #[test]
    fn every_known_flag_has_a_row_and_every_row_is_known() {
        let listed = include_str!("../../../../fixtures/flags/known.txt");
        let listed: BTreeSet<(&str, &str)> = listed
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .collect();
        let rows: BTreeSet<(&str, &str)> =
            known().iter().map(|row| (row.flag.as_str(), row.tools)).collect();
        assert_eq!(listed.difference(&rows).collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
        assert_eq!(rows.difference(&listed).collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
    }

    #[test]
    fn flags_without_an_option_of_ours_are_no_flags_of_ours() {
        let own = own();
        for row in known() {
            let is_ours = matches!(row.fate, FlagSupport::Kept(_));
            assert_eq!(own.contains(&row.flag), is_ours, "{}", row.flag);
        }
    }

    #[test]
    fn the_page_for_migrants_is_what_the_table_says() {
        let page = include_str!("../../../../docs/migrating.md");
        let ours = migrating_markdown();
        assert!(page == ours, "docs/migrating.md is not what `tokometer docs migrating` prints");
    }
}
