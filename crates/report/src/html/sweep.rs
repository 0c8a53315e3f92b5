//! Several runs on one page: a row for each, and charts by configuration.
//!
//! Request rates, caps on requests in flight and bursts are different loads: a number of one means nothing
//! on the axis of another. Each kind has charts of its own.

use serde_json::{Value, json};
use tokometer_base::digits::brief;
use tokometer_base::units::counted;
use tokometer_decide::Slo;
use tokometer_decide::slo::Objective;
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_figures::{Summary, Verdict};
use tokometer_record::RunInfo;

use super::chart::{
    Chart, ChartAxis, ChartGroup, ChartPoint, FigureEstimate, LimitLine, Of, PointMark, Series,
    Table, doubt, estimate, graver, mark_front,
};
use super::configuration;
use super::cost::Price;
use super::facts::distinct;
use super::load_axis::LoadAxis;
use super::{PageAnswer, PageNote};
use crate::summary::{doubtful_codes, short};

#[derive(Debug, Clone, Copy)]
pub struct SweepPoint<'a> {
    /// For the table, such as `concurrency 8`.
    pub name: &'a str,
    /// The folder or the label that it was given with; `None` for a run that was given by itself.
    pub source: Option<&'a str>,
    pub info: &'a RunInfo,
    pub summary: &'a Summary,
    /// `None` without objectives, or where one of them has no value.
    pub outcome: Option<ObjectivesOutcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectivesOutcome {
    Met,
    Missed,
    /// A percentile of too few requests is within its limit.
    TooFew,
}

impl ObjectivesOutcome {
    /// `None` without objectives, or where one of them has no value.
    pub fn of(slo: &Slo, summary: &Summary) -> Option<Self> {
        let results = slo.results(summary);
        if results.iter().any(|one| one.is_met == Some(false)) {
            return Some(Self::Missed);
        }
        if results.is_empty() || results.iter().any(|one| one.is_met.is_none()) {
            return None;
        }
        let is_supported = results.iter().all(|one| one.is_supported);
        Some(if is_supported { Self::Met } else { Self::TooFew })
    }

    fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TooFew => "too few requests",
        }
    }
}

/// What the user says of all runs of a page.
#[derive(Debug, Clone, Default)]
pub struct PageContext {
    /// GPUs behind the endpoint.
    pub gpus: Option<u32>,
    pub price: Option<Price>,
    /// Objectives to draw and to judge; empty for none.
    pub slo: Slo,
    /// Requests in flight at the knee of a staircase.
    pub knee: Option<u32>,
}

impl SweepPoint<'_> {
    fn axis(&self) -> LoadAxis {
        LoadAxis::of(&self.info.load)
    }

    fn load(&self) -> Option<f64> {
        self.axis().value(&self.info.load)
    }

    fn value(&self, figure: Figure) -> Option<f64> {
        estimate(self.summary, figure).map(|found| found.value)
    }
}

const OUTPUT: Figure = Figure::whole(Quantity::Output);
const TOTAL: Figure = Figure::whole(Quantity::Total);
const USER_SPEED: Figure = Figure::percentile(Quantity::UserSpeed, 50);
const THROUGHPUTS: [(&str, Figure); 2] =
    [("req/s", Figure::whole(Quantity::Requests)), ("tok/s", OUTPUT)];
const LATENCIES: [Figure; 3] = [
    Figure::percentile(Quantity::Ttft, 50),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::percentile(Quantity::Tpot, 99),
];
/// Latencies that throughput is shown against, where no objective names any.
const AGAINST: [Figure; 2] =
    [Figure::percentile(Quantity::Ttft, 99), Figure::percentile(Quantity::Tpot, 99)];

/// The same where answers are vectors, scores or classes, which come in one piece.
const POOLED_THROUGHPUTS: [(&str, Figure); 3] = [
    ("req/s", Figure::whole(Quantity::Requests)),
    ("items/s", ITEMS),
    ("prompt tok/s", Figure::whole(Quantity::Prompt)),
];
const POOLED_LATENCIES: [Figure; 2] =
    [Figure::percentile(Quantity::E2e, 50), Figure::percentile(Quantity::E2e, 99)];
const ITEMS: Figure = Figure::whole(Quantity::Items);

