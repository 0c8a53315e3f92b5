//! Flags and letters that people type from habit, and what to type here instead.
//!
//! In: a flag that a command does not have, and the flags that it has. Out: a refusal that names
//! useful ones: those of the same purpose where the habit is known, else those of a similar spelling.

use std::collections::BTreeSet;

use tokometer_base::neighbours::nearest;
use tokometer_plan::renamed_flag;

use crate::exit::Refusal;

/// Our flags, and those of other load tools for the same purpose. A habit may stand in several rows.
const SYNONYMS: [(&str, &str); 12] = [
    (
        "--request-rate",
        "--rate --qps --rps --arrival-rate --rate-limit --requests-per-second --rate-type",
    ),
    (
        "--max-concurrency",
        "--rate-type --concurrency --concurrent --concurrent-requests \
         --num-concurrent-requests --max-concurrent-requests --clients --num-clients \
         --users --num-users --vus --connections-max --max-connections --parallel \
         --parallelism --threads",
    ),
    (
        "--base-url",
        "--url --uri --server --server-url --address --api-base --api-url --endpoint-url \
         --host-url --target",
    ),
    (
        "--num-prompts",
        "--requests --num-requests --total-requests --max-requests \
         --max-num-completed-requests --request-count --prompts --num-queries \
         --iterations --count",
    ),
    (
        "--duration",
        "--time --run-time --seconds --max-seconds --benchmark-duration \
         --measurement-interval",
    ),
    (
        "--input-len",
        "--isl --input-tokens --mean-input-tokens --num-input-tokens \
         --synthetic-input-tokens-mean --prompt-tokens --prompt-len --prompt-length \
         --input-length",
    ),
    (
        "--output-len",
        "--osl --output-tokens --output-tokens-mean --mean-output-tokens \
         --num-output-tokens --output-length --gen-len --max-tokens --max-new-tokens \
         --max-output-tokens --max-completion-tokens",
    ),
    ("--api-key", "--key --token --bearer"),
    ("--run-dir", "--out --output --output-dir --export"),
    ("--output-file", "--output --export --save-json"),
    ("--format", "--save-json --export-json"),
    ("--num-warmups", "--warmup"),
];

/// Habits for which a command may have no flag, with what to do instead.
const ADVICE: [(&str, &str); 4] = [
    (
        "--slo",
        "`tokometer bench --slo` judges a run, and `tokometer capacity --slo` searches the load that meets objectives",
    ),
    ("--stream", "responses are streamed; `--disable-stream` requests whole ones"),
    ("--streaming", "responses are streamed; `--disable-stream` requests whole ones"),
    ("--sweep", "a list makes a sweep, such as `--max-concurrency 1,2,4`"),
];

/// Our flags, and letters of other load tools for them.
const LETTERS: [(&str, &str); 5] = [
    ("--model", "-m"),
    ("--base-url", "-u"),
    ("--duration", "-d -z -t"),
    ("--header", "-H"),
    ("--insecure", "-k"),
];

/// Flags of `report` that had another name, and theirs of today without dashes.
const FORMER: [(&str, &str); 1] = [("--trace", "perfetto")];

/// A refusal of `typed`, a flag that is none of `own`.
pub(crate) fn unknown(typed: &str, own: &BTreeSet<String>) -> Refusal {
    let message = format!("unknown flag `{typed}`");
    let is_useful = |ours: &&str| own.contains(*ours);
    let same_purpose: Vec<&str> = SYNONYMS
        .iter()
        .chain(&LETTERS)
        .filter(|(_, habits)| habits.split_whitespace().any(|habit| habit == typed))
        .map(|(ours, _)| *ours)
        .filter(is_useful)
        .collect();
    let advice = ADVICE.iter().find(|(habit, _)| *habit == typed);
    if let Some((_, advice)) = advice.filter(|_| own.contains("--num-prompts")) {
        return Refusal::usage(message, *advice);
    }
    let former = FORMER.iter().find(|(old, _)| *old == typed).map(|(_, now)| *now);
    let now = typed.strip_prefix("--").and_then(renamed_flag).or(former);
    let is_own = |now: &&str| own.contains(&format!("--{}", now.split(' ').next().unwrap_or(now)));
    if let Some(now) = now.filter(is_own) {
        return Refusal::usage(message, format!("it is called `--{now}` now"));
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
        for (ours, habits) in SYNONYMS.into_iter().chain(LETTERS) {
            assert!(own.contains(ours), "{ours} is not declared");
            for habit in habits.split_whitespace() {
                assert!(!own.contains(habit) && find(habit).is_none(), "{habit} is known");
            }
        }
        for (habit, advice) in ADVICE {
            assert!(find(habit).is_none(), "{habit} is known");
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
        assert!(rows.len() > 5, "{rows:?}");
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
        check("--compat", "it is called `--conventions` now");
        check("--harvest", "it is called `--socket-reads` now");
        check("--json", "it is called `--format json` now");
        assert!(unknown("--slo", &own).hint.contains("tokometer capacity --slo"));
        // A command that lacks the flag for the purpose does not name it.
        let hint = unknown("--vus", &flags_of("report")).hint;
        assert_eq!(hint, "`--help` lists all flags");
    }
}
