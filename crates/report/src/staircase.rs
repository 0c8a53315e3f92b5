//! A staircase: its table and its knee as text, and the answer of its page.

use std::path::Path;

use tokometer_base::digits::digits;
use tokometer_decide::staircase::{StairEnd, StairStep, StaircaseFindings};
use tokometer_figures::{Severity, Verdict};

use crate::Style;
use crate::html::PageAnswer;
use crate::saved::SummarisedRun;
use crate::sweep::{SweepEntry, stairs_text};

pub use tokometer_record::stored::STAIRCASE;

/// The server, the table, the knee and the verdict: the same for `bench` and for `report`.
pub fn text(findings: &StaircaseFindings, runs: &[&SummarisedRun], style: Style) -> String {
    let StaircaseFindings { server, address, model, workload, .. } = findings;
    let entry = |run: &&SummarisedRun| SweepEntry::new(run.info.name.clone(), run);
    let entries: Vec<SweepEntry> = runs.iter().map(entry).collect();
    format!(
        "{server} at {address}, model {model}\n{workload}\n\n{}\n{}\n{}",
        stairs_text(&entries, style),
        findings.sentence(),
        verdict(findings, runs)
    )
}

/// The worst verdict of a step up to the knee, with the notes that led to it.
fn verdict(findings: &StaircaseFindings, runs: &[&SummarisedRun]) -> String {
    let (worst, notes) = judged(findings, runs);
    let whose = if findings.knee.is_some() { " up to the knee" } else { "" };
    let mut lines = vec![format!("verdict{whose}: {}", worst.name())];
    lines.extend(notes.iter().map(|note| format!("  {note}")));
    lines.join("\n") + "\n"
}

fn judged(findings: &StaircaseFindings, runs: &[&SummarisedRun]) -> (Verdict, Vec<String>) {
    let until = findings.knee.unwrap_or(u32::MAX);
    let counted = findings.steps.iter().zip(runs);
    let counted: Vec<_> = counted.filter(|(step, _)| step.concurrency <= until).collect();
    let worst = counted.iter().map(|(_, run)| run.summary.verdict).max().unwrap_or_default();
    let mut codes: Vec<(String, Vec<String>)> = Vec::new();
    for (step, run) in &counted {
        let doubts = run.summary.notes.iter().filter(|note| note.severity > Severity::Remark);
        for note in doubts {
            let flights = step.concurrency.to_string();
            match codes.iter_mut().find(|(code, _)| *code == note.code) {
                Some((_, at)) => at.push(flights),
                None => codes.push((note.code.clone(), vec![flights])),
            }
        }
    }
    codes.retain(|_| worst > Verdict::Valid);
    (worst, codes.iter().map(|(code, at)| format!("{code} at {}", at.join(", "))).collect())
}

/// The command to go on with, on a line of its own; nothing where no step succeeded.
pub fn next_line(findings: &StaircaseFindings) -> String {
    findings.next.as_ref().map(|next| format!("next: {next}\n")).unwrap_or_default()
}

/// The findings in a folder; `None` where it holds no staircase.
pub fn read(folder: &Path) -> Option<StaircaseFindings> {
    let text = std::fs::read(folder.join(STAIRCASE)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The knee in large letters, then what to know with it and the next command.
pub(crate) fn answer(findings: &StaircaseFindings, runs: &[&SummarisedRun]) -> PageAnswer {
    let (worst, notes) = judged(findings, runs);
    let sentence = findings.sentence();
    let (headline, rest) = sentence.split_once("; ").unwrap_or((&sentence, ""));
    let knee = findings.steps.iter().find(|step| Some(step.concurrency) == findings.knee);
    let lines = [
        Some(rest.to_owned()),
        knee.map(throughput),
        Some(format!("{}: {}", findings.server, findings.workload)),
        findings.next.as_ref().map(|next| format!("next: `{next}`")),
    ];
    PageAnswer {
        tone: match (findings.knee, findings.ending) {
            (Some(_), _) if worst > Verdict::Valid => "open",
            (Some(_), _) => "good",
            (None, StairEnd::Failing) => "bad",
            (None, _) => "open",
        },
        headline: headline.to_owned(),
        lines: lines.into_iter().flatten().filter(|line| !line.is_empty()).collect(),
        trust: (!runs.is_empty()).then(|| (worst, notes.join("; "))),
    }
}

fn throughput(knee: &StairStep) -> String {
    let rate =
        |value: Option<f64>, unit: &str| value.map(|rate| format!("{} {unit}", digits(rate)));
    let parts =
        [rate(knee.requests_per_s, "req/s"), rate(knee.output_tokens_per_s, "output tok/s")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("at the knee: {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(knee: Option<u32>, ending: StairEnd) -> StaircaseFindings {
        let step = |concurrency: u32, rate: f64| StairStep {
            concurrency,
            requests_per_s: Some(rate),
            output_tokens_per_s: Some(128.0 * rate),
            e2e_s: Some(1.0),
            succeeded: 40,
            failed: 0,
        };
        StaircaseFindings {
            server: "vLLM 0.26.0".to_owned(),
            address: "http://127.0.0.1:8000".to_owned(),
            model: "m".to_owned(),
            workload: "/v1/chat/completions, random prompts".to_owned(),
            budget_s: 120.0,
            ending,
            knee,
            next: Some("tokometer capacity URL".to_owned()),
            steps: vec![step(8, 9.5), step(16, 17.0), step(32, 17.5)],
        }
    }

    /// The page of a bare address had charts alone; its answer was only on the terminal.
    #[test]
    fn the_page_begins_with_the_knee_and_names_the_next_command() {
        let answer = answer(&findings(Some(16), StairEnd::Flat), &[]);
        assert_eq!(answer.tone, "good");
        assert_eq!(answer.headline, "knee: 16 in flight reach 97 % of the highest throughput");
        let expected = [
            "more only wait longer",
            "at the knee: 17.00 req/s, 2176 output tok/s",
            "vLLM 0.26.0: /v1/chat/completions, random prompts",
            "next: `tokometer capacity URL`",
        ];
        assert_eq!(answer.lines, expected);
    }

    #[test]
    fn without_a_knee_the_page_says_why() {
        let spent = answer(&findings(None, StairEnd::BudgetSpent), &[]);
        assert_eq!(spent.tone, "open");
        assert!(spent.headline.starts_with("no knee: still growing at 32"), "{spent:?}");
        assert_eq!(answer(&findings(None, StairEnd::Failing), &[]).tone, "bad");
    }
}
