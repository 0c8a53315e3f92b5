//! The page of a capacity search: the answer, then the points that it comes from.

use std::path::Path;

use serde_json::{Value, json};
use tokometer_base::Refusal;
use tokometer_base::digits::digits;
use tokometer_base::units::counted;
use tokometer_decide::Slo;
use tokometer_decide::capacity::{Ending, Findings, MeasuredPoint};
use tokometer_decide::search::{PointOutcome, SearchResult};
use tokometer_figures::Summary;
use tokometer_record::RunInfo;

use super::text::{caveat, delivered, outcome};
use crate::html::{
    Band, Chart, ChartAxis, ChartGroup, ChartPoint, LimitLine, Of, Page, PageAnswer, PageFact,
    PageNote, PointMark, Price, RunPage, Scale, Series, Table, command, doubt, facts, graver,
    title,
};
use crate::quoted;
use crate::reading::Reading;
use crate::saved::{RunView, SummarisedRun};

pub use tokometer_record::stored::CAPACITY;

/// Loads within this factor of each other are close.
const CLOSE: f64 = 3.0;

pub fn found(folder: &Path) -> bool {
    folder.join(CAPACITY).is_file()
}

pub fn read(folder: &Path) -> Result<Findings, Refusal> {
    let path = folder.join(CAPACITY);
    let unreadable =
        |why: String| Refusal::usage(format!("cannot read `{}`: {why}", path.display()), "");
    let text = std::fs::read_to_string(&path).map_err(|why| unreadable(why.to_string()))?;
    serde_json::from_str(&text).map_err(|why| unreadable(why.to_string()))
}

/// One point with its run, where that can still be read.
struct PagePoint<'a> {
    point: &'a MeasuredPoint,
    run: Option<SummarisedRun>,
    name: String,
}

/// The page of a search whose points are below `folder`.
pub fn page(
    reading: Reading,
    findings: &Findings,
    folder: &Path,
    view: &RunView,
    price: Option<&Price>,
) -> Page {
    let slo = Slo::parse(&findings.slo).unwrap_or_default();
    let view = &view.clone().with_objectives(&slo);
    let points: Vec<PagePoint<'_>> = findings
        .course()
        .into_iter()
        .map(|(point, _)| PagePoint {
            point,
            // A point that failed may have no run.
            run: run_folder(folder, point).and_then(|run| reading.summarise(&run, view).ok()),
            name: format!("{} {}", findings.over.text(point.sent()), findings.over.unit()),
        })
        .collect();
    let runs: Vec<(&RunInfo, &Summary)> = points
        .iter()
        .filter_map(|one| one.run.as_ref().map(|run| (&run.info, &run.summary)))
        .collect();
    let infos: Vec<&RunInfo> = runs.iter().map(|(info, _)| *info).collect();
    let mut page = Page {
        title: format!("Capacity: {}", title(&runs)),
        answer: Some(answer(findings, price)),
        notes: notes(findings),
        facts: origin(findings, &runs),
        command: Some(command(&infos).unwrap_or_else(|| repeat(findings, folder))),
        overview: Some(table(findings, &points)),
        groups: vec![ChartGroup {
            title: "Objectives over load".to_owned(),
            charts: charts(findings, &points),
        }],
        ..Page::default()
    };
    for PagePoint { run, name, .. } in &points {
        let part = run.as_ref().map(|run| RunPage::new(name, &run.info, &run.summary));
        page.cards.extend(part.as_ref().map(RunPage::card));
        page.runs.extend(part);
    }
    page
}

/// Where a point's run is: below the folder of the search, wherever that was moved to.
fn run_folder(folder: &Path, point: &MeasuredPoint) -> Option<std::path::PathBuf> {
    Path::new(&point.folder).file_name().map(|name| folder.join(name)).filter(|run| run.is_dir())
}

/// The sentence: the load with its interval, and what follows.
fn parts(findings: &Findings) -> (&str, &str) {
    let sentence = findings.sentence.as_str();
    let end = [" (", "; ", ": "].iter().filter_map(|mark| sentence.find(mark)).min();
    sentence.split_at(end.unwrap_or(sentence.len()))
}

