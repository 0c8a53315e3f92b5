//! Flags and letters that people type from habit, and what to type here instead.
//!
//! In: a flag that a command does not have, and the flags that it has. Out: a refusal that names
//! useful ones: those of the same purpose where the habit is known, else those of a similar spelling.

use std::collections::BTreeSet;

use tokometer_base::neighbours::nearest;

use crate::exit::Refusal;

/// Flags of other load tools, and ours for the same purpose. A habit may have several rows.
const SYNONYMS: [(&str, &str); 82] = [
    ("--rate", "--request-rate"),
    ("--qps", "--request-rate"),
    ("--rps", "--request-rate"),
    ("--arrival-rate", "--request-rate"),
    ("--rate-limit", "--request-rate"),
    ("--requests-per-second", "--request-rate"),
    ("--rate-type", "--request-rate"),
    ("--rate-type", "--max-concurrency"),
    ("--url", "--base-url"),
    ("--uri", "--base-url"),
    ("--server", "--base-url"),
    ("--server-url", "--base-url"),
    ("--address", "--base-url"),
    ("--api-base", "--base-url"),
    ("--api-url", "--base-url"),
    ("--endpoint-url", "--base-url"),
    ("--host-url", "--base-url"),
    ("--target", "--base-url"),
    ("--concurrency", "--max-concurrency"),
    ("--concurrent", "--max-concurrency"),
    ("--concurrent-requests", "--max-concurrency"),
    ("--num-concurrent-requests", "--max-concurrency"),
    ("--max-concurrent-requests", "--max-concurrency"),
    ("--clients", "--max-concurrency"),
    ("--num-clients", "--max-concurrency"),
    ("--users", "--max-concurrency"),
    ("--num-users", "--max-concurrency"),
    ("--vus", "--max-concurrency"),
    ("--connections-max", "--max-concurrency"),
    ("--max-connections", "--max-concurrency"),
    ("--parallel", "--max-concurrency"),
    ("--parallelism", "--max-concurrency"),
    ("--threads", "--max-concurrency"),
    ("--requests", "--num-prompts"),
    ("--num-requests", "--num-prompts"),
    ("--total-requests", "--num-prompts"),
    ("--max-requests", "--num-prompts"),
    ("--max-num-completed-requests", "--num-prompts"),
    ("--request-count", "--num-prompts"),
    ("--prompts", "--num-prompts"),
    ("--num-queries", "--num-prompts"),
    ("--iterations", "--num-prompts"),
    ("--count", "--num-prompts"),
    ("--time", "--duration"),
    ("--run-time", "--duration"),
    ("--seconds", "--duration"),
    ("--max-seconds", "--duration"),
    ("--benchmark-duration", "--duration"),
    ("--measurement-interval", "--duration"),
    ("--isl", "--input-len"),
    ("--input-tokens", "--input-len"),
    ("--mean-input-tokens", "--input-len"),
    ("--num-input-tokens", "--input-len"),
    ("--synthetic-input-tokens-mean", "--input-len"),
    ("--prompt-tokens", "--input-len"),
    ("--prompt-len", "--input-len"),
    ("--prompt-length", "--input-len"),
    ("--input-length", "--input-len"),
    ("--osl", "--output-len"),
    ("--output-tokens", "--output-len"),
    ("--output-tokens-mean", "--output-len"),
    ("--mean-output-tokens", "--output-len"),
    ("--num-output-tokens", "--output-len"),
    ("--output-length", "--output-len"),
    ("--gen-len", "--output-len"),
    ("--max-tokens", "--output-len"),
    ("--max-new-tokens", "--output-len"),
    ("--max-output-tokens", "--output-len"),
    ("--max-completion-tokens", "--output-len"),
    ("--key", "--api-key"),
    ("--token", "--api-key"),
    ("--bearer", "--api-key"),
    ("--out", "--run-dir"),
    ("--output", "--run-dir"),
    ("--output", "--output-file"),
    ("--output-dir", "--run-dir"),
    ("--export", "--run-dir"),
    ("--export", "--output-file"),
    ("--save-json", "--output-file"),
    ("--save-json", "--json"),
    ("--export-json", "--json"),
    ("--warmup", "--num-warmups"),
];

