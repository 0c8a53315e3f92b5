//! What a run shows of its objectives: a line for each, with the interval that decides.

use tokometer_base::digits::{brief, digits};
use tokometer_decide::Slo;
use tokometer_decide::slo::{Objective, ObjectiveOutcome, ObjectiveResult};
use tokometer_figures::define::Unit;
use tokometer_figures::{NoInterval, Summary, Verdict};
use tokometer_record::RunInfo;

use crate::grid::TERMINAL;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectiveLine {
    pub outcome: ObjectiveOutcome,
    /// `fail         goodput 97.20 % > 99 %   (96.10 to 98.00)`.
    pub text: String,
}

/// A line per objective, in the order typed.
pub fn objective_lines(slo: &Slo, summary: &Summary, info: &RunInfo) -> Vec<ObjectiveLine> {
    let results = slo.results(summary);
    let both: Vec<(&Objective, &ObjectiveResult)> = slo.objectives.iter().zip(&results).collect();
    let values: Vec<String> = both.iter().map(|(one, found)| value(one, found)).collect();
    let width = values.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let line = |((objective, found), value): (&(&Objective, &ObjectiveResult), &String)| {
        let interval = interval(objective, found);
        let remedy = match found.outcome {
            ObjectiveOutcome::CannotTell => remedy(objective, found, summary, info),
            _ => None,
        };
        let mut text = format!("{:<12} {value:<width$}   ({interval})", word(found.outcome));
        if let Some(words) = remedy {
            // What would tell may be copied, and stays in one piece.
            let has_room = text.chars().count() + 2 + words.chars().count() <= TERMINAL;
            let gap = if has_room { " ".to_owned() } else { format!("\n{:13}", "") };
            text = format!("{text}:{gap}{words}");
        }
        ObjectiveLine { outcome: found.outcome, text }
    };
    both.iter().zip(&values).map(line).collect()
}

fn word(outcome: ObjectiveOutcome) -> &'static str {
    match outcome {
        ObjectiveOutcome::Pass => "pass",
        ObjectiveOutcome::CannotTell => "cannot tell",
        ObjectiveOutcome::Fail => "fail",
    }
}

/// A number in the unit that people read.
fn shown(objective: &Objective, value: f64) -> f64 {
    if objective.figure.unit() == Unit::Share { 100.0 * value } else { value }
}

/// `p99 ttft 448.0 ms < 500 ms`.
fn value(objective: &Objective, found: &ObjectiveResult) -> String {
    let unit = match objective.figure.unit() {
        Unit::Share => " %".to_owned(),
        unit => format!(" {}", unit.name()),
    };
    let value = match (found.value, found.is_met) {
        (Some(value), _) => format!("{}{unit}", digits(shown(objective, value))),
        (None, Some(false)) => "∞".to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let at = objective.text.find(['<', '>']).unwrap_or(objective.text.len());
    let (name, limit) = objective.text.split_at(at);
    let relation: String = limit.chars().take_while(|sign| "<>=".contains(*sign)).collect();
    format!("{} {value} {relation} {}{unit}", name.trim(), brief(shown(objective, found.limit)))
}

fn interval(objective: &Objective, found: &ObjectiveResult) -> String {
    let Some(low) = found.low else {
        return match found.no_interval {
            Some(NoInterval::TooShort) => "no interval: too short",
            Some(NoInterval::Burst) => "a burst is one observation",
            Some(NoInterval::FewSamples) => "no interval: too few",
            Some(NoInterval::Failures) | None => "among failed requests",
        }
        .to_owned();
    };
    let high = found.high.map_or("∞".to_owned(), |high| digits(shown(objective, high)));
    format!("{} to {high}", digits(shown(objective, low)))
}

/// What would make the run tell.
fn remedy(
    objective: &Objective,
    found: &ObjectiveResult,
    summary: &Summary,
    info: &RunInfo,
) -> Option<String> {
    let verdict = summary.figure_verdicts.get(&objective.figure.key());
    if verdict.is_some_and(|found| found.verdict == Verdict::Invalid) {
        return Some("the figure is INVALID".to_owned());
    }
    let needed = objective.requests_needed(found, summary.counts.sent)?;
    Some(match info.load.duration {
        None => format!("add `-n {needed}`"),
        Some(_) => format!("about {needed} requests would tell"),
    })
}

#[cfg(test)]
mod tests {
    use tokometer_figures::ConfidenceInterval;

    use super::*;
    use crate::testing::{info, summary};

    #[test]
    fn each_objective_has_a_line_with_the_interval_that_decides() {
        let mut summary = summary();
        summary.figure_verdicts.clear();
        let mut put = |key: &str, interval: ConfidenceInterval| {
            let found = summary.distributions.get_mut(key).unwrap();
            found.infinite = 0;
            let p99 = found.percentiles.iter_mut().find(|one| one.percent > 98.9).unwrap();
            (p99.value, p99.is_supported, p99.interval) = (Some(448.0), true, interval);
        };
        put("ttft_ms", ConfidenceInterval::Known { low: 402.0, high: 489.0 });
        put("tpot_ms", ConfidenceInterval::Known { low: 430.0, high: 460.0 });
        put("e2e_ms", ConfidenceInterval::default());
        let _ = summary.figures.insert("goodput_share".to_owned(), Some(0.972));
        let known = ConfidenceInterval::Known { low: 0.961, high: 0.98 };
        let _ = summary.intervals.insert("goodput_share".to_owned(), known);
        summary.counts.sent = 100;
        let mut info = info();
        info.load.duration = None;
        let text = "p99 ttft < 500ms, p99 tpot<=450 ms, p99 e2e < 1s, goodput > 99%";
        let lines = objective_lines(&Slo::parse(text).unwrap(), &summary, &info);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "pass         p99 ttft 448.0 ms < 500 ms    (402.0 to 489.0)",
                "cannot tell  p99 tpot 448.0 ms <= 450 ms   (430.0 to 460.0): add `-n 3600`",
                "cannot tell  p99 e2e 448.0 ms < 1000 ms    (no interval: too few): add `-n 370`",
                "fail         goodput 97.20 % > 99 %        (96.10 to 98.00)",
            ]
        );
        info.load.duration = Some(tokometer_base::Nanos::from_secs(60));
        let lines = objective_lines(&Slo::parse(text).unwrap(), &summary, &info);
        assert!(
            lines[2].text.ends_with(":\n             about 370 requests would tell"),
            "{lines:?}"
        );
    }
}