/// The first part of the sentence large, the rest below.
fn answer(findings: &Findings, price: Option<&Price>) -> PageAnswer {
    let (headline, rest) = parts(findings);
    let rest = rest.trim_start_matches([';', ':', ' ']);
    let rest = rest.strip_prefix('(').map_or(rest.to_owned(), |rest| rest.replacen(')', "", 1));
    let mut lines = vec![format!("objectives: {}", findings.slo)];
    lines.extend((!rest.is_empty()).then_some(rest));
    lines.extend(findings.behind());
    lines.extend(findings.edge().map(|edge| delivered(findings, edge)));
    lines.extend(price.and_then(|price| cost(findings, price)));
    let tone = match &findings.ending {
        // An estimate that no run confirmed is no answer to rely on.
        Ending::Answered(SearchResult::Found { .. }) if findings.held.is_none() => "open",
        Ending::Answered(SearchResult::Found { .. } | SearchResult::LimitedByMost { .. }) => "good",
        Ending::Answered(SearchResult::NoneMeets { .. }) => "bad",
        _ => "open",
    };
    PageAnswer { tone, headline: headline.to_owned(), lines, trust: None }
}

/// What output tokens cost at the point nearest to the answer. `None` without a number of GPUs.
fn cost(findings: &Findings, price: &Price) -> Option<String> {
    let edge = findings.edge()?;
    let cost = price.per_million(findings.tokens_per_s_per_gpu(edge)?)?;
    let (load, unit) = (findings.over.text(edge.sent()), findings.over.unit());
    let (currency, gpus) = (price.currency(), findings.gpus?);
    let gpus = counted(gpus, "GPU");
    let cost = digits(cost);
    Some(format!(
        "at {load} {unit}: {currency}{cost} per million output tokens ({gpus} at {} each)",
        price.text()
    ))
}

fn notes(findings: &Findings) -> Vec<PageNote> {
    let caveats = findings.caveats();
    let note = |text: String| PageNote {
        severity: "suspect",
        code: "warning".to_owned(),
        text: text.trim_start_matches("warning: ").replace("\n  ", "; "),
    };
    caveats.iter().map(|one| note(caveat(one))).collect()
}

fn origin(findings: &Findings, runs: &[(&RunInfo, &Summary)]) -> Vec<PageFact> {
    let loads = findings.points.iter().map(MeasuredPoint::sent);
    let (low, high) = (loads.clone().fold(f64::INFINITY, f64::min), loads.fold(0.0, f64::max));
    let mut facts = facts(runs, findings.gpus);
    for fact in facts.iter_mut().filter(|fact| fact.name == "load") {
        let (count, unit) = (findings.points.len(), findings.over.unit());
        let (low, high) = (findings.over.text(low), findings.over.text(high));
        fact.value = match count {
            0 => "no points".to_owned(),
            1 => format!("1 point at {low} {unit}"),
            _ if low == high => format!("{count} points at {low} {unit}"),
            _ => format!("{count} points from {low} to {high} {unit}"),
        };
    }
    facts
}

/// The command for a search whose runs do not hold the one that made them.
fn repeat(findings: &Findings, folder: &Path) -> String {
    let over = match findings.over {
        tokometer_decide::capacity::LoadKind::RequestRate => "request-rate",
        tokometer_decide::capacity::LoadKind::Concurrency => "concurrency",
        tokometer_decide::capacity::LoadKind::Sessions => "sessions",
    };
    let first = findings.points.first().and_then(|point| run_folder(folder, point));
    let plan = first.map(|run| {
        let plan = run.join(tokometer_record::folder::names::PLAN);
        format!(" --plan {}", quoted(&plan.display().to_string()))
    });
    format!(
        "tokometer capacity --slo {} --over {over}{}",
        quoted(&findings.slo),
        plan.unwrap_or_default()
    )
}

fn objectives(findings: &Findings) -> Vec<String> {
    findings.slo.split(',').map(|text| text.trim().to_owned()).collect()
}

