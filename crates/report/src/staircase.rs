//! A staircase: its table and its answer as text, and the answer of its page.

use std::path::Path;

use tokometer_base::digits::brief;
use tokometer_base::units::counted;
use tokometer_decide::staircase::{StairEnd, StairStep, StaircaseFindings, highest};
use tokometer_figures::{Quantity, Severity, Statistic, Summary, Verdict};

use crate::Style;
use crate::grid::Grid;
use crate::html::PageAnswer;
use crate::summary::fold::folded_at;
use crate::summary::short;
use crate::sweep::{ABSENT, FigureColumn, is_pooled, latency, mark, whole_run};

pub use tokometer_record::stored::STAIRCASE;

/// The columns of a step that generates text. Without a stream there are those of whole answers.
const STREAMED: [FigureColumn; 8] = [
    whole_run("req/s", Quantity::Requests, ""),
    whole_run("tok/s", Quantity::Output, ""),
    latency("per user", Quantity::UserSpeed, Statistic::MEDIAN),
    latency("TTFT p50", Quantity::Ttft, Statistic::MEDIAN),
    latency("p90", Quantity::Ttft, Statistic::P90),
    TTFT_P99,
    latency("TPOT p50", Quantity::Tpot, Statistic::MEDIAN),
    latency("p90", Quantity::Tpot, Statistic::P90),
];
const WHOLE: [FigureColumn; 5] = [
    whole_run("req/s", Quantity::Requests, ""),
    whole_run("tok/s", Quantity::Output, ""),
    latency("E2E p50", Quantity::E2e, Statistic::MEDIAN),
    latency("p90", Quantity::E2e, Statistic::P90),
    E2E_P99,
];
const POOLED: [FigureColumn; 6] = [
    whole_run("req/s", Quantity::Requests, ""),
    whole_run("items/s", Quantity::Items, ""),
    whole_run("tok/s", Quantity::Prompt, ""),
    latency("E2E p50", Quantity::E2e, Statistic::MEDIAN),
    latency("p90", Quantity::E2e, Statistic::P90),
    E2E_P99,
];
const TTFT_P99: FigureColumn = latency("p99", Quantity::Ttft, Statistic::P99);
const E2E_P99: FigureColumn = latency("p99", Quantity::E2e, Statistic::P99);

/// Notes of the screen; the page has all.
const NOTES: usize = 2;

/// The server, the table, the answer and how far to trust it: the same for `bench` and for `report`.
pub fn text(findings: &StaircaseFindings, runs: &[&Summary], style: Style) -> String {
    let step = |(step, run): (&StairStep, &&Summary)| {
        let mut summary = (*run).clone();
        put_throughput(step, &mut summary);
        summary
    };
    let runs: Vec<Summary> = findings.steps.iter().zip(runs).map(step).collect();
    let runs: Vec<&Summary> = runs.iter().collect();
    let table = steps_table(findings, &runs, style);
    let answer = sentence(findings).replace("; ", "\n");
    let trust = trust(findings, &runs).join("\n");
    format!("{}\n\n{table}\n{answer}\n{trust}\n", head(findings))
}

/// A step's throughput is that of the time in which all its slots were taken; its run's counts the first
/// and the last requests as well, which take up more of a short run.
pub(crate) fn put_throughput(step: &StairStep, summary: &mut Summary) {
    let both =
        [(Quantity::Requests, step.requests_per_s), (Quantity::Output, step.output_tokens_per_s)];
    for (quantity, value) in both {
        let old = summary.figure(quantity);
        if let (Some(old), Some(value)) = (old, value) {
            summary.figures.insert(quantity.key().to_owned(), Some(value));
            // An interval is a share of its figure.
            if let Some(interval) = summary.intervals.get_mut(quantity.key()) {
                *interval = interval.times(value / old);
            }
        }
    }
}

/// What is measured, and for how long: on one line where it fits.
fn head(findings: &StaircaseFindings) -> String {
    let StaircaseFindings { server, address, model, workload, .. } = findings;
    let (route, lengths) = workload.split_once(", ").unwrap_or(("", workload));
    let parts = [server.clone(), model.clone(), format!("{address}{route}"), lengths.to_owned()];
    let parts = parts.into_iter().filter(|text| !text.is_empty());
    let parts: Vec<String> = parts.chain([time(findings.budget_s)]).collect();
    folded_at(&parts.join(" · "), 2).join("\n")
}

/// `2 min`, `90 s`.
fn time(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    if minutes >= 1.0 && minutes.fract() == 0.0 {
        format!("{} min", brief(minutes))
    } else {
        format!("{} s", brief(seconds))
    }
}