/// Habits that no flag of `bench` is for, with what to do instead.
const ADVICE: [(&str, &str); 4] = [
    (
        "--slo",
        "`tokometer capacity --slo` searches the load that meets objectives; `--goodput ttft:200` counts requests within limits",
    ),
    ("--stream", "responses are streamed; `--disable-stream` requests whole ones"),
    ("--streaming", "responses are streamed; `--disable-stream` requests whole ones"),
    ("--sweep", "a list makes a sweep, such as `--max-concurrency 1,2,4`"),
];

/// Letters of other load tools.
const LETTERS: [(&str, &str); 7] = [
    ("-m", "--model"),
    ("-u", "--base-url"),
    ("-d", "--duration"),
    ("-z", "--duration"),
    ("-t", "--duration"),
    ("-H", "--header"),
    ("-k", "--insecure"),
];

/// A refusal of `typed`, a flag that is none of `own`.
pub(crate) fn unknown(typed: &str, own: &BTreeSet<String>) -> Refusal {
    let message = format!("unknown flag `{typed}`");
    let is_useful = |ours: &&str| own.contains(*ours);
    let same_purpose: Vec<&str> = SYNONYMS
        .iter()
        .chain(&LETTERS)
        .filter(|(habit, _)| *habit == typed)
        .map(|(_, ours)| *ours)
        .filter(is_useful)
        .collect();
    let advice = ADVICE.iter().find(|(habit, _)| *habit == typed);
    if let Some((_, advice)) = advice.filter(|_| own.contains("--num-prompts")) {
        return Refusal::usage(message, *advice);
    }
    let near = if same_purpose.is_empty() { alike(typed, own) } else { same_purpose };
    if near.is_empty() {
        return Refusal::usage(message, "`--help` lists all flags");
    }
    let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    Refusal::usage(message, format!("similar: {}", names.join(", ")))
}

/// Flags of ours that are spelt like `typed`.
fn alike<'a>(typed: &str, own: &'a BTreeSet<String>) -> Vec<&'a str> {
    if !typed.starts_with("--") {
        return Vec::new();
    }
    nearest(typed, own.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command::flags_of;
    use crate::args::compat::find;

    #[test]
    fn every_habit_leads_to_a_flag_that_bench_has() {
        let own = flags_of("bench");
        for (habit, ours) in SYNONYMS.into_iter().chain(LETTERS) {
            assert!(own.contains(ours), "{ours} is not declared");
            assert!(!own.contains(habit) && find(habit).is_none(), "{habit} is known");
        }
        for (habit, advice) in ADVICE {
            assert!(!own.contains(habit) && find(habit).is_none(), "{habit} is known");
            let named = advice.split('`').filter_map(|part| part.split(' ').next());
            for flag in named.filter(|word| word.starts_with("--")) {
                assert!(own.contains(flag), "{flag}");
            }
        }
    }

    #[test]
    fn the_page_for_migrants_names_the_flags_that_a_refusal_names() {
        let own = flags_of("bench");
        let page = include_str!("../../../../../docs/migrating.md");
        let table = page.split_once("| tool | its flag | here |\n|---|---|---|\n").unwrap().1;
        let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 10, "{rows:?}");
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [_, habit, ours] = cells[..] else { panic!("{row}") };
            assert_eq!(unknown(habit.trim_matches('`'), &own).hint, format!("similar: {ours}"));
        }
    }

    #[test]
    fn a_flag_of_another_tool_names_the_one_of_its_purpose() {
        let own = flags_of("bench");
        let check = |typed: &str, hint: &str| assert_eq!(unknown(typed, &own).hint, hint);
        check("--vus", "similar: `--max-concurrency`");
        check("--total-requests", "similar: `--num-prompts`");
        check("--max-seconds", "similar: `--duration`");
        check("--rate-type", "similar: `--request-rate`, `--max-concurrency`");
        check("--synthetic-input-tokens-mean", "similar: `--input-len`");
        check("--timeout-sec", "similar: `--timeout`");
        check("-m", "similar: `--model`");
        check("-x", "`--help` lists all flags");
        check("--frobnicate", "`--help` lists all flags");
        assert!(unknown("--slo", &own).hint.contains("tokometer capacity --slo"));
        // A command that lacks the flag for the purpose does not name it.
        let hint = unknown("--vus", &flags_of("report")).hint;
        assert_eq!(hint, "`--help` lists all flags");
    }
}