fn table(findings: &Findings, points: &[PagePoint<'_>]) -> Table {
    let objectives = objectives(findings);
    let has_tokens = has_tokens(points);
    let tokens: &[&str] = if has_tokens { &["tok/s", "tok/s per user"] } else { &[] };
    let heads =
        ["load", "outcome", "requests", "served per s"].into_iter().chain(tokens.iter().copied());
    let columns = heads.map(str::to_owned).chain(objectives.iter().cloned());
    let rounded = |value: Option<f64>| json!(value.map(|value| (value * 100.0).round() / 100.0));
    let row = |(index, one): (usize, &PagePoint<'_>)| {
        let PagePoint { point, name, .. } = one;
        let mut cells = vec![
            match run_index(points, index) {
                Some(run) => json!({"run": run, "text": name}),
                None => json!({"text": name}),
            },
            json!({"text": outcome(point)}),
            json!(point.requests),
            rounded(point.requests_per_s),
        ];
        if has_tokens {
            cells.push(rounded(point.tokens_per_s));
            cells.push(rounded(point.tokens_per_s_per_user));
        }
        cells.extend((0..objectives.len()).map(|at| match point.objectives.get(at) {
            Some(one) => json!({
                "value": one.shown,
                "outcome": match (one.is_met, one.is_supported) {
                    (_, false) => "too few requests",
                    (Some(true), true) => "met",
                    (Some(false), true) => "missed",
                    (None, true) => "unknown",
                },
            }),
            None => Value::Null,
        }));
        cells
    };
    Table { columns: columns.collect(), rows: points.iter().enumerate().map(row).collect() }
}

/// Whether answers have tokens: vectors, scores and classes have none.
fn has_tokens(points: &[PagePoint<'_>]) -> bool {
    points.iter().any(|one| one.point.tokens_per_s.is_some())
}

/// The index of a point's run among the runs of the page: points without a run have none.
fn run_index(points: &[PagePoint<'_>], index: usize) -> Option<usize> {
    points[index].run.as_ref()?;
    Some(points[..index].iter().filter(|one| one.run.is_some()).count())
}

fn charts(findings: &Findings, points: &[PagePoint<'_>]) -> Vec<Chart> {
    let loads: Vec<f64> = points.iter().map(|one| one.point.sent()).collect();
    let x = load_axis(format!("load ({})", findings.over.unit()), &loads);
    let bands: Vec<Band> = interval(findings).into_iter().collect();
    let of = |value: PointValue<'_>| series(points, value);
    let slo = Slo::parse(&findings.slo).unwrap_or_default();
    let mut charts: Vec<Chart> = slo
        .objectives
        .iter()
        .enumerate()
        .map(|(at, objective)| {
            let series = of(&|point| {
                let one = point.objectives.get(at)?;
                Some((one.value?, mark(point.fit, one.is_met)))
            });
            let values: Vec<f64> = series.iter().flat_map(|one| &one.points).map(|p| p.y).collect();
            let unit = objective.figure.unit().name();
            Chart {
                title: objective.text.clone(),
                x: x.clone(),
                y: ChartAxis::spread(format!("{} ({unit})", objective.figure), &values, 20.0),
                series,
                limits: vec![LimitLine {
                    of: Of::Y,
                    at: objective.limit,
                    label: objective.text.clone(),
                }],
                bands: bands.clone(),
                ..Chart::default()
            }
        })
        .collect();
    let unit = if has_tokens(points) { "output tok/s" } else { "req/s" };
    charts.push(Chart {
        title: "Throughput over load".to_owned(),
        x,
        y: ChartAxis::linear(unit),
        series: of(&|point| Some((point.throughput()?, mark(point.fit, None)))),
        bands,
        ..Chart::default()
    });
    charts.retain(|chart| !chart.series.is_empty());
    charts
}

/// Loads far apart by factors; close ones without the empty part below them.
fn load_axis(label: String, loads: &[f64]) -> ChartAxis {
    let axis = ChartAxis::spread(label, loads, 20.0);
    let low = loads.iter().copied().fold(f64::INFINITY, f64::min);
    let is_close = loads.iter().all(|load| *load < CLOSE * low);
    if is_close { ChartAxis { scale: Scale::Fitted, ..axis } } else { axis }
}

fn interval(findings: &Findings) -> Option<Band> {
    let Ending::Answered(SearchResult::Found { low, high, .. }) = &findings.ending else {
        return None;
    };
    let label = findings.estimate()?;
    (low.is_some() || high.is_some()).then_some(Band { of: Of::X, low: *low, high: *high, label })
}

/// A value of a point, and how the point looks.
type PointValue<'a> = &'a dyn Fn(&MeasuredPoint) -> Option<(f64, PointMark)>;

/// The outcome of a point; on the chart of an objective whether that one was met.
fn mark(fit: PointOutcome, is_met: Option<bool>) -> PointMark {
    match (fit, is_met) {
        (PointOutcome::Overloaded, _) => PointMark::Overloaded,
        (PointOutcome::Failed, _) => PointMark::Failed,
        (PointOutcome::Met, None) | (_, Some(true)) => PointMark::Met,
        (PointOutcome::Missed, None) | (_, Some(false)) => PointMark::Missed,
    }
}

fn series(points: &[PagePoint<'_>], value: PointValue<'_>) -> Vec<Series> {
    let point = |(index, one): (usize, &PagePoint<'_>)| {
        let (y, mark) = value(one.point).filter(|(y, _)| y.is_finite())?;
        let run = run_index(points, index);
        let few = one.point.objectives.iter().any(|one| !one.is_supported).then_some('?');
        let doubt = one.run.as_ref().map_or(few, |run| graver(doubt(&run.summary, None), few));
        Some(ChartPoint { x: one.point.sent(), y, run, mark, doubt, ..ChartPoint::default() })
    };
    let points: Vec<ChartPoint> = points.iter().enumerate().filter_map(point).collect();
    let series = Series { name: "points".to_owned(), look: 0, points, is_line: false };
    [series].into_iter().filter(|one| !one.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::READING;

    fn findings() -> Findings {
        let text = include_str!("../../../../fixtures/run/capacity.json");
        serde_json::from_str(text).unwrap()
    }

    /// With the run at 12 req/s as the one that held its load.
    fn made(price: Option<&Price>) -> Page {
        let view = RunView::plain(tokometer_compat::Selection::default());
        let mut findings = findings();
        findings.points[2].stage = tokometer_decide::search::Stage::Hold;
        findings.held = Some(findings.points[2].sent());
        findings.sentence = findings.sentence();
        page(READING, &findings, Path::new("nowhere"), &view, price)
    }

    /// The legend had digits that the interval does not support, and the objective stood without a word.
    #[test]
    fn the_answer_its_band_and_its_limit_say_the_same() {
        let page = made(None);
        let answer = page.answer.unwrap();
        assert_eq!((answer.headline.as_str(), answer.tone), ("12.00 req/s held", "good"));
        assert_eq!(answer.lines[1], "p99 ttft 1.90 s < 2s, p99 tpot 32.00 ms < 50ms, 1536 tok/s");
        let estimate = "limit about 12.4 req/s (12.2 to 12.7)";
        assert_eq!(answer.lines[2], format!("missed at 12.80 (p99 ttft 2.03 s) · {estimate}"));
        let chart = &page.groups[0].charts[0];
        assert_eq!(chart.bands[0].label, estimate);
        assert_eq!(chart.x.scale, Scale::Fitted);
    }

    /// The download of the table called the word `met` a confidence interval.
    #[test]
    fn the_outcome_of_an_objective_is_no_interval() {
        let table = made(None).overview.unwrap();
        let cell = &table.rows[0][6];
        assert_eq!((&cell["value"], &cell["outcome"]), (&json!("1.27 s"), &json!("met")));
        assert_eq!(cell.get("range"), None);
    }

    #[test]
    fn a_price_gives_the_cost_of_output_tokens_at_the_capacity() {
        let price = Price::parse("3.6/h").unwrap();
        let answer = made(Some(&price)).answer.unwrap();
        let cost = answer.lines.last().unwrap();
        assert_eq!(cost, "at 12.00 req/s: $1.30 per million output tokens (2 GPUs at $3.6/h each)");
    }
}
