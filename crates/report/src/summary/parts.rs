//! Stages and classes as tables: for a terminal and for the page.

use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::{
    ConfidenceInterval, Part, PartKind, PartSummary, Recovery, Severity, Summary, Verdict,
};

use tokometer_record::RunInfo;

use crate::grid::Grid;
use crate::summary::{short, whole};

/// One row per stage, then one per class, and what follows from them, as lines of a terminal.
pub(crate) fn lines(summary: &Summary, info: &RunInfo) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in [PartKind::Stage, PartKind::Class] {
        let Some(table) = table(summary, info, kind) else { continue };
        lines.push(String::new());
        lines.extend(table.lines());
        let of_kind = summary.parts.iter().filter(|part| part.kind == kind);
        lines.extend(of_kind.filter(|_| !info.is_prediction()).filter_map(doubts));
        if kind == PartKind::Stage {
            lines.extend(summary.recoveries.iter().map(recovery));
        }
    }
    lines.extend(summary.fairness.map(fairness));
    lines
}

pub(crate) fn table(summary: &Summary, info: &RunInfo, kind: PartKind) -> Option<Grid> {
    let parts: Vec<&Part> = summary.parts.iter().filter(|part| part.kind == kind).collect();
    let is_judged = parts.iter().any(|part| part.summary.goodput.is_some());
    let mut grid = Grid::new().left(if kind == PartKind::Stage { "stage" } else { "class" });
    // With the interval and the verdict, as much as a terminal holds.
    let longest = if is_judged { 14 } else { 20 };
    let heads = ["ok", "req/s", "tok/s", "TTFT", "p90", "TPOT"];
    grid = heads.into_iter().fold(grid, Grid::right);
    if is_judged {
        grid = grid.right("goodput");
    }
    // A prediction has nothing that could have been disturbed.
    let is_measured = !info.is_prediction();
    if is_measured {
        grid = grid.left("verdict");
    }
    for part in &parts {
        let run = &part.summary;
        let figure = |key: &str| run.figure(key).map_or_else(|| "-".to_owned(), short);
        let at = |quantity: Quantity, statistic: Statistic| percentile(run, quantity, statistic);
        let share = run.goodput.and_then(|found| found.share);
        let share = share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        let failed = run.counts.failed + run.counts.abandoned;
        let ok = whole(run.counts.succeeded as f64);
        let cells = [
            cut(&part.name, longest),
            if failed > 0 { format!("{ok}/{}", whole(run.counts.sent as f64)) } else { ok },
            figure(Quantity::Requests.key()),
            figure(Quantity::Output.key()),
            at(Quantity::Ttft, Statistic::MEDIAN),
            at(Quantity::Ttft, Statistic::P90) + &range(run),
            at(Quantity::Tpot, Statistic::MEDIAN),
        ];
        let rest = is_judged
            .then_some(share)
            .into_iter()
            .chain(is_measured.then(|| run.verdict.name().to_owned()));
        grid.push(cells.into_iter().chain(rest));
    }
    (!parts.is_empty()).then_some(grid)
}

fn cut(name: &str, longest: usize) -> String {
    let is_long = name.chars().count() > longest;
    let kept = name.chars().take(if is_long { longest - 1 } else { longest });
    kept.chain(is_long.then_some('…')).collect()
}

fn percentile(run: &PartSummary, quantity: Quantity, statistic: Statistic) -> String {
    let found = run.distribution(quantity).zip(statistic.percentile());
    let Some(found) = found.and_then(|(values, one)| values.percentile(one.percent())) else {
        return "-".to_owned();
    };
    let doubt = if found.is_doubtful() { "?" } else { "" };
    match (found.value, found.above) {
        (Some(value), _) => short(value) + doubt,
        (None, Some(above)) => format!("> {}", short(above)),
        (None, None) => "failed".to_owned(),
    }
}

/// The interval of p90 TTFT.
fn range(run: &PartSummary) -> String {
    let found = run.distribution(Quantity::Ttft).and_then(|values| values.percentile(90.0));
    match found.map(|found| found.interval) {
        Some(ConfidenceInterval::Known { low, high }) if high.is_finite() => {
            format!(" ({}–{})", short(low), short(high))
        }
        _ => String::new(),
    }
}

/// Why a part is not VALID.
fn doubts(part: &Part) -> Option<String> {
    let notes = part.summary.notes.iter().filter(|note| note.severity > Severity::Remark);
    let notes: Vec<String> = notes.map(|note| format!("{} ({})", note.found, note.code)).collect();
    (part.summary.verdict != Verdict::Valid && !notes.is_empty())
        .then(|| format!("  {}: {}", part.name, notes.join("; ")))
}

pub(crate) fn recovery(found: &Recovery) -> String {
    let Recovery { spike, limit_ms, after_s, within_s } = found;
    let label = Figure::new(Quantity::Ttft, Statistic::P90).label();
    let text = match (limit_ms, after_s) {
        (None, _) => format!("unknown: {label} of the stage before has no interval"),
        (Some(limit), Some(after)) => {
            format!("{label} was back within {} ms {after:.1} s after it", short(*limit))
        }
        (Some(limit), None) => {
            format!("{label} not within {} ms in the {within_s:.1} s after it", short(*limit))
        }
    };
    format!("recovery     {spike}: {text}")
}

pub(crate) fn fairness(index: f64) -> String {
    format!("fairness     {index:.2} (Jain's index of output tokens per weight; 1 is even)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{info, summary};

    fn part(kind: PartKind, name: &str) -> Part {
        let (weight, output_tokens) = (Some(1.0), Some(10));
        Part {
            kind,
            name: name.to_owned(),
            begin_s: 0.0,
            end_s: 1.0,
            weight,
            output_tokens,
            summary: summary().into(),
        }
    }

    #[test]
    fn stages_and_classes_have_a_row_each_within_a_terminal() {
        let mut run = summary();
        assert!(lines(&run, &info()).is_empty(), "a run without them");
        run.parts =
            vec![part(PartKind::Stage, "2m@5/s"), part(PartKind::Stage, "30s@5..50/s exponential")];
        run.parts.push(part(PartKind::Class, "chat"));
        run.fairness = Some(0.599);
        let recovery = |limit_ms, after_s| Recovery {
            spike: "30s@50/s".to_owned(),
            limit_ms,
            after_s,
            within_s: 40.0,
        };
        run.recoveries = vec![
            recovery(Some(80.0), Some(3.25)),
            recovery(Some(80.0), None),
            recovery(None, None),
        ];
        let text = lines(&run, &info()).join("\n");
        assert!(
            text.lines()
                .filter(|line| line.starts_with("30s@5..5") || line.starts_with("chat"))
                .count()
                == 2
        );
        assert!(text.lines().next_back().unwrap().contains("0.60 (Jain's"), "{text}");
        for words in [
            "back within 80.0 ms 3.2 s after it",
            "not within 80.0 ms in the 40.0 s",
            "unknown: p90 TTFT",
        ] {
            assert!(text.contains(words), "{text}");
        }
        let table = |kind| super::table(&run, &info(), kind).unwrap().lines();
        assert!(table(PartKind::Stage).iter().all(|line| line.chars().count() <= 80), "{text}");
    }
}
