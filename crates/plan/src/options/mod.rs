//! The table of options: everything that is said of an option stands in its row.
//!
//! From the rows come the flags of the command line, the keys of the config file, the variables
//! `TOKOMETER_*`, the keys of plan files, what is valid, other tools' spellings, and the documentation. A
//! new option is a row here, a field that its key names, and the code that reads the field.
//!
//! - `row` is the form of a row; the other modules have the rows, a module per part of a measurement.
//! - `fragment` is what one source says, made of rows and words; `page` is the list of keys for
//!   `docs/plan-file.md`.

mod client;
mod datasets;
mod fragment;
mod load;
mod output;
mod page;
mod request;
mod row;
mod target;
mod workload;

pub use client::{JUDGED, percentiles};
pub use fragment::{
    ContentFiles, Fragment, GivenOption, LoraFlags, OptionList, OutputArgs, RampFlags, ShardArgs,
    is_set, set_key,
};
pub use load::SGLANG_WARMUP_TOKENS;
pub use output::ADDRESSED;
pub use page::keys_markdown;
pub use row::{Defaults, Holds, Kind, OptionRow, OtherName, time};
pub use target::api_key;

use std::num::{IntErrorKind, ParseIntError};

#[derive(Debug)]
pub struct Group {
    /// The heading in the help.
    pub title: &'static str,
    pub rows: &'static [OptionRow],
}

/// The datasets of an option that every dataset may have.
const EVERY: &[&str] = &[];
/// Tokens of one prompt or answer: far above what servers can do, for typing errors and for plans made by
/// programs.
const MOST_TOKENS: f64 = 1e7;
const MOST_REQUESTS: f64 = 1e9;
/// Groups, prefixes, turns and rounds.
const MOST_PARTS: f64 = 1e6;

const ALL: [&[Group]; 7] = [
    target::GROUPS,
    workload::GROUPS,
    datasets::GROUPS,
    load::GROUPS,
    request::GROUPS,
    client::GROUPS,
    output::GROUPS,
];

/// Options of all commands that measure, in the order of the help.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    ALL.into_iter().flatten()
}

/// All options, in the order in which they apply.
pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
    groups().chain([&ADDRESSED, &JUDGED]).flat_map(|group| group.rows)
}

pub fn named(flag: &str) -> Option<&'static OptionRow> {
    rows().find(|row| row.flag == flag)
}

fn number<T: std::str::FromStr<Err = ParseIntError>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|why: ParseIntError| match why.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "it is too large".to_owned(),
        IntErrorKind::Empty => "it is empty".to_owned(),
        _ => "it is not a whole number".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartialPlan;

    /// Every row names a field of the right type, and its default is a value.
    #[test]
    fn every_option_sets_what_its_row_says() {
        let words = [
            "1",
            "a=b",
            "{}",
            "a",
            "http://h",
            "p99 ttft ±10%",
            "h:1:127.0.0.1",
            "ttft:5",
            "name=a",
        ];
        let words = words.into_iter().chain([
            "{\"image\": 1}",
            "{(256, 256, 1): 1.0}",
            "5s",
            "2m@5/s",
            "10% after 2s",
        ]);
        // The three files of TLS need each other in a circle.
        for row in rows().filter(|row| !row.flag.starts_with("shard-tls")) {
            let choice = match row.kind {
                Kind::Choice(choices) => choices.first().copied(),
                _ => row.default.map(|default| default.vllm),
            };
            let spec = tokometer_workload::Spec::NAMES.iter().filter_map(|name| {
                let spec =
                    tokometer_workload::Spec::defaults(name, tokometer_base::Conventions::Vllm)?;
                let workload = tokometer_base::Partial::of(spec);
                Some((*name, PartialPlan { workload, ..PartialPlan::default() }))
            });
            let is_taken = |word: &str| {
                let others = row.needs.iter().chain(row.only_with).filter_map(|flag| named(flag));
                let others = others.filter_map(|row| {
                    let word = words.clone().find(|word| row.parse(word).is_ok())?;
                    Some(GivenOption { row, words: vec![word.to_owned()] })
                });
                let own = GivenOption { row, words: vec![word.to_owned()] };
                let Ok(fragment) = Fragment::of(others.take(1).chain([own]).collect()) else {
                    return false;
                };
                let is_key = row.key.is_empty() || fragment.part != PartialPlan::default();
                let is_listed = fragment.of_dataset.is_empty();
                let mut known = spec.clone();
                let is_of_dataset = known.any(|(name, known)| {
                    let mut fragment = fragment.clone();
                    fragment.put_dataset(name, &known).is_ok_and(|unused| unused.is_empty())
                        && is_set(&fragment.part, row.key)
                });
                if is_listed { is_key || row.flag == "run-dir" } else { is_of_dataset }
            };
            let mut all = choice.into_iter().chain(words.clone());
            assert!(all.any(is_taken), "--{}", row.flag);
        }
    }

    #[test]
    fn options_that_contradict_or_need_each_other_are_refused() {
        let of = |flags: &[&str]| {
            let row = |flag: &&str| named(flag).unwrap();
            let given = |row: &'static OptionRow| GivenOption { row, words: vec!["1".to_owned()] };
            Fragment::of(flags.iter().map(row).map(given).collect()).map_err(|why| why.message)
        };
        let why = of(&["no-scrape", "scrape-interval"]).unwrap_err();
        assert_eq!(why, "cannot use `--no-scrape` together with `--scrape-interval`");
        assert_eq!(of(&["at-least"]).unwrap_err(), "cannot use `--at-least` without `--until`");
        assert!(of(&["block"]).unwrap_err().contains("without `--against` or `--switch-command`"));
        let alone = of(&["multi-turn-delay-ms"]).unwrap();
        assert_eq!(alone.part, PartialPlan::default());
    }
}