/// The runs of a page with the names of their configurations.
#[derive(Debug)]
pub struct SweepView<'a> {
    points: &'a [SweepPoint<'a>],
    context: &'a PageContext,
    /// For each point.
    names: Vec<String>,
    /// Different names, in the order of their first appearance.
    configurations: Vec<String>,
}

impl<'a> SweepView<'a> {
    /// Runs in the order in which the page shows them.
    pub fn new(points: &'a [SweepPoint<'a>], context: &'a PageContext) -> Self {
        let runs: Vec<(&RunInfo, Option<&str>)> =
            points.iter().map(|point| (point.info, point.source)).collect();
        let names = configuration::names(&runs);
        let configurations = distinct(names.iter().cloned());
        Self { points, context, names, configurations }
    }

    /// Whether all runs measured a route that generates nothing.
    fn is_pooled(&self) -> bool {
        !self.points.is_empty() && self.points.iter().all(|point| point.value(ITEMS).is_some())
    }

    /// The throughput that the charts show.
    fn throughput(&self) -> Figure {
        if self.is_pooled() { ITEMS } else { OUTPUT }
    }

    /// The highest throughput of each configuration, or the highest load that meets all objectives, with
    /// the verdict of the runs that it comes from.
    pub fn answer(&self) -> PageAnswer {
        let mut best: Vec<(&String, Option<&SweepPoint<'_>>)> = self
            .configurations
            .iter()
            .zip(self.configurations.iter().map(|one| self.best(one)))
            .collect();
        let rate =
            |point: Option<&SweepPoint<'_>>| point.and_then(|one| one.value(self.throughput()));
        best.sort_by(|a, b| rate(b.1).unwrap_or(0.0).total_cmp(&rate(a.1).unwrap_or(0.0)));
        let mut sentences = best.iter().map(|(name, point)| {
            let sentence = self.sentence(*point);
            if best.len() == 1 { sentence } else { format!("{name}: {sentence}") }
        });
        let headline = sentences.next().unwrap_or_default();
        let has_objectives = !self.context.slo.objectives.is_empty();
        let (found, trust) = (best.iter().filter_map(|(_, point)| *point), self.trust());
        let is_doubtful = trust.as_ref().is_some_and(|(verdict, _)| *verdict > Verdict::Valid);
        let is_missed = |one: &SweepPoint<'_>| one.outcome == Some(ObjectivesOutcome::Missed);
        let tone = match (found.count(), has_objectives) {
            (0, true) if self.points.iter().all(is_missed) => "bad",
            (1.., true) if !is_doubtful => "good",
            (1.., false) if !is_doubtful => "plain",
            _ => "open",
        };
        let mut lines: Vec<String> = sentences.collect();
        lines.extend(self.fastest().filter(|_| best.len() == 1));
        PageAnswer { tone, headline, lines, trust }
    }

    /// The point that a configuration's answer names: never one of an INVALID run.
    fn best(&self, configuration: &str) -> Option<&SweepPoint<'a>> {
        let has_objectives = !self.context.slo.objectives.is_empty();
        let is_good = |point: &&SweepPoint<'_>| {
            let is_met = point.outcome == Some(ObjectivesOutcome::Met);
            point.summary.verdict != Verdict::Invalid && (is_met || !has_objectives)
        };
        let rate = |point: &SweepPoint<'_>| point.value(self.throughput());
        let mine = self.points.iter().zip(&self.names).filter(|(_, name)| *name == configuration);
        let good = mine.map(|(point, _)| point).filter(is_good);
        let rated = good.filter(|point| rate(point).is_some());
        rated.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))
    }

    fn sentence(&self, best: Option<&SweepPoint<'_>>) -> String {
        let has_objectives = !self.context.slo.objectives.is_empty();
        let Some(point) = best else {
            let few = |one: &&SweepPoint<'_>| one.outcome == Some(ObjectivesOutcome::TooFew);
            return match (self.points.iter().filter(few).count(), has_objectives) {
                (0, true) => "no run meets all objectives".to_owned(),
                (few, true) => format!(
                    "cannot tell: {} within all objectives, with too few requests for a percentile",
                    counted(few, "run")
                ),
                (_, false) => "no throughput".to_owned(),
            };
        };
        let rate = marked_text(point, self.throughput()).unwrap_or_default();
        let unit = if self.is_pooled() { "items/s" } else { "output tok/s" };
        let load = point.load().map(|load| format!(" at {} {}", brief(load), point.axis().unit()));
        let load = load.unwrap_or_default();
        let why = if has_objectives { "the most that meets all objectives" } else { "the highest" };
        format!("{rate} {unit}{load}, {why}")
    }

    /// What one user gets at the lowest load.
    fn fastest(&self) -> Option<String> {
        let speed = |point: &SweepPoint<'_>| point.value(USER_SPEED);
        let rated = self.points.iter().filter(|point| speed(point).is_some());
        let point =
            rated.max_by(|a, b| speed(a).unwrap_or(0.0).total_cmp(&speed(b).unwrap_or(0.0)))?;
        let ttft = marked_text(point, LATENCIES[0]);
        let ttft = ttft.map_or(String::new(), |ttft| format!(" and {} {ttft} ms", LATENCIES[0]));
        Some(format!(
            "fastest for one user: {} tok/s{ttft} at {} {}",
            marked_text(point, USER_SPEED)?,
            brief(point.load()?),
            point.axis().unit()
        ))
    }

    /// The worst verdict with the points that have it. `None` for predictions alone.
    fn trust(&self) -> Option<(Verdict, String)> {
        let judged: Vec<_> = self.points.iter().filter(|one| !one.info.is_prediction()).collect();
        let worst = judged.iter().map(|point| point.summary.verdict).max()?;
        let of: Vec<_> = judged.iter().filter(|one| one.summary.verdict == worst).collect();
        let words = match (worst, of.len() == judged.len()) {
            (Verdict::Valid, _) => format!("all {}", counted(judged.len(), "run")),
            (_, true) => "all runs".to_owned(),
            _ => of.iter().map(|point| point.name).collect::<Vec<_>>().join(", "),
        };
        Some((worst, words))
    }

    /// The runs whose verdict is not VALID, with the notes behind it.
    pub fn doubts(&self) -> Vec<PageNote> {
        let judged = self.points.iter().filter(|one| !one.info.is_prediction());
        let doubtful = judged.filter(|one| one.summary.verdict > Verdict::Valid);
        let note = |point: &SweepPoint<'_>| PageNote {
            severity: if point.summary.verdict == Verdict::Invalid { "invalid" } else { "suspect" },
            code: point.name.to_owned(),
            text: doubtful_codes(point.summary),
        };
        doubtful.map(note).collect()
    }

    fn axes(&self) -> Vec<LoadAxis> {
        let mut axes: Vec<LoadAxis> = self.points.iter().map(SweepPoint::axis).collect();
        axes.sort();
        axes.dedup();
        axes
    }

    pub fn overview(&self) -> Table {
        let rows: Vec<Vec<HeadedCell>> =
            self.points.iter().enumerate().map(|(index, point)| self.row(index, point)).collect();
        let heads = rows.first().into_iter().flatten();
        Table {
            columns: heads.map(|(head, _)| head.clone()).collect(),
            rows: rows
                .into_iter()
                .map(|row| row.into_iter().map(|(_, value)| value).collect())
                .collect(),
        }
    }

    /// The cells of one run. Which cells there are depends on the page alone.
    fn row(&self, index: usize, point: &SweepPoint<'_>) -> Vec<HeadedCell> {
        let mut row = vec![cell("run", json!({"run": index, "text": point.name}))];
        if self.configurations.len() > 1 {
            row.push(cell("configuration", json!({"text": self.names[index]})));
        }
        let load = match point.load() {
            Some(load) if self.axes().len() > 1 => {
                json!(format!("{} {}", brief(load), point.axis().unit()))
            }
            load => rounded(load),
        };
        row.extend([
            cell("load", load),
            cell("answered", json!(point.summary.counts.succeeded)),
            cell("failed", json!(point.summary.counts.failed)),
        ]);
        let is_pooled = self.is_pooled();
        let throughputs: &[_] = if is_pooled { &POOLED_THROUGHPUTS } else { &THROUGHPUTS };
        row.extend(throughputs.iter().map(|(head, one)| cell(*head, marked(point, *one))));
        if self.context.gpus.is_some() {
            let head = if is_pooled { "items/s per GPU" } else { "tok/s per GPU" };
            let found = point.value(self.throughput());
            row.push(cell(head, rounded(found.map(|found| found / self.share()))));
        }
        if !is_pooled {
            row.push(cell("tok/s per user", marked(point, USER_SPEED)));
        }
        let latencies: &[Figure] = if is_pooled { &POOLED_LATENCIES } else { &LATENCIES };
        let latency = |one: &Figure| (format!("{one} {}", one.unit().name()), marked(point, *one));
        row.extend(latencies.iter().map(latency));
        row.extend(self.costs(point));
        if !self.context.slo.objectives.is_empty() {
            let words = point.outcome.map(ObjectivesOutcome::words);
            let value = words.map_or(Value::Null, |words| json!({"text": words}));
            row.push(cell("objectives", value));
        }
        row.push(cell("verdict", json!({"text": point.summary.verdict})));
        row
    }

    /// What a million tokens of each kind cost, where the price of a GPU is known.
    fn costs(&self, point: &SweepPoint<'_>) -> Vec<HeadedCell> {
        let Some(price) = &self.context.price else { return Vec::new() };
        let kinds =
            [("total", TOTAL), ("input", Figure::whole(Quantity::Prompt)), ("output", OUTPUT)];
        let kinds = kinds.into_iter().filter(|(kind, _)| *kind == "input" || !self.is_pooled());
        let cost = |(kind, figure): (&str, Figure)| {
            let rate = point.value(figure).map(|tokens| tokens / self.share());
            let head = format!("{} per M {kind} tokens", price.currency());
            cell(head, rounded(rate.and_then(|rate| price.per_million(rate))))
        };
        kinds.map(cost).collect()
    }

    /// GPUs that throughputs are divided by.
    fn share(&self) -> f64 {
        f64::from(self.context.gpus.unwrap_or(1).max(1))
    }

    fn throughput_label(&self) -> &'static str {
        match (self.is_pooled(), self.context.gpus.is_some()) {
            (false, false) => "output tok/s",
            (false, true) => "output tok/s per GPU",
            (true, false) => "items/s",
            (true, true) => "items/s per GPU",
        }
    }

    /// Throughput and latencies over the load, throughput against latency, and throughput against the
    /// speed for one user, for each kind of load.
    pub fn charts(&self) -> Vec<ChartGroup> {
        let group = |axis: LoadAxis| {
            let mut charts = Vec::new();
            if axis != LoadAxis::Course {
                charts.extend(self.over_load(axis));
            }
            charts.extend(self.against_latency(axis));
            charts.push(self.pareto(axis));
            charts.extend(self.cost(axis));
            charts.retain(|chart| !chart.series.is_empty());
            ChartGroup { title: axis.title().to_owned(), charts }
        };
        let mut groups: Vec<ChartGroup> = self.axes().into_iter().map(group).collect();
        groups.retain(|group| !group.charts.is_empty());
        groups
    }

    /// One series per configuration with the points that `position` gives.
    fn series(
        &self,
        axis: LoadAxis,
        position: impl Fn(&SweepPoint<'_>) -> Option<(FigureEstimate, FigureEstimate)>,
    ) -> Vec<Series> {
        let of = |(look, name): (usize, &String)| {
            let mine = |(index, point): (usize, &SweepPoint<'_>)| {
                let is_mine = &self.names[index] == name && point.axis() == axis;
                let (x, y) = position(point).filter(|_| is_mine)?;
                let text = match point.outcome {
                    Some(ObjectivesOutcome::Met) => "meets all objectives",
                    Some(ObjectivesOutcome::Missed) => "violates an objective",
                    Some(ObjectivesOutcome::TooFew) => "too few requests for an objective",
                    None => "",
                };
                let cap = point.info.load.max_concurrency;
                let is_knee = axis == LoadAxis::InFlight && self.context.knee.is_some();
                let is_knee = is_knee && cap == self.context.knee;
                Some(ChartPoint {
                    x: x.value,
                    y: y.value,
                    low: y.low,
                    high: y.high,
                    run: Some(index),
                    mark: if is_knee { PointMark::Knee } else { PointMark::Plain },
                    doubt: doubt(point.summary, graver(x.mark, y.mark)),
                    text: text.to_owned(),
                })
            };
            let mut points: Vec<ChartPoint> =
                self.points.iter().enumerate().filter_map(mine).collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { name: name.clone(), look, points, is_line: true }
        };
        let all = self.configurations.iter().enumerate().map(of);
        all.filter(|series| !series.points.is_empty()).collect()
    }

    fn per_gpu(&self, found: FigureEstimate) -> FigureEstimate {
        let share = self.share();
        let part = |value: f64| value / share;
        FigureEstimate {
            value: part(found.value),
            low: found.low.map(part),
            high: found.high.map(part),
            ..found
        }
    }

    fn over_load(&self, axis: LoadAxis) -> Vec<Chart> {
        let x = self.load_axis(axis);
        let throughput = |point: &SweepPoint<'_>| {
            let found = estimate(point.summary, self.throughput())?;
            Some((FigureEstimate::exact(point.load()?), self.per_gpu(found)))
        };
        let mut charts = vec![Chart {
            title: "Throughput over load".to_owned(),
            x: x.clone(),
            y: ChartAxis::linear(self.throughput_label()),
            series: self.series(axis, throughput),
            ..Chart::default()
        }];
        let quantities: &[Quantity] =
            if self.is_pooled() { &[Quantity::E2e] } else { &[Quantity::Ttft, Quantity::Tpot] };
        for quantity in quantities.iter().copied() {
            charts.push(self.latency_over_load(axis, quantity, x.clone()));
        }
        charts
    }

    fn load_axis(&self, axis: LoadAxis) -> ChartAxis {
        let of_kind = self.points.iter().filter(|point| point.axis() == axis);
        let loads: Vec<f64> = of_kind.filter_map(SweepPoint::load).collect();
        ChartAxis::spread(axis.label(), &loads, 20.0)
    }

    /// Median and p99 of the only configuration; of several the p99 alone, so that a colour has one
    /// meaning.
    fn latency_over_load(&self, axis: LoadAxis, quantity: Quantity, x: ChartAxis) -> Chart {
        let p99 = Figure::new(quantity, Statistic::P99);
        let of = |figure: Figure| {
            let position = move |point: &SweepPoint<'_>| {
                Some((FigureEstimate::exact(point.load()?), estimate(point.summary, figure)?))
            };
            self.series(axis, position)
        };
        let mut series = of(p99);
        if self.configurations.len() == 1 {
            let median = Figure::new(quantity, Statistic::MEDIAN);
            for one in &mut series {
                (one.name, one.look) = (p99.label(), 1);
            }
            let medians = of(median).into_iter();
            series.extend(medians.map(|one| Series { name: median.label(), look: 0, ..one }));
        }
        let title = if self.configurations.len() == 1 {
            format!("{} over load", quantity.label())
        } else {
            format!("{p99} over load")
        };
        let unit = quantity.unit().name();
        Chart {
            title,
            x,
            y: spread_of(&series, format!("{} ({unit})", quantity.label()), 50.0),
            series,
            limits: self.limits(Of::Y, |figure| figure.quantity == quantity),
            ..Chart::default()
        }
    }

    fn limits(&self, of: Of, is_shown: impl Fn(Figure) -> bool) -> Vec<LimitLine> {
        let shown = self.context.slo.objectives.iter().filter(|one| is_shown(one.figure));
        let line = |one: &Objective| LimitLine { of, at: one.limit, label: one.text.clone() };
        shown.map(line).collect()
    }

    /// Throughput against each latency that an objective names, or against the usual ones.
    fn against_latency(&self, axis: LoadAxis) -> Vec<Chart> {
        let named = self.context.slo.objectives.iter().map(|one| one.figure);
        let mut figures = distinct(named.filter(|figure| figure.quantity.is_distribution()));
        if figures.is_empty() {
            let usual: &[Figure] = if self.is_pooled() { &POOLED_LATENCIES[1..] } else { &AGAINST };
            figures.extend(usual);
        }
        let chart = |figure: Figure| {
            let position = |point: &SweepPoint<'_>| {
                let found = estimate(point.summary, self.throughput())?;
                Some((estimate(point.summary, figure)?, self.per_gpu(found)))
            };
            let mut series = self.series(axis, position);
            front(&mut series, [-1.0, 1.0]);
            let values: Vec<f64> =
                series.iter().flat_map(|one| &one.points).map(|point| point.x).collect();
            Chart {
                title: format!("Throughput against {figure}"),
                remark: FRONT.to_owned(),
                x: ChartAxis::spread(format!("{figure} ({})", figure.unit().name()), &values, 50.0),
                y: ChartAxis::linear(self.throughput_label()),
                series,
                limits: self.limits(Of::X, |other| other == figure),
                ..Chart::default()
            }
        };
        figures.into_iter().map(chart).collect()
    }

    fn pareto(&self, axis: LoadAxis) -> Chart {
        let position = |point: &SweepPoint<'_>| {
            let speed = estimate(point.summary, USER_SPEED)?;
            Some((speed, self.per_gpu(estimate(point.summary, OUTPUT)?)))
        };
        let mut series = self.series(axis, position);
        front(&mut series, [1.0, 1.0]);
        Chart {
            title: "Pareto front: throughput against speed for one user".to_owned(),
            remark: FRONT.to_owned(),
            x: ChartAxis::linear("tok/s per user (median)"),
            y: ChartAxis::linear(self.throughput_label()),
            series,
            ..Chart::default()
        }
    }

    fn cost(&self, axis: LoadAxis) -> Option<Chart> {
        let price = self.context.price.as_ref()?;
        let position = |point: &SweepPoint<'_>| {
            let total = self.per_gpu(estimate(point.summary, TOTAL)?);
            let cost = |rate: f64| price.per_million(rate);
            // More tokens per second make each cheaper, so the ends are swapped.
            let (low, high) = (total.high.and_then(cost), total.low.and_then(cost));
            let speed = estimate(point.summary, USER_SPEED)?;
            Some((speed, FigureEstimate { value: cost(total.value)?, low, high, ..total }))
        };
        let mut series = self.series(axis, position);
        front(&mut series, [1.0, -1.0]);
        Some(Chart {
            title: "Cost per million tokens against speed for one user".to_owned(),
            remark: format!(
                "{} for each GPU, {}. {FRONT}",
                price.text(),
                counted(self.context.gpus.unwrap_or(1).max(1), "GPU")
            ),
            x: ChartAxis::linear("tok/s per user (median)"),
            y: spread_of(&series, format!("{} per million total tokens", price.currency()), 10.0),
            series,
            ..Chart::default()
        })
    }
}

