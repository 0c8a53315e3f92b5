//! Many runs over time: each figure with its interval, and the changes that `compare` calls.
//!
//! Runs with one label are one step; without labels each run is a step, by its date. Each step is
//! compared with the step before it, as `tokometer compare --a BEFORE --b THIS` compares them.

use std::path::PathBuf;

use serde_json::json;
use tokometer_base::Refusal;
use tokometer_base::digits::digits;
use tokometer_decide::compare::{ComparedFigure, Comparison, Conclusion, Criteria, compared};
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::{Summary, statistics};
use tokometer_record::RunInfo;

use crate::Grid;
use crate::comparison::{changed, of_sides, percent, verdict};
use crate::html::{
    Chart, ChartAxis, ChartGroup, ChartPoint, FigureEstimate, Page, PageAnswer, PageNote,
    PointMark, RunPage, Scale, Series, Table, date, doubt, estimate, facts, graver, title,
};
use crate::reading::Reading;
use crate::saved::RunView;
use crate::{PageSource, point_name};

struct HistoryRun {
    folder: PathBuf,
    info: RunInfo,
    summary: Summary,
}

struct HistoryStep {
    label: String,
    runs: Vec<HistoryRun>,
    /// Against the step before it; `None` for the first.
    change: Option<StepChange>,
}

/// What became of the figures since the step before, or why the two steps cannot be compared.
type StepChange = Result<Comparison, String>;

pub struct History {
    steps: Vec<HistoryStep>,
    /// Whether steps are ordered by their labels, and not by their dates.
    is_labelled: bool,
    figures: Vec<Figure>,
}

pub fn history(
    reading: Reading,
    sources: &[PageSource],
    view: &RunView,
) -> Result<History, Refusal> {
    let is_labelled = sources.iter().any(|one| one.name.is_some());
    let mut steps: Vec<HistoryStep> = Vec::new();
    for source in sources {
        for folder in &source.runs {
            let run = reading.summarise(folder, view)?;
            let label = source.name.clone().unwrap_or_else(|| point_name(folder));
            let run = HistoryRun { folder: folder.clone(), info: run.info, summary: run.summary };
            let known = steps.iter_mut().find(|step| is_labelled && step.label == label);
            match known {
                Some(step) => step.runs.push(run),
                None => steps.push(HistoryStep { label, runs: vec![run], change: None }),
            }
        }
    }
    for step in &mut steps {
        step.runs.sort_by_key(|run| run.info.started.0);
    }
    if !is_labelled {
        steps.sort_by_key(|step| step.runs[0].info.started.0);
    }
    if steps.len() < 2 {
        return Err(Refusal::usage(
            "cannot show a history of one step",
            "give at least two runs, or two different labels",
        ));
    }
    let figures = compared([]);
    for at in 1..steps.len() {
        let change = change(reading, &steps[at - 1], &steps[at], &figures)?;
        steps[at].change = Some(change);
    }
    Ok(History { steps, is_labelled, figures })
}

fn change(
    reading: Reading,
    before: &HistoryStep,
    this: &HistoryStep,
    figures: &[Figure],
) -> Result<StepChange, Refusal> {
    let folders =
        |step: &HistoryStep| step.runs.iter().map(|run| run.folder.clone()).collect::<Vec<_>>();
    let has_success =
        |step: &HistoryStep| step.runs.iter().all(|run| run.summary.counts.succeeded > 0);
    if !has_success(before) || !has_success(this) {
        return Ok(Err("a run without a successful request".to_owned()));
    }
    let comparison = of_sides(reading, &folders(before), &folders(this), Criteria::of(figures))?;
    let refusals = comparison.refusals().join("; ");
    Ok(if refusals.is_empty() { Ok(comparison) } else { Err(refusals) })
}

impl HistoryStep {
    fn compared(&self) -> Option<&Comparison> {
        self.change.as_ref()?.as_ref().ok()
    }

    fn row(&self, figure: Figure) -> Option<&ComparedFigure> {
        self.compared()?.rows.iter().find(|row| row.figure == figure)
    }

    /// Differences that `compare` calls better or worse.
    fn called(&self) -> Vec<&ComparedFigure> {
        let rows = self.compared().into_iter().flat_map(|comparison| &comparison.rows);
        rows.filter(|row| mark(row) != PointMark::Plain).collect()
    }

    /// The figures that lead what changed; each chart has the others with their intervals.
    fn changes(&self) -> String {
        let changed = self.compared().map(changed).unwrap_or_default();
        if changed.is_empty() { self.summary() } else { changed.join("; ") }
    }

    /// How many figures `compare` calls changed.
    fn summary(&self) -> String {
        match &self.change {
            None => String::new(),
            Some(Err(_)) => "not comparable".to_owned(),
            Some(Ok(_)) => {
                let count = |wanted| self.called().iter().filter(|row| mark(row) == wanted).count();
                match (count(PointMark::Worse), count(PointMark::Better)) {
                    (0, 0) => "none called".to_owned(),
                    (worse, 0) => format!("{worse} worse"),
                    (0, better) => format!("{better} better"),
                    (worse, better) => format!("{worse} worse, {better} better"),
                }
            }
        }
    }

