//! What a search for capacity found, as text.

use tokometer_base::digits::digits;
use tokometer_decide::capacity::{Caveat, Findings, MeasuredPoint};
use tokometer_decide::search::PointOutcome;
use tokometer_report::Grid;

/// The points as a table, then the sentence and what the edge delivers.
pub(crate) fn text(findings: &Findings) -> String {
    let mut lines = vec![format!("objectives: {}", findings.slo), String::new()];
    lines.extend(table(findings));
    lines.push(String::new());
    lines.push(format!("capacity: {}", findings.sentence));
    lines.extend(findings.edge().map(|edge| delivered(findings, edge)));
    lines.extend(findings.caveats().iter().map(caveat));
    lines.join("\n") + "\n"
}

fn table(findings: &Findings) -> Vec<String> {
    let objectives: Vec<&str> = findings.slo.split(',').map(str::trim).collect();
    let heads = ["requests", "req/s", "tok/s", "per user"].into_iter();
    let first = Grid::new().right(findings.over.unit()).left("outcome");
    let mut grid = heads.chain(objectives.iter().copied()).fold(first, Grid::right).left("");
    for (point, share) in findings.course() {
        grid.push(row(point, objectives.len(), share));
    }
    grid.lines()
}

fn delivered(findings: &Findings, edge: &MeasuredPoint) -> String {
    let per_gpu = findings.tokens_per_s_per_gpu(edge);
    let per_gpu = per_gpu.map(|tokens| format!(", {} tok/s per GPU", digits(tokens)));
    format!(
        "at {} {}: {} tok/s, {} tok/s per user{}",
        digits(edge.load),
        findings.over.unit(),
        optional(edge.tokens_per_s),
        optional(edge.tokens_per_s_per_user),
        per_gpu.unwrap_or_default()
    )
}

fn caveat(caveat: &Caveat) -> String {
    match caveat {
        Caveat::TooShort { points, of, fewest, needed } => format!(
            "warning: {points} of {of} points near the capacity were too short for their percentiles (down to {fewest} requests, {needed} needed)\n  use a longer `--max-duration`"
        ),
        Caveat::ClientAtLimit { points, of, notes } => format!(
            "warning: at {points} of {of} points near the capacity the client, not the server, was at its limit ({})\n  use a faster client machine, or several machines",
            notes.join(", ")
        ),
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), digits)
}

fn row(point: &MeasuredPoint, objectives: usize, share: f64) -> Vec<String> {
    let fit = match point.fit {
        PointOutcome::Met => "met",
        PointOutcome::Missed => "missed",
        PointOutcome::Overloaded => "overloaded",
        PointOutcome::Failed => "failed",
    };
    let value = |at: usize| match point.objectives.get(at) {
        None => "–".to_owned(),
        Some(one) => {
            let caveat = if one.is_supported { "" } else { "?" };
            format!("{}{caveat}", one.shown.as_deref().unwrap_or("–"))
        }
    };
    let mut cells = vec![
        digits(point.load),
        fit.to_owned(),
        point.requests.to_string(),
        optional(point.requests_per_s),
        optional(point.tokens_per_s),
        optional(point.tokens_per_s_per_user),
    ];
    cells.extend((0..objectives).map(value));
    cells.push(bar(share));
    cells
}

/// A bar of at most twenty cells: the curve of throughput, turned on its side.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 times twenty"
)]
fn bar(share: f64) -> String {
    "▮".repeat((share.clamp(0.0, 1.0) * 20.0).round() as usize)
}

#[cfg(test)]
mod tests {
    use tokometer_decide::capacity::{Ending, LoadKind, ObjectiveAtPoint};
    use tokometer_decide::search::{SearchResult, Use};

    use super::*;

    fn reading(load: f64, fit: PointOutcome) -> MeasuredPoint {
        let judged = |objective: &str, value: f64, limit: f64, unit: &str| ObjectiveAtPoint {
            objective: objective.to_owned(),
            shown: Some(format!("{value:.2} {unit}")),
            value: Some(value),
            is_met: Some(value <= limit),
            allowance: Some(Use { used: value / limit, variance: 0.0 }),
            is_supported: true,
        };
        MeasuredPoint {
            load,
            fit,
            objectives: vec![
                judged("p99 ttft < 2s", load / 6.3, 2.0, "s"),
                judged("p99 tpot < 50ms", 20.0 + load, 50.0, "ms"),
            ],
            requests_per_s: Some(load * 0.99),
            tokens_per_s: Some(load * 128.0),
            tokens_per_s_per_user: Some(61.4),
            requests: 400,
            client_notes: Vec::new(),
            folder: String::new(),
        }
    }

    fn findings(ending: Ending) -> Findings {
        let mut findings = Findings {
            over: LoadKind::RequestRate,
            slo: "p99 ttft < 2s, p99 tpot < 50ms".into(),
            ending,
            sentence: String::new(),
            gpus: Some(2),
            points: vec![
                reading(8.0, PointOutcome::Met),
                reading(16.0, PointOutcome::Overloaded),
                reading(12.0, PointOutcome::Met),
                reading(12.8, PointOutcome::Missed),
            ],
            requests_needed: 368,
        };
        findings.sentence = findings.sentence();
        findings
    }

    fn found() -> Ending {
        Ending::Answered(SearchResult::Found {
            load: 12.41,
            margin: 0.27,
            objective: Some(0),
            highest_met: 12.0,
            lowest_missed: 12.8,
        })
    }

    #[test]
    fn the_answer_is_one_sentence_with_its_uncertainty() {
        insta::assert_snapshot!(text(&findings(found())), @r#"
        objectives: p99 ttft < 2s, p99 tpot < 50ms

        req/s  outcome     requests  req/s  tok/s  per user  p99 ttft < 2s  p99 tpot < 50ms
         8.00  met              400   7.92   1024     61.40         1.27 s         28.00 ms  ▮▮▮▮▮▮▮▮▮▮
        12.00  met              400  11.88   1536     61.40         1.90 s         32.00 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
        12.80  missed           400  12.67   1638     61.40         2.03 s         32.80 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮
        16.00  overloaded       400  15.84   2048     61.40         2.54 s         36.00 ms  ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮

        capacity: 12.4 ± 0.3 req/s (p99 ttft 1.90 s < 2s)
        at 12.00 req/s: 1536 tok/s, 61.40 tok/s per user, 768.0 tok/s per GPU
        "#);
    }

    #[test]
    fn short_points_and_a_client_at_its_limit_are_said() {
        let mut doubtful = findings(found());
        doubtful.points[2].objectives[0].is_supported = false;
        doubtful.points[2].requests = 90;
        doubtful.points[3].client_notes = vec!["late-sends".into()];
        let text = text(&doubtful);
        let caveats: Vec<&str> =
            text.lines().skip_while(|line| !line.starts_with("warning")).collect();
        insta::assert_snapshot!(caveats.join("\n"), @"
        warning: 1 of 2 points near the capacity were too short for their percentiles (down to 90 requests, 368 needed)
          use a longer `--max-duration`
        warning: at 1 of 2 points near the capacity the client, not the server, was at its limit (late-sends)
          use a faster client machine, or several machines
        ");
    }
}