/// What the line of a front means.
const FRONT: &str = "The line connects the points of a configuration that no other of its points beats in both directions; hollow points are beaten.";

fn front(series: &mut [Series], better: [f64; 2]) {
    for one in series {
        mark_front(&mut one.points, better);
    }
}

/// The y axis of these series, by factors where they spread over more than `ratio`.
fn spread_of(series: &[Series], label: String, ratio: f64) -> ChartAxis {
    let values: Vec<f64> = series.iter().flat_map(|one| &one.points).map(|point| point.y).collect();
    ChartAxis::spread(label, &values, ratio)
}

/// A figure with its mark.
fn marked_text(point: &SweepPoint<'_>, figure: Figure) -> Option<String> {
    let found = estimate(point.summary, figure)?;
    Some(format!("{}{}", short(found.value), found.mark.map(String::from).unwrap_or_default()))
}

/// The same for a table; where it lies among failed requests, its lower bound.
fn marked(point: &SweepPoint<'_>, figure: Figure) -> Value {
    let Some(found) = estimate(point.summary, figure) else {
        let distribution = point.summary.distribution(figure.quantity);
        let entry = distribution
            .filter(|found| !found.is_withheld)
            .and_then(|found| found.percentile(figure.statistic.percentile()?.percent())?.above);
        return entry.map_or(Value::Null, |above| json!({"value": format!("> {}", short(above))}));
    };
    match found.mark {
        Some(mark) => json!({"value": rounded(Some(found.value)), "mark": mark}),
        None => rounded(Some(found.value)),
    }
}

/// A cell of the overview with the head of its column.
type HeadedCell = (String, Value);

fn cell(head: impl Into<String>, value: Value) -> HeadedCell {
    (head.into(), value)
}

fn rounded(value: Option<f64>) -> Value {
    json!(value.map(|value| (value * 100.0).round() / 100.0))
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