    /// The mean of its runs with the interval of their scatter; of a single run its own interval.
    fn estimate(&self, figure: Figure) -> Option<FigureEstimate> {
        let each: Vec<FigureEstimate> =
            self.runs.iter().filter_map(|run| estimate(&run.summary, figure)).collect();
        if let [only] = each.as_slice() {
            return Some(*only);
        }
        let values: Vec<f64> = each.iter().map(|one| one.value).collect();
        let value = statistics::mean(&values)?;
        let margin = statistics::mean_margin(&values);
        Some(FigureEstimate {
            value,
            low: margin.map(|margin| value - margin),
            high: margin.map(|margin| value + margin),
            mark: each.iter().fold(None, |mark, one| graver(mark, one.mark)),
        })
    }

    fn date(&self) -> String {
        self.runs.first().map(|run| date(run.info.started)).unwrap_or_default()
    }
}

fn mark(row: &ComparedFigure) -> PointMark {
    match row.conclusion {
        Some(Conclusion::Better) => PointMark::Better,
        Some(Conclusion::Worse) => PointMark::Worse,
        _ => PointMark::Plain,
    }
}

/// `+10.0 % (+5.5 % to +14.5 %), worse`.
fn words(row: &ComparedFigure) -> String {
    let interval = row.difference.map_or(String::new(), |found| {
        format!(" ({} to {})", percent(found.low), percent(found.high))
    });
    format!("{}{interval}, {}", percent(row.change()), verdict(row))
}

/// Figures of the text, one column each.
const COLUMNS: [Figure; 4] = [
    Figure::whole(Quantity::Output),
    Figure::percentile(Quantity::Ttft, 50),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::percentile(Quantity::Tpot, 99),
];

/// Their heads in a table of 80 columns, and what these leave out.
const HEADS: [&str; 4] = ["tok/s", "TTFT p50", "TTFT p99", "TPOT p99"];
const LEGEND: &str = "tok/s: output tokens; latencies in ms";
/// Characters of a date to its minute.
const MINUTES: usize = 16;

