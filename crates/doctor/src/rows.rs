//! Blocks of one file against each other, and the stated prompt length.

use crate::rule::{Finding, Level, Rule};
use crate::stated;
use tokometer_compat::model::{Field, Metric, Report, Stat};

/// A figure that falls by less than this while the load grows is noise.
const NOISE: f64 = 0.05;

/// Findings about single blocks, with their index, that need the others to be seen.
pub(crate) fn row_findings(reports: &[Report]) -> Vec<(usize, Finding)> {
    let mut found = Vec::new();
    for (index, pair) in reports.windows(2).enumerate() {
        if !is_next_row(&pair[0], &pair[1]) {
            continue;
        }
        found.extend(falling_throughput(&pair[0], &pair[1]).map(|finding| (index + 1, finding)));
        found.extend(falling_latency(&pair[0], &pair[1]).map(|finding| (index, finding)));
    }
    found
}

/// Whether `next` is the next row of one sweep: the same words above, prompts of the same length,
/// and more requests.
fn is_next_row(row: &Report, next: &Report) -> bool {
    let prompt = |report: &Report| {
        Some(report.number(Field::InputTokens)? / report.number(Field::Successful)?)
    };
    let is_same_length =
        prompt(row).zip(prompt(next)).is_some_and(|(one, other)| (one / other - 1.0).abs() < 0.1);
    next.context.ordinal == row.context.ordinal + 1
        && is_same_length
        && row.number(Field::Successful) < next.number(Field::Successful)
}

/// Compared by all tokens, so that shorter answers in one row do not look like a slower server.
fn falling_throughput(row: &Report, next: &Report) -> Option<Finding> {
    let before = row.number(Field::TotalThroughput)?;
    let after = next.number(Field::TotalThroughput)?;
    (after < before * (1.0 - NOISE)).then(|| {
        let what = format!(
            "total throughput falls from {before:.2} to {after:.2} tok/s as requests grow from {} to {}",
            row.number(Field::Successful).unwrap_or_default(),
            next.number(Field::Successful).unwrap_or_default()
        );
        let meaning = "engine steps became more expensive at this batch size, or something disturbed this row";
        Finding::new(Level::Remark, Rule::RISING_WITH_LOAD, what, meaning)
    })
}

fn falling_latency(row: &Report, next: &Report) -> Option<Finding> {
    let falls = |metric: Metric, name: &'static str| {
        let before = row.latency(metric, Stat::Mean)?;
        let after = next.latency(metric, Stat::Mean)?;
        (before > after * (1.0 + NOISE)).then_some((name, before, after))
    };
    let (name, before, after) =
        falls(Metric::Ttft, "TTFT").or_else(|| falls(Metric::Tpot, "TPOT"))?;
    let what =
        format!("mean {name} {before:.2} ms, but {after:.2} ms in the next row with more requests");
    let meaning = "this row includes a single stall (lazy initialisation, a cold cache); the load \
                   alone does not explain it";
    Some(Finding::new(Level::Misleading, Rule::RISING_WITH_LOAD, what, meaning))
}

pub(crate) fn file_findings(reports: &[Report]) -> Vec<Finding> {
    stated_length(reports).into_iter().chain(quantum(reports)).collect()
}

fn stated_length(reports: &[Report]) -> Option<Finding> {
    let off = |report: &&Report| {
        let length = stated::prompt_tokens(report)?;
        let counted = report.number(Field::InputTokens)? / report.number(Field::Successful)?;
        let is_off = !(length.lowest..=length.highest).contains(&counted);
        is_off.then_some((length.stated, counted))
    };
    let found: Vec<(f64, f64)> = reports.iter().filter_map(|report| off(&report)).collect();
    let (stated, counted) = found.first()?;
    let what = format!(
        "{} of {} blocks have prompts of about {counted:.0} tokens, {stated} are stated",
        found.len(),
        reports.len()
    );
    let meaning = "the command line or setting above the blocks is not the one that produced them";
    Some(Finding::new(Level::Misleading, Rule::STATED_LENGTH, what, meaning))
}

const QUANTUM_MS: f64 = 100.0;
/// How far above a multiple a gap may lie and still count as waiting for it.
const REACH_MS: f64 = 12.0;

/// Whether long gaps gather just above multiples of 100 ms, as they do when something polls.
fn quantum(reports: &[Report]) -> Option<Finding> {
    let stats = [Stat::Median, Stat::P99];
    let gaps: Vec<f64> = reports
        .iter()
        .flat_map(|report| stats.map(|stat| report.latency(Metric::Itl, stat)))
        .flatten()
        .filter(|gap| *gap > 1.5 * QUANTUM_MS)
        .collect();
    let near = gaps.iter().filter(|gap| *gap % QUANTUM_MS <= REACH_MS).count();
    let expected = gaps.len() as f64 * REACH_MS / QUANTUM_MS;
    let deviation = (expected * (1.0 - REACH_MS / QUANTUM_MS)).sqrt();
    // Five standard deviations: one file in a million by chance.
    (gaps.len() >= 8 && near as f64 > expected + 5.0 * deviation).then(|| {
        let what = format!(
            "{near} of {} long ITL medians and P99s lie within {REACH_MS} ms above a multiple of \
             {QUANTUM_MS} ms; {expected:.0} are expected by chance",
            gaps.len()
        );
        let meaning = "something between engine and client polls every 100 ms";
        Finding::new(Level::Remark, Rule::QUANTUM, what, meaning)
    })
}
