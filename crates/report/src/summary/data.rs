//! The summary for programs: JSON and CSV.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokometer_base::Seed;
use tokometer_decide::slo::ObjectiveResult;
use tokometer_figures::Summary;
use tokometer_figures::figure::{self, Statistic};
use tokometer_record::{RecordedLoad, RunInfo, Sharding, TargetInfo};

/// The run and everything said about it: what `--format json` prints and `summary.json` holds. Missing
/// values are null.
#[derive(Debug, Serialize, Deserialize)]
pub struct SummaryFile<'a> {
    tokometer: ProgramFacts,
    run: RunFacts<'a>,
    summary: Cow<'a, Summary>,
    /// What the run shows of each objective of `--slo`; absent without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    objectives: Vec<ObjectiveResult>,
}

/// The program that measured.
#[derive(Debug, Serialize, Deserialize)]
struct ProgramFacts {
    version: String,
    /// Version of the record's format.
    schema: u32,
}

/// What is known of the run besides its figures.
#[derive(Debug, Serialize, Deserialize)]
struct RunFacts<'a> {
    name: String,
    /// Nanoseconds since 1970.
    started_unix_ns: u64,
    seed: Seed,
    targets: Cow<'a, [TargetInfo]>,
    /// Whether a target is the embedded simulator or a prediction.
    is_simulated: bool,
    load: Cow<'a, RecordedLoad>,
    dataset: String,
    tokenizer: Option<String>,
    /// Messages from the preparation.
    remarks: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sharding: Option<Cow<'a, Sharding>>,
}

pub fn summary_json(summary: &Summary, info: &RunInfo, objectives: Vec<ObjectiveResult>) -> Value {
    json!(SummaryFile {
        tokometer: ProgramFacts { version: info.version.clone(), schema: info.schema },
        run: RunFacts {
            name: info.name.clone(),
            started_unix_ns: info.started.0,
            seed: info.seed,
            targets: Cow::Borrowed(&info.targets),
            is_simulated: info.targets.iter().any(|target| target.is_simulated),
            load: Cow::Borrowed(&info.load),
            dataset: info.dataset.clone(),
            tokenizer: info.tokenizer.clone(),
            remarks: Cow::Borrowed(&info.remarks),
            sharding: info.sharding.as_ref().map(Cow::Borrowed),
        },
        summary: Cow::Borrowed(summary),
        objectives,
    })
}

/// One line per number: key, statistic, value. A missing value is an empty cell.
pub fn summary_csv(summary: &Summary) -> String {
    let mut rows = vec![row("key", "statistic", "value")];
    let cell = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let counts = summary.counts;
    for (key, count) in [
        ("planned", counts.planned),
        ("sent", counts.sent),
        ("succeeded", counts.succeeded),
        ("failed", counts.failed),
        ("cancelled", counts.cancelled),
        ("abandoned", counts.abandoned),
        ("never_sent", counts.never_sent),
    ] {
        rows.push(row(key, "count", &count.to_string()));
    }
    rows.push(row("duration_s", "value", &cell(summary.duration_s)));
    for (key, value) in &summary.figures {
        rows.push(row(key, "value", &cell(*value)));
    }
    for (key, distribution) in &summary.distributions {
        rows.push(row(key, "count", &distribution.count.to_string()));
        for (statistic, value) in [
            (Statistic::Mean, distribution.mean),
            (Statistic::Std, distribution.std),
            (Statistic::Min, distribution.min),
            (Statistic::Max, distribution.max),
        ] {
            rows.push(row(key, &statistic.to_string(), &cell(value)));
        }
        for percentile in &distribution.percentiles {
            let statistic = figure::Percentile::from_percent(percentile.percent)
                .map_or(Statistic::Whole, Statistic::Percentile);
            rows.push(row(key, &statistic.to_string(), &cell(percentile.value)));
        }
    }
    rows.push(row("verdict", "value", summary.verdict.name()));
    rows.concat()
}

/// Keys and numbers need no quotes: none of them holds a comma.
fn row(key: &str, statistic: &str, value: &str) -> String {
    format!("{key},{statistic},{value}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{info, summary};

    #[test]
    fn our_own_json_has_null_for_what_is_missing_and_says_the_target() {
        let (summary, mut info) = (summary(), info());
        info.targets[0].is_simulated = true;
        let page: Value = summary_json(&summary, &info, Vec::new());
        assert_eq!(page["run"]["is_simulated"], true);
        assert_eq!(page["summary"]["figures"]["goodput_share"], Value::Null);
        assert_eq!(page["summary"]["verdict"], "SUSPECT");
    }

    #[test]
    fn csv_has_one_number_per_line() {
        let text = summary_csv(&summary());
        assert!(text.starts_with("key,statistic,value\nplanned,count,1000\n"), "{text}");
        assert!(
            text.contains("\nttft_ms,p50,135.225\nttft_ms,p90,225.375\nttft_ms,p99,\n"),
            "{text}"
        );
        assert!(text.contains("\ngoodput_share,value,\n"));
        assert!(text.lines().all(|line| line.split(',').count() == 3));
    }
}