/// Whether a name begins with the date of a run folder, such as `20260131-094501-nightly`.
fn is_stamped(label: &str) -> bool {
    let mut parts = label.split('-');
    let is_number = |part: Option<&str>, digits: usize| {
        part.is_some_and(|part| part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
    };
    is_number(parts.next(), 8) && is_number(parts.next(), 6)
}

impl History {
    pub fn text(&self) -> String {
        // The name of a run folder begins with its date.
        let is_dated = self.steps.iter().all(|step| is_stamped(&step.label));
        let is_each_one = self.steps.iter().all(|step| step.runs.len() == 1);
        let mut grid = if is_dated { Grid::new() } else { Grid::new().left("date (UTC)") };
        grid = grid.left("step");
        if !is_each_one {
            grid = grid.right("runs");
        }
        grid = HEADS.into_iter().fold(grid, Grid::right).left("changes");
        for step in &self.steps {
            let date = (!is_dated).then(|| step.date().chars().take(MINUTES).collect());
            let mut cells: Vec<String> = date.into_iter().collect();
            cells.push(step.label.clone());
            cells.extend((!is_each_one).then(|| step.runs.len().to_string()));
            cells.extend(COLUMNS.map(|figure| {
                step.estimate(figure).map_or_else(|| "–".to_owned(), |one| digits(one.value))
            }));
            cells.push(step.summary());
            grid.push(cells);
        }
        let changes: Vec<String> = self
            .steps
            .iter()
            .flat_map(|step| {
                step.called()
                    .into_iter()
                    .map(|row| format!("{}: {} {}\n", step.label, row.figure, words(row)))
            })
            .collect();
        format!("{}{LEGEND}\n\n{}\n{}", grid.text(), self.headline(), changes.concat())
    }

    /// At which steps figures became worse or better.
    fn headline(&self) -> String {
        let steps = |wanted: PointMark| -> Vec<&str> {
            let has = |step: &&HistoryStep| step.called().iter().any(|row| mark(row) == wanted);
            self.steps.iter().filter(has).map(|step| step.label.as_str()).collect()
        };
        let (worse, better) = (steps(PointMark::Worse), steps(PointMark::Better));
        let part = |words: &str, at: &[&str]| {
            (!at.is_empty()).then(|| format!("{words} at {}", at.join(", ")))
        };
        let parts: Vec<String> =
            [part("worse", &worse), part("better", &better)].into_iter().flatten().collect();
        if parts.is_empty() {
            return format!("no change called in {} steps", self.steps.len());
        }
        parts.join("; ")
    }

    /// The page; the caller knows the command that made it.
    pub fn page(&self) -> Page {
        let runs: Vec<(&RunInfo, &Summary)> = self
            .steps
            .iter()
            .flat_map(|step| &step.runs)
            .map(|run| (&run.info, &run.summary))
            .collect();
        let is_worse = self
            .steps
            .iter()
            .any(|step| step.called().iter().any(|row| mark(row) == PointMark::Worse));
        let mut page = Page {
            title: format!("History: {}", title(&runs)),
            answer: Some(PageAnswer {
                tone: if is_worse { "bad" } else { "good" },
                headline: self.headline(),
                lines: vec![
                    "Each step is compared with the step before it, as `tokometer compare` compares them. One in twenty figures without any change would still be called changed.".to_owned(),
                ],
                trust: None,
            }),
            notes: self.notes(),
            facts: facts(&runs, None),
            overview: Some(self.table()),
            groups: self.groups(),
            ..Page::default()
        };
        for run in self.steps.iter().flat_map(|step| &step.runs) {
            let part = RunPage::new(&point_name(&run.folder), &run.info, &run.summary);
            page.cards.push(part.card());
            page.runs.push(part);
        }
        page
    }

    fn notes(&self) -> Vec<PageNote> {
        let note = |text: String| PageNote {
            severity: "suspect",
            code: "not comparable".to_owned(),
            text,
        };
        let of = |step: &HistoryStep| {
            let why = step.change.as_ref()?.as_ref().err()?;
            Some(note(format!("{}: {why}", step.label)))
        };
        let mut notes: Vec<PageNote> = self.steps.iter().filter_map(of).collect();
        if self.steps.iter().any(|step| step.runs.len() < tokometer_decide::compare::ENOUGH_RUNS) {
            notes.push(PageNote {
                severity: "remark",
                code: "few runs".to_owned(),
                text: "Steps of fewer than three runs are compared by blocks of time within the runs: the variation between runs is not in their intervals. Measure three runs per step and give them one `--label`.".to_owned(),
            });
        }
        notes
    }

    fn table(&self) -> Table {
        let heads = ["step", "date", "runs"].map(str::to_owned).into_iter();
        let figures = COLUMNS.map(|figure| format!("{figure} {}", figure.unit().name()));
        let row = |(at, step): (usize, &HistoryStep)| {
            let mut cells = vec![
                json!({"run": self.first_run(at), "text": step.label}),
                json!({"text": step.date()}),
                json!(step.runs.len()),
            ];
            cells.extend(COLUMNS.map(|figure| match step.estimate(figure) {
                Some(one) => json!({
                    "value": digits(one.value),
                    "mark": one.mark,
                    "range": one.low.zip(one.high).map(|(low, high)| format!("{} to {}", digits(low), digits(high))),
                }),
                None => serde_json::Value::Null,
            }));
            cells.push(json!({"text": step.changes()}));
            cells
        };
        Table {
            columns: heads.chain(figures).chain(["changes".to_owned()]).collect(),
            rows: self.steps.iter().enumerate().map(row).collect(),
        }
    }

    fn first_run(&self, at: usize) -> usize {
        self.steps[..at].iter().map(|step| step.runs.len()).sum()
    }

    fn groups(&self) -> Vec<ChartGroup> {
        let of = |title: &str, is_mine: fn(Figure) -> bool| ChartGroup {
            title: title.to_owned(),
            charts: self
                .figures
                .iter()
                .filter(|figure| is_mine(**figure))
                .filter_map(|figure| self.chart(*figure))
                .collect(),
        };
        let is_throughput = |figure: Figure| figure.statistic == Statistic::Whole;
        let groups = [
            of("Throughput over time", is_throughput),
            of("Latency over time", |figure| figure.statistic != Statistic::Whole),
        ];
        groups.into_iter().filter(|group| !group.charts.is_empty()).collect()
    }

    fn chart(&self, figure: Figure) -> Option<Chart> {
        let point = |(at, step): (usize, &HistoryStep)| {
            let found = step.estimate(figure)?;
            let row = step.row(figure);
            let started = step.runs.first()?.info.started.0 as f64 / 1e9;
            let x = if self.is_labelled { at as f64 } else { started };
            let text = match (&step.change, row) {
                (Some(Err(_)), _) => "not comparable with the step before".to_owned(),
                (_, Some(row)) => format!("{}, against the step before", words(row)),
                _ => String::new(),
            };
            Some(ChartPoint {
                x,
                y: found.value,
                low: found.low,
                high: found.high,
                run: Some(self.first_run(at)),
                mark: row.map_or(PointMark::Plain, mark),
                doubt: step.runs.iter().fold(found.mark, |mark, run| doubt(&run.summary, mark)),
                text,
            })
        };
        let points: Vec<ChartPoint> = self.steps.iter().enumerate().filter_map(point).collect();
        let x = if self.is_labelled {
            let words = self.steps.iter().map(|step| step.label.clone()).collect();
            ChartAxis { words, ..ChartAxis::new("label", Scale::Words) }
        } else {
            ChartAxis::new("date (UTC)", Scale::Time)
        };
        let y = ChartAxis::new(format!("{figure} ({})", figure.unit().name()), Scale::Fitted);
        let series = Series { name: figure.label(), look: 0, points, is_line: true };
        (!series.points.is_empty()).then(|| Chart {
            title: figure.label(),
            x,
            y,
            series: vec![series],
            ..Chart::default()
        })
    }
}
