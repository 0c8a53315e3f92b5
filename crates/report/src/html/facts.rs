//! Where the figures of a page come from: date, model, server, hardware, lengths, load, version and
//! the command that repeats the measurement.

use serde::Serialize;
use serde_json::Value;
use tokometer_base::WallNanos;
use tokometer_base::digits::brief;
use tokometer_base::units::counted;
use tokometer_figures::Summary;
use tokometer_record::{RunInfo, TargetInfo};

use super::load_axis::LoadAxis;
use crate::summary::{load_text, short};

/// Values that are listed before the rest is counted.
const LISTED: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageFact {
    pub name: &'static str,
    pub value: String,
}

/// `2026-01-31 09:45:01 UTC`; empty for a time that no calendar knows.
pub fn date(at: WallNanos) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(at.0));
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default()
}

/// Model, server and load of these runs, for a title.
pub fn title(runs: &[(&RunInfo, &Summary)]) -> String {
    let measured = distinct(runs.iter().flat_map(|(info, _)| &info.targets).map(named));
    let what = match measured.as_slice() {
        [] => return "the server".to_owned(),
        [one] => one.clone(),
        [a, b] => format!("{a} and {b}"),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let spans: Vec<String> = axes(runs).into_iter().map(|axis| span(runs, axis)).collect();
    format!("{what}, {}", spans.join(" and "))
}

/// A target by its model and server.
fn named(target: &TargetInfo) -> String {
    if let Some(engine) = target.predicted_engine() {
        return format!("Prediction for the engine {engine}");
    }
    if target.is_simulated {
        return "Embedded simulator".to_owned();
    }
    let address = target.base_url.rsplit("://").next().unwrap_or_default();
    format!("{} on {}", target.model, target.server.as_deref().unwrap_or(address))
}

/// The lowest and the highest load of a kind.
fn span(runs: &[(&RunInfo, &Summary)], axis: LoadAxis) -> String {
    let loads = loads_of(runs, axis);
    match loads.as_slice() {
        [] => runs.first().map_or(String::new(), |(info, summary)| load_text(info, summary)),
        [one] => format!("{} {}", brief(*one), axis.unit()),
        [low, .., high] => format!("{} to {} {}", brief(*low), brief(*high), axis.unit()),
    }
}

/// The origin of these runs. `gpus` is the number of GPUs that the user gave.
pub fn facts(runs: &[(&RunInfo, &Summary)], gpus: Option<u32>) -> Vec<PageFact> {
    let of = |value: fn(&RunInfo, &Summary) -> Option<String>| {
        listed(runs.iter().filter_map(|(info, summary)| value(info, summary)))
    };
    let given = gpus.map(|gpus| format!("{} (as given)", counted(gpus, "GPU")));
    let hardware = listed(given.into_iter().chain(runs.iter().filter_map(|(_, s)| hardware(s))));
    let name = match runs {
        [(info, _)] => Some(info.name.clone()),
        _ => None,
    };
    let lines = [
        ("name", name),
        ("date", dates(runs)),
        ("model", of(|info, _| targets(info, model))),
        ("server", of(|info, _| targets(info, server))),
        ("hardware", hardware),
        ("client", of(|info, _| client(info))),
        ("dataset", of(|info, _| Some(info.dataset.clone()))),
        ("tokens", lengths(runs)),
        ("load", loads(runs)),
        ("measured by", of(|info, _| Some(format!("tokometer {}", info.version)))),
    ];
    let known =
        lines.into_iter().filter_map(|(name, value)| Some(PageFact { name, value: value? }));
    known.collect()
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The commands that made these runs, one per line, in the order of their first appearance. `None` where
/// a run does not hold its own, as those of older versions do not.
pub fn command(runs: &[&RunInfo]) -> Option<String> {
    let of = |info: &&RunInfo| info.environment.get("command")?.as_str().map(str::to_owned);
    let commands = distinct(runs.iter().map(of).collect::<Option<Vec<_>>>()?.into_iter());
    (!commands.is_empty()).then(|| command_lines(commands))
}

/// Commands, one per line; of many, the first ones and the number of the others.
pub fn command_lines(mut commands: Vec<String>) -> String {
    let more = commands.len().saturating_sub(LISTED);
    commands.truncate(LISTED);
    if more > 0 {
        commands.push(format!("# {more} more, with their runs below"));
    }
    commands.join("\n")
}

/// The load of a run in words; of several that differ in one number, the numbers.
fn loads(runs: &[(&RunInfo, &Summary)]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for axis in axes(runs) {
        let values = loads_of(runs, axis);
        if values.len() < 2 {
            let mine = runs.iter().filter(|(info, _)| LoadAxis::of(&info.load) == axis);
            texts.extend(listed(mine.map(|(info, summary)| load_text(info, summary))));
            continue;
        }
        let shown: Vec<String> =
            values.iter().take(2 * LISTED).map(|value| brief(*value)).collect();
        let more = if values.len() > 2 * LISTED { ", …" } else { "" };
        texts.push(format!("{}: {}{more} {}", axis.words(), shown.join(", "), axis.unit()));
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn axes(runs: &[(&RunInfo, &Summary)]) -> Vec<LoadAxis> {
    let mut axes: Vec<LoadAxis> = runs.iter().map(|(info, _)| LoadAxis::of(&info.load)).collect();
    axes.sort();
    axes.dedup();
    axes
}

/// The different loads of a kind, the lowest first.
fn loads_of(runs: &[(&RunInfo, &Summary)], axis: LoadAxis) -> Vec<f64> {
    let mine = runs.iter().filter(|(info, _)| LoadAxis::of(&info.load) == axis);
    let mut values: Vec<f64> = mine.filter_map(|(info, _)| axis.value(&info.load)).collect();
    tokometer_base::sort_numbers(&mut values);
    values.dedup();
    values
}

/// Different values in the order of their first appearance.
pub(super) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The same on one line. `None` without any.
fn listed(values: impl Iterator<Item = String>) -> Option<String> {
    let mut all = distinct(values);
    let more = all.len().saturating_sub(LISTED);
    all.truncate(LISTED);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    (!all.is_empty()).then(|| all.join("; "))
}

fn dates(runs: &[(&RunInfo, &Summary)]) -> Option<String> {
    let started = runs.iter().map(|(info, _)| info.started);
    let (first, last) = (started.clone().min_by_key(|at| at.0)?, started.max_by_key(|at| at.0)?);
    let (first, last) = (date(first), date(last));
    Some(if first == last { first } else { format!("{first} to {last}") })
}

/// Of each target, where there are two.
fn targets(info: &RunInfo, of: fn(&TargetInfo) -> String) -> Option<String> {
    listed(info.targets.iter().map(of))
}

fn model(target: &TargetInfo) -> String {
    target.model.clone()
}

fn server(target: &TargetInfo) -> String {
    if let Some(engine) = target.predicted_engine() {
        return format!("none: predicted from the engine profile {engine}");
    }
    if target.is_simulated {
        return "embedded simulator".to_owned();
    }
    let version = match target.server.as_deref() {
        // Some servers report a bare number.
        Some(version) if version.starts_with(|first: char| first.is_ascii_digit()) => {
            format!("version {version}")
        }
        Some(named) => named.to_owned(),
        None => "version not reported".to_owned(),
    };
    format!("{}, {version}, backend {}", target.base_url, target.backend)
}

fn hardware(summary: &Summary) -> Option<String> {
    let gpu = summary.server.as_ref()?.gpu.as_ref()?;
    Some(format!("{} in use (reported by {})", counted(gpu.devices, "GPU"), gpu.source))
}

fn client(info: &RunInfo) -> Option<String> {
    let text = |key: &str| info.environment.get(key).and_then(Value::as_str).map(str::to_owned);
    let cores = info.environment.get("cores").and_then(Value::as_u64);
    let cores = cores.map(|cores| format!("{cores} cores"));
    let kernel = text("kernel").map(|kernel| format!("Linux {kernel}"));
    let parts: Vec<String> = [text("processor"), cores, kernel].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Mean tokens of a request, as measured; of several runs the least and the most.
fn lengths(runs: &[(&RunInfo, &Summary)]) -> Option<String> {
    let span = |key: &str, word: &str| {
        let mean = |(_, summary): &(&RunInfo, &Summary)| {
            let succeeded = Some(summary.counts.succeeded).filter(|count| *count > 0)? as f64;
            Some(summary.figure(key)? / succeeded)
        };
        let mut means: Vec<f64> = runs.iter().filter_map(mean).collect();
        tokometer_base::sort_numbers(&mut means);
        let (low, high) = (short(*means.first()?), short(*means.last()?));
        Some(if low == high { format!("{low} {word}") } else { format!("{low} to {high} {word}") })
    };
    let parts = [span("total_prompt_tokens", "in"), span("total_output_tokens", "out")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} (mean of a request)", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn a_page_says_where_its_figures_come_from() {
        let (mut info, summary) = (testing::info(), testing::summary());
        info.environment = json!({"processor": "CPU X", "cores": 2, "kernel": "6.1"});
        let mut other = info.clone();
        other.started = WallNanos(info.started.0 + 3_600_000_000_000);
        other.targets[0].server = None;
        let found = facts(&[(&info, &summary), (&other, &summary)], Some(8));
        let value =
            |name: &str| found.iter().find(|one| one.name == name).map(|one| one.value.as_str());
        assert_eq!(value("date"), Some("2025-10-09 08:53:20 UTC to 2025-10-09 09:53:20 UTC"));
        assert_eq!(value("model"), Some("org/model-8b"));
        assert_eq!(
            value("server"),
            Some(
                "http://127.0.0.1:8000, vllm 0.11, backend vllm; http://127.0.0.1:8000, version not reported, backend vllm"
            )
        );
        assert_eq!(value("client"), Some("CPU X, 2 cores, Linux 6.1"));
        assert!(value("hardware").is_some_and(|text| text.starts_with("8 GPUs (as given)")));
        assert!(value("load").is_some_and(|text| text.contains("20 req/s")), "{found:?}");
        assert!(value("tokens").is_some_and(|text| text.contains(" in, ")), "{found:?}");
        assert_eq!(value("measured by"), Some("tokometer 0.1.0"));
    }

    #[test]
    fn the_commands_are_shown_where_all_runs_hold_theirs() {
        let (mut a, b) = (testing::info(), testing::info());
        assert_eq!(command(&[&a]), None);
        a.environment = json!({"command": "tokometer bench"});
        assert_eq!(command(&[&a, &a]).as_deref(), Some("tokometer bench"));
        assert_eq!(command(&[&a, &b]), None);
        let mut c = a.clone();
        c.environment = json!({"command": "tokometer bench --name c"});
        assert_eq!(
            command(&[&a, &c, &a]).as_deref(),
            Some("tokometer bench\ntokometer bench --name c")
        );
    }

    /// A staircase listed the lengths of each of its steps.
    #[test]
    fn lengths_of_several_runs_are_a_span() {
        let (info, one) = (testing::info(), testing::summary());
        let mut other = one.clone();
        other.figures.entry("total_output_tokens".to_owned()).and_modify(|tokens| {
            *tokens = tokens.map(|tokens| 2.0 * tokens);
        });
        let text = lengths(&[(&info, &one), (&info, &other)]).unwrap();
        assert_eq!(text, "1,024 in, 128 to 256 out (mean of a request)");
    }

    #[test]
    fn loads_that_differ_in_one_number_are_listed_once() {
        let summary = testing::summary();
        let with = |cap| {
            let mut info = testing::info();
            (info.load.request_rate, info.load.max_concurrency) = (None, Some(cap));
            info
        };
        let (a, b, rate) = (with(8), with(1), testing::info());
        let runs = [(&a, &summary), (&b, &summary), (&rate, &summary)];
        assert_eq!(title(&runs[..2]), "org/model-8b on vllm 0.11, 1 to 8 in flight");
        assert_eq!(title(&runs[2..]), "org/model-8b on vllm 0.11, 20 req/s");
        let text = loads(&runs).unwrap();
        assert!(text.starts_with("closed loop: 1, 8 in flight; "), "{text}");
        assert!(text.contains("20 req/s"), "{text}");
    }
}