fn steps_table(findings: &StaircaseFindings, summaries: &[&Summary], style: Style) -> String {
    let has_stream = summaries.iter().any(|one| STREAMED[3].cell(one) != ABSENT);
    let has_answers = summaries.iter().any(|one| WHOLE[2].cell(one) != ABSENT);
    let all: &[FigureColumn] = match () {
        () if is_pooled(summaries) => &POOLED,
        () if has_answers && !has_stream => &WHOLE,
        () => &STREAMED,
    };
    // A column of P99 that no step supports says nothing.
    let is_shown = |column: &&FigureColumn| {
        column.statistic != Some(Statistic::P99)
            || summaries.iter().any(|one| column.is_supported(one))
    };
    let columns: Vec<&FigureColumn> = all.iter().filter(is_shown).collect();
    let has_failures = summaries.iter().any(|one| one.counts.failed > 0);
    let mut grid = Grid::new().right("in flight");
    grid = columns.iter().fold(grid, |grid, column| grid.right(column.head));
    if has_failures {
        grid = grid.right("failed");
    }
    grid = grid.left("");
    for (step, summary) in findings.steps.iter().zip(summaries) {
        let mut cells = vec![step.concurrency.to_string()];
        let cell = |column: &&FigureColumn| match column.statistic {
            Some(Statistic::P99) if !column.is_supported(summary) => ABSENT.to_owned(),
            _ => column.cell(summary),
        };
        cells.extend(columns.iter().map(cell));
        if has_failures {
            cells.push(summary.counts.failed.to_string());
        }
        let verdict = Some(summary.verdict).filter(|verdict| *verdict > Verdict::Valid);
        let (mark, tone) = mark(verdict);
        let mark = verdict.map(|_| style.paint(tone, mark)).unwrap_or_default();
        let knee = if Some(step.concurrency) == findings.knee { "← knee" } else { "" };
        cells.push(format!("{mark} {knee}").trim().to_owned());
        grid.push(cells);
    }
    grid.text()
}

/// `36.1 req/s` and `4,600 tok/s`, as far as they are known.
fn rates(step: &StairStep) -> [Option<String>; 2] {
    let rate = |value: Option<f64>, unit: &str| value.map(|rate| format!("{} {unit}", short(rate)));
    let tokens = step.output_tokens_per_s.filter(|tokens| *tokens > 0.0);
    [rate(step.requests_per_s, "req/s"), rate(tokens, "tok/s")]
}

/// Tokens per second, or requests.
fn throughput(step: &StairStep) -> Option<String> {
    let [requests, tokens] = rates(step);
    tokens.or(requests)
}

