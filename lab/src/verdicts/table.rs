//! The tables: how often the verdict marked wrong figures, and left right ones unmarked.
//!
//! A figure is wrong when it is off by more than 5 % and its own interval does not hold the undisturbed
//! value; it is right when it is off by less than 1 %. Notes about too few samples or no steady part do not
//! count as speaking: they hold for undisturbed runs as well.
//!
//! Two rules divide the figures, and the shares are printed with and without them. A figure has a
//! *reference* where the calibrations of its load and path agree with virtual time within 5 %; otherwise
//! the simulator on the clock differs by itself, whoever measures. And a cause is *at the client* or
//! not: what a path or another client adds is part of what a client measures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::outcome::{self, Compared, Outcome};

/// A figure that is off by more than this must not be VALID.
const WRONG: f64 = 0.05;
/// A figure that is off by less than this must be VALID.
const RIGHT: f64 = 0.01;

/// Marked of all that were wrong, unmarked of all that were right.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
    wrong: usize,
    marked: usize,
    right: usize,
    unmarked: usize,
}

impl Score {
    fn add_figure(&mut self, figure: &Compared) {
        self.add(figure.off, figure.is_beyond_interval, is_marked(figure));
    }

    fn add(&mut self, off: f64, is_beyond_interval: bool, is_marked: bool) {
        if off.abs() > WRONG && is_beyond_interval {
            self.wrong += 1;
            self.marked += usize::from(is_marked);
        } else if off.abs() < RIGHT {
            self.right += 1;
            self.unmarked += usize::from(!is_marked);
        }
    }

    fn cells(&self) -> String {
        let part = |some: usize, all: usize| match all {
            0 => "–".to_owned(),
            _ => format!("{some} of {all} ({:.0} %)", 100.0 * some as f64 / all as f64),
        };
        format!("{} | {}", part(self.marked, self.wrong), part(self.unmarked, self.right))
    }
}

/// Kinds of disturbances of the client and its machine.
const AT_CLIENT: [&str; 7] =
    ["None", "Stop", "Stutter", "Busy", "Quota", "TimerSlack", "ClockStep"];

struct Done {
    kind: String,
    level: String,
    load: String,
    route: String,
    outcome: Outcome,
}

#[expect(clippy::print_stdout, reason = "the tables are the result")]
pub(super) fn print(folder: &Path) -> Result<()> {
    let done = read(folder)?;
    let disturbed = || done.iter().filter(|one| one.kind != "Calibration");
    println!("\nPer figure, by disturbance\n");
    println!(
        "| disturbance | level | load | runs | marked when off > 5 % | not marked when off < 1 % | largest difference | notes |"
    );
    println!("|---|---|---|--:|--:|--:|---|---|");
    let mut groups: BTreeMap<(&str, &str, String), Vec<&Done>> = BTreeMap::new();
    for one in &done {
        let load = format!("{}, {}", one.load, one.route);
        groups.entry((&one.kind, &one.level, load)).or_default().push(one);
    }
    for ((kind, level, load), runs) in &groups {
        let mut score = Score::default();
        let figures = || runs.iter().flat_map(|run| &run.outcome.figures);
        figures().for_each(|(_, figure)| score.add_figure(figure));
        let worst = outcome::worst(figures());
        let mut codes: Vec<&String> = runs.iter().flat_map(|run| &run.outcome.notes).collect();
        codes.sort();
        codes.dedup();
        let codes: Vec<&str> = codes.into_iter().map(String::as_str).collect();
        let (count, cells, codes) = (runs.len(), score.cells(), codes.join(", "));
        println!("| {kind} | {level} | {load} | {count} | {cells} | {worst} | {codes} |");
    }
    let rows = |title: &str, scores: &BTreeMap<String, Score>| {
        println!(
            "\n| {title} | marked when off > 5 % | not marked when off < 1 % |\n|---|--:|--:|"
        );
        for (name, score) in scores {
            println!("| {name} | {} |", score.cells());
        }
    };
    let mut by_figure: BTreeMap<String, Score> = BTreeMap::new();
    for (key, figure) in disturbed().flat_map(|one| &one.outcome.figures) {
        for name in [key.as_str(), "all figures"] {
            by_figure.entry(name.to_owned()).or_default().add_figure(figure);
        }
    }
    rows("figure", &by_figure);
    rows("note", &by_note(&disturbed().collect::<Vec<_>>()));
    let without_reference = without_reference(&done);
    let has_reference = |one: &Done, key: &str| {
        !without_reference.contains(&(path(&one.load, &one.route), key.to_owned()))
    };
    let is_client = |one: &Done| AT_CLIENT.contains(&one.kind.as_str());
    println!("\n| figures | marked when off > 5 % | not marked when off < 1 % |\n|---|--:|--:|");
    let mut parts = [Score::default(); 4];
    for one in disturbed() {
        for (key, figure) in &one.outcome.figures {
            let (is_known, is_client) = (has_reference(one, key), is_client(one));
            let is_meant = [true, is_known, is_known && is_client, is_known && !is_client];
            for (score, _) in parts.iter_mut().zip(is_meant).filter(|(_, is_meant)| *is_meant) {
                score.add_figure(figure);
            }
        }
    }
    let names = [
        "all",
        "with a reference",
        "with a reference, cause at the client",
        "with a reference, cause on the path or another client",
    ];
    for (name, score) in names.iter().zip(parts) {
        println!("| {name} | {} |", score.cells());
    }
    let mut runs = Score::default();
    for one in disturbed() {
        let figures = || one.outcome.figures.values();
        let worst = figures().map(|figure| figure.off.abs()).fold(0.0, f64::max);
        let is_wrong = figures().any(|one| one.off.abs() > WRONG && one.is_beyond_interval);
        runs.add(worst, is_wrong, figures().any(is_marked));
    }
    println!(
        "\n| verdict of the run | marked when a figure was off > 5 % | not marked when all were off < 1 % |\n|---|--:|--:|"
    );
    println!("| all runs | {} |", runs.cells());
    misses(&done);
    Ok(())
}

