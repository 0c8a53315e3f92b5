//! Several runs on one page: a row for each, and charts by configuration.
//!
//! Request rates, caps on requests in flight and bursts are different loads: a number of one means nothing
//! on the axis of another. Each kind has charts of its own.

use serde_json::{Value, json};
use tokometer_base::digits::brief;
use tokometer_base::units::counted;
use tokometer_decide::Slo;
use tokometer_decide::slo::Objective;
use tokometer_figures::Summary;
use tokometer_figures::figure::{Figure, Quantity, Statistic};
use tokometer_record::RunInfo;

use super::chart::{
    Chart, ChartAxis, ChartGroup, ChartPoint, FigureEstimate, LimitLine, Of, Series, Table,
    estimate, mark_front,
};
use super::configuration;
use super::cost::Price;
use super::facts::distinct;
use super::load_axis::LoadAxis;

#[derive(Debug, Clone, Copy)]
pub struct SweepPoint<'a> {
    /// For the table, such as `concurrency 8`.
    pub name: &'a str,
    /// The folder or the label that it was given with; `None` for a run that was given by itself.
    pub source: Option<&'a str>,
    pub info: &'a RunInfo,
    pub summary: &'a Summary,
    /// Whether it meets all objectives; `None` without any, or where that is unknown.
    pub is_met: Option<bool>,
}

/// What the user says of all runs of a page.
#[derive(Debug, Clone, Default)]
pub struct PageContext {
    /// GPUs behind the endpoint.
    pub gpus: Option<u32>,
    pub price: Option<Price>,
    /// Objectives to draw and to judge; empty for none.
    pub slo: Slo,
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
        row.extend(throughputs.iter().map(|(head, one)| cell(*head, rounded(point.value(*one)))));
        if self.context.gpus.is_some() {
            let head = if is_pooled { "items/s per GPU" } else { "tok/s per GPU" };
            let found = point.value(self.throughput());
            row.push(cell(head, rounded(found.map(|found| found / self.share()))));
        }
        if !is_pooled {
            row.push(cell("tok/s per user", rounded(point.value(USER_SPEED))));
        }
        let latencies: &[Figure] = if is_pooled { &POOLED_LATENCIES } else { &LATENCIES };
        row.extend(
            latencies.iter().map(|one| {
                cell(format!("{one} {}", one.unit().name()), rounded(point.value(*one)))
            }),
        );
        row.extend(self.costs(point));
        if !self.context.slo.objectives.is_empty() {
            let words = point.is_met.map(|is_met| if is_met { "met" } else { "missed" });
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
        position: impl Fn(&SweepPoint<'_>) -> Option<(f64, FigureEstimate)>,
    ) -> Vec<Series> {
        let of = |(look, name): (usize, &String)| {
            let mine = |(index, point): (usize, &SweepPoint<'_>)| {
                let is_mine = &self.names[index] == name && point.axis() == axis;
                let (x, y) = position(point).filter(|_| is_mine)?;
                let text = match point.is_met {
                    Some(true) => "meets all objectives".to_owned(),
                    Some(false) => "violates an objective".to_owned(),
                    None => String::new(),
                };
                Some(ChartPoint {
                    x,
                    y: y.value,
                    low: y.low,
                    high: y.high,
                    run: Some(index),
                    text,
                    ..ChartPoint::default()
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
        }
    }

    fn over_load(&self, axis: LoadAxis) -> Vec<Chart> {
        let x = self.load_axis(axis);
        let throughput = |point: &SweepPoint<'_>| {
            Some((point.load()?, self.per_gpu(estimate(point.summary, self.throughput())?)))
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
                Some((point.load()?, estimate(point.summary, figure)?))
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
                Some((point.value(figure)?, self.per_gpu(found)))
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
            Some((point.value(USER_SPEED)?, self.per_gpu(estimate(point.summary, OUTPUT)?)))
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
            Some((
                point.value(USER_SPEED)?,
                FigureEstimate { value: cost(total.value)?, low, high },
            ))
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