/// `128 in flight, 36.1 req/s, 4,600 tok/s`.
fn of_step(step: &StairStep) -> String {
    let [requests, tokens] = rates(step);
    let parts = [Some(format!("{} in flight", step.concurrency)), requests, tokens];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The answer: the best trade-off and the highest throughput seen, or why there is no knee. What follows a
/// semicolon is another line.
pub fn sentence(findings: &StaircaseFindings) -> String {
    let StaircaseFindings { steps, ending, .. } = findings;
    let last = steps.last().map_or(0, |step| step.concurrency);
    let highest = highest(steps);
    let knee = findings.knee.and_then(|knee| steps.iter().find(|step| step.concurrency == knee));
    if let Some(knee) = knee {
        let beyond = match ending {
            StairEnd::Failing => format!("at {last} in flight requests fail"),
            _ => "beyond it requests queue".to_owned(),
        };
        let highest = highest.filter(|one| one.concurrency != knee.concurrency);
        let highest = highest.and_then(|one| Some((throughput(one)?, one.concurrency)));
        let highest = highest.map(|(rate, at)| format!(" (highest seen: {rate} at {at})"));
        let highest = highest.unwrap_or_default();
        return format!("best trade-off: {}; {beyond}{highest}", of_step(knee));
    }
    let seen = highest
        .map_or_else(|| "no knee".to_owned(), |one| format!("highest seen: {}", of_step(one)));
    let why = match ending {
        StairEnd::Failing => format!("no knee: at {last} in flight requests fail"),
        StairEnd::Interrupted => "no knee: interrupted".to_owned(),
        StairEnd::BudgetSpent => {
            "the budget ended before the knee: throughput still grows; raise `--budget`".to_owned()
        }
        StairEnd::Most | StairEnd::Flat => {
            "no knee: throughput still grows at the most that is tried".to_owned()
        }
    };
    format!("{seen}; {why}")
}

/// How far to trust the answer, in a sentence; then the notes of steps that are not VALID.
fn trust(findings: &StaircaseFindings, runs: &[&Summary]) -> Vec<String> {
    let (worst, notes) = judged(findings, runs);
    let at = findings.knee.or(highest(&findings.steps).map(|step| step.concurrency));
    let best = findings.steps.iter().position(|step| Some(step.concurrency) == at);
    let best = best.and_then(|at| runs.get(at));
    let margin = best.and_then(|best| {
        let interval = best.intervals.get(Quantity::Requests.key())?;
        Some(100.0 * interval.margin()? / best.figure(Quantity::Requests)?)
    });
    let has_p99 =
        best.is_some_and(|best| TTFT_P99.is_supported(best) || E2E_P99.is_supported(best));
    let whose =
        if worst > Verdict::Valid && findings.knee.is_some() { " up to the knee" } else { "" };
    let mut parts = vec![format!("{}{whose}", worst.name())];
    parts.extend(margin.map(|margin| format!("throughput ±{} %", brief(margin.ceil()))));
    let time = time(findings.budget_s);
    parts.extend(match (margin, has_p99) {
        (Some(_), true) => None,
        (Some(_), false) => Some(format!("P99 is not measured in {time}")),
        (None, true) => Some(format!("{time} are too short for a ± of throughput")),
        (None, false) => Some(format!("{time} are too short for a ± and for P99")),
    });
    let mut lines = vec![format!("trust: {}", parts.join("; "))];
    lines.extend(notes.iter().take(NOTES).map(|note| format!("  {note}")));
    if notes.len() > NOTES {
        lines.push(format!("  {} more on the page", counted(notes.len() - NOTES, "note")));
    }
    lines
}

fn judged(findings: &StaircaseFindings, runs: &[&Summary]) -> (Verdict, Vec<String>) {
    let until = findings.knee.unwrap_or(u32::MAX);
    let counted = findings.steps.iter().zip(runs);
    let counted: Vec<_> = counted.filter(|(step, _)| step.concurrency <= until).collect();
    let worst = counted.iter().map(|(_, run)| run.verdict).max().unwrap_or_default();
    let mut codes: Vec<(String, Vec<String>)> = Vec::new();
    for (step, run) in &counted {
        let doubts = run.notes.iter().filter(|note| note.severity > Severity::Remark);
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
pub(crate) fn answer(findings: &StaircaseFindings, runs: &[&Summary]) -> PageAnswer {
    let (worst, notes) = judged(findings, runs);
    let sentence = sentence(findings);
    let (headline, rest) = sentence.split_once("; ").unwrap_or((&sentence, ""));
    let lines = [
        Some(rest.to_owned()),
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

#[cfg(test)]
mod tests {
    use tokometer_figures::summary::PercentileValue;
    use tokometer_figures::{ConfidenceInterval, Distribution, Note};

    use super::*;
    use crate::testing;

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
        assert_eq!(answer.headline, "best trade-off: 16 in flight, 17.0 req/s, 2,176 tok/s");
        let expected = [
            "beyond it requests queue (highest seen: 2,240 tok/s at 32)",
            "vLLM 0.26.0: /v1/chat/completions, random prompts",
            "next: `tokometer capacity URL`",
        ];
        assert_eq!(answer.lines, expected);
    }

    #[test]
    fn without_a_knee_the_page_says_why() {
        let spent = answer(&findings(None, StairEnd::BudgetSpent), &[]);
        assert_eq!(spent.tone, "open");
        assert_eq!(spent.headline, "highest seen: 32 in flight, 17.5 req/s, 2,240 tok/s");
        assert!(spent.lines[0].starts_with("the budget ended before the knee"), "{spent:?}");
        assert_eq!(answer(&findings(None, StairEnd::Failing), &[]).tone, "bad");
    }

    fn run(concurrency: u32, verdict: Verdict) -> Summary {
        let rate = 0.9 * f64::from(concurrency);
        let mut summary = Summary { verdict, ..Summary::default() };
        let figures = [(Quantity::Requests, rate), (Quantity::Output, 128.0 * rate)];
        summary.figures = figures.map(|(key, rate)| (key.key().to_owned(), Some(rate))).into();
        let known = ConfidenceInterval::Known { low: 0.96 * rate, high: 1.04 * rate };
        summary.intervals = [(Quantity::Requests.key().to_owned(), known)].into();
        let found = |value: f64| {
            let entry = |percent: f64| PercentileValue {
                percent,
                value: Some(value * percent / 50.0),
                above: None,
                interval: ConfidenceInterval::default(),
                is_supported: percent < 60.0 || (percent < 99.0 && concurrency > 8),
            };
            let percentiles = [50.0, 90.0, 99.0].map(entry).to_vec();
            Distribution { count: 9, percentiles, ..Distribution::default() }
        };
        let latencies =
            [(Quantity::UserSpeed, 105.0), (Quantity::Ttft, 1_234.0), (Quantity::Tpot, 9.5)];
        let latencies = latencies.map(|(key, value)| (key.key().to_owned(), found(value)));
        summary.distributions = latencies.into();
        if verdict > Verdict::Valid {
            summary.notes.push(Note {
                code: "busy-client".to_owned(),
                severity: Severity::Suspect,
                ..testing::summary().notes[0].clone()
            });
        }
        summary
    }

    /// 24 lines of a staircase of eight steps were headed by columns that nobody asked for.
    #[test]
    fn the_screen_is_the_table_the_answer_and_a_sentence_of_trust() {
        let runs = [(8, Verdict::Suspect), (16, Verdict::Valid), (32, Verdict::Valid)];
        let runs = runs.map(|(at, verdict)| run(at, verdict));
        let runs: Vec<&Summary> = runs.iter().collect();
        let text = text(&findings(Some(16), StairEnd::Flat), &runs, Style::default());
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // The throughput is that of the steps, not of their runs.
        assert!(text.contains("17.0") && !text.contains("14.4"), "{text}");
    }
}