/// Load and path of a run. A server on the same host is reached like one in a namespace.
fn path(load: &str, route: &str) -> (String, String) {
    let route = if route == "SameHost" { "Remote" } else { route };
    (load.to_owned(), route.to_owned())
}

/// Figures by load and path that a calibration shows to differ from virtual time without a disturbance.
fn without_reference(done: &[Done]) -> BTreeSet<((String, String), String)> {
    let mut found = BTreeSet::new();
    for one in done.iter().filter(|one| one.kind == "Calibration") {
        let figures = one.outcome.figures.iter().filter(|(_, figure)| figure.off.abs() > WRONG);
        found.extend(figures.map(|(key, _)| (path(&one.load, &one.route), key.clone())));
    }
    found
}

/// Notes about what a figure can show, whatever disturbed the run.
const ABOUT_SUPPORT: [&str; 3] = ["few-samples", "no-steady-state", "short-steady-state"];

/// Whether the verdict warns of a disturbance.
fn is_marked(figure: &Compared) -> bool {
    figure.verdict != "VALID"
        && figure.notes.iter().any(|code| !ABOUT_SUPPORT.contains(&code.as_str()))
}

/// For each note: figures that it concerned when they were wrong, and did not when they were right. A note
/// is tried against the runs of the disturbances during which it marked anything.
fn by_note(done: &[&Done]) -> BTreeMap<String, Score> {
    let mut codes: Vec<&String> = done
        .iter()
        .flat_map(|one| one.outcome.figures.values())
        .flat_map(|one| &one.notes)
        .collect();
    codes.sort();
    codes.dedup();
    let mut scores = BTreeMap::new();
    for code in codes {
        let has =
            |one: &Done| one.outcome.figures.values().any(|figure| figure.notes.contains(code));
        let kinds: Vec<&str> =
            done.iter().filter(|one| has(one)).map(|one| one.kind.as_str()).collect();
        let mut score = Score::default();
        for one in done.iter().filter(|one| kinds.contains(&one.kind.as_str())) {
            for figure in one.outcome.figures.values() {
                score.add(figure.off, figure.is_beyond_interval, figure.notes.contains(code));
            }
        }
        scores.insert(code.clone(), score);
    }
    scores
}

/// Every figure whose verdict was wrong.
#[expect(clippy::print_stdout, reason = "the tables are the result")]
fn misses(done: &[Done]) {
    println!(
        "\n| wrong verdict | run | figure | off | verdict | bound | notes |\n|---|---|---|--:|---|--:|---|"
    );
    for one in done {
        for (key, figure) in &one.outcome.figures {
            let (off, bound) = (figure.off * 100.0, figure.effect.unwrap_or(0.0) * 100.0);
            let what = match figure.off.abs() {
                off if off > WRONG && figure.is_beyond_interval && !is_marked(figure) => "missed",
                off if off < RIGHT && is_marked(figure) => "false alarm",
                _ => continue,
            };
            let (verdict, notes) = (&figure.verdict, figure.notes.join(", "));
            let run = format!("{}, {}, {}, {}", one.kind, one.level, one.load, one.route);
            println!(
                "| {what} | {run} | {key} | {off:+.1} % | {verdict} | {bound:.1} % | {notes} |"
            );
        }
    }
}

fn read(folder: &Path) -> Result<Vec<Done>> {
    let mut results = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let text = std::fs::read_to_string(entry?.path())?;
        results.push(serde_json::from_str::<Value>(&text)?);
    }
    results.sort_by_key(|result| result["case"]["seed"].as_u64());
    let expected = |result: &Value| -> BTreeMap<String, f64> {
        let all = result["expected"].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect()
    };
    // What the simulator's front and the path add to each request: the median over the calibrations of a
    // path of the difference between the means. A median of a burst lies at a jump between two steps.
    let mut differences: BTreeMap<(String, String), BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    let word = |result: &Value, key: &str| result["case"][key].as_str().unwrap_or("").to_owned();
    let path = |result: &Value| path(&word(result, "load"), &word(result, "route"));
    for result in results.iter().filter(|result| word(result, "kind") == "Calibration") {
        let (known, of_path) = (expected(result), differences.entry(path(result)).or_default());
        for (key, value) in outcome::values(&result["summary"]) {
            let metric = key.strip_suffix("_mean").map(str::to_owned);
            if let (Some(metric), Some(expected)) = (metric, known.get(&key)) {
                of_path.entry(metric).or_default().push(value - expected);
            }
        }
    }
    let done = |result: &Value| {
        let offsets: BTreeMap<String, f64> = differences
            .get(&path(result))
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), median(values)))
            .collect();
        Done {
            kind: word(result, "kind"),
            level: word(result, "level"),
            load: word(result, "load"),
            route: word(result, "route"),
            outcome: Outcome::of(result, &expected(result), &offsets),
        }
    };
    Ok(results.iter().map(done).collect())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
