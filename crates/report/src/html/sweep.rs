//! Several runs on one page: a row for each, and curves over their load.

use serde_json::json;
use tokometer_metrics::Summary;
use tokometer_metrics::figure::{Figure, Quantity, Statistic};
use tokometer_record::{RecordedLoad, RunInfo};

use super::curves::{Curve, Table};

/// One run of several.
#[derive(Debug, Clone, Copy)]
pub struct SweepPoint<'a> {
    /// What was run.
    pub info: &'a RunInfo,
    /// What was measured.
    pub summary: &'a Summary,
}

impl SweepPoint<'_> {
    fn load(&self) -> f64 {
        load(&self.info.load).0
    }

    fn value(&self, figure: Figure) -> Option<f64> {
        let key = figure.quantity.key();
        match figure.statistic.percentile() {
            Some(percentile) => {
                self.summary.distribution(key)?.percentile(percentile.percent())?.value
            }
            None => self.summary.figure(key),
        }
    }
}

/// The load of a run as one number with its name.
fn load(load: &RecordedLoad) -> (f64, &'static str) {
    match (load.request_rate, load.max_concurrency, load.planned_requests) {
        (Some(rate), _, _) => (rate, "request rate, requests/s"),
        (None, Some(cap), _) => (f64::from(cap), "maximum requests in flight"),
        (None, None, Some(planned)) => (planned as f64, "simultaneous requests"),
        (None, None, None) => (f64::NAN, "load"),
    }
}

const THROUGHPUTS: [(&str, Figure); 2] =
    [("req/s", Figure::whole(Quantity::Requests)), ("tok/s", Figure::whole(Quantity::Output))];
const LATENCIES: [Figure; 3] = [
    Figure::percentile(Quantity::Ttft, 50),
    Figure::percentile(Quantity::Ttft, 99),
    Figure::percentile(Quantity::Tpot, 99),
];

/// One row per run.
pub fn overview(points: &[SweepPoint<'_>]) -> Table {
    let rounded = |value: Option<f64>| json!(value.map(|value| (value * 100.0).round() / 100.0));
    let row = |point: &SweepPoint<'_>| {
        let counts = &point.summary.counts;
        let mut row = vec![
            json!(point.info.name),
            rounded(Some(point.load())),
            json!(counts.succeeded),
            json!(counts.failed),
        ];
        let figures = THROUGHPUTS.iter().map(|(_, figure)| figure).chain(&LATENCIES);
        row.extend(figures.map(|figure| rounded(point.value(*figure))));
        row.push(json!(point.summary.verdict));
        row
    };
    let heads = ["run", "load", "answered", "failed"].into_iter();
    let heads = heads.chain(THROUGHPUTS.iter().map(|(head, _)| *head)).map(str::to_owned);
    let latency = |figure: &Figure| format!("{figure} {}", figure.unit().name());
    let heads = heads.chain(LATENCIES.iter().map(latency)).chain(["verdict".to_owned()]);
    Table { columns: heads.collect(), rows: points.iter().map(row).collect() }
}

/// Throughput and latencies over the load, and throughput over the speed for one user. `gpus` is the
/// number of GPUs behind the endpoint, where it is known.
pub fn curves(points: &[SweepPoint<'_>], gpus: Option<u32>) -> Vec<Curve> {
    let mut sorted: Vec<&SweepPoint<'_>> = points.iter().collect();
    sorted.sort_by(|a, b| a.load().total_cmp(&b.load()));
    let output = Figure::whole(Quantity::Output);
    let speed = Figure::percentile(Quantity::UserSpeed, 50);
    let share = f64::from(gpus.unwrap_or(1).max(1));
    let front = sorted.iter().filter_map(|point| {
        let user = point.value(speed)?;
        Some((user, point.value(output)? / share))
    });
    let y = if gpus.is_some() { "tokens/s per GPU" } else { "tokens/s" };
    vec![
        curve(&sorted, ("Throughput over load", "tokens/s"), &[("output".to_owned(), output)]),
        curve(&sorted, ("Time to first token over load", "ms"), &percentiles(Quantity::Ttft)),
        curve(&sorted, ("Time per output token over load", "ms"), &percentiles(Quantity::Tpot)),
        Curve::front("Pareto front", ["tokens/s per user", y], front.collect()),
    ]
}

fn percentiles(quantity: Quantity) -> [(String, Figure); 2] {
    [Statistic::MEDIAN, Statistic::P99]
        .map(|statistic| (statistic.to_string(), Figure::new(quantity, statistic)))
}

/// One line per figure, by its name.
fn curve(
    sorted: &[&SweepPoint<'_>],
    (title, y): (&str, &str),
    lines: &[(String, Figure)],
) -> Curve {
    let column = |figure: Figure| sorted.iter().map(|point| point.value(figure)).collect();
    let loads = sorted.iter().map(|point| Some(point.load())).collect();
    let values = lines.iter().map(|(_, figure)| column(*figure));
    Curve {
        title: title.to_owned(),
        x: sorted.first().map_or("load", |first| load(&first.info.load).1).to_owned(),
        y: y.to_owned(),
        names: lines.iter().map(|(name, _)| name.clone()).collect(),
        columns: std::iter::once(loads).chain(values).collect(),
        is_front: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn runs_stand_by_their_load_whatever_order_they_were_given_in() {
        let (mut slow, mut fast) = (testing::info(), testing::info());
        slow.load.request_rate = Some(1.0);
        fast.load.request_rate = Some(8.0);
        let mut summary = testing::summary();
        summary.figures.insert(Quantity::Output.key().to_owned(), Some(120.0));
        let points = [
            SweepPoint { info: &fast, summary: &summary },
            SweepPoint { info: &slow, summary: &summary },
        ];
        let table = overview(&points);
        assert_eq!(
            table.columns.join(", "),
            "run, load, answered, failed, req/s, tok/s, p50 TTFT ms, p99 TTFT ms, p99 TPOT ms, verdict"
        );
        assert_eq!((&table.rows[0][1], &table.rows[0][5]), (&json!(8.0), &json!(120.0)));
        let curves = curves(&points, Some(4));
        assert_eq!(curves[0].columns, [[Some(1.0), Some(8.0)], [Some(120.0); 2]]);
        assert_eq!(
            (curves[0].x.as_str(), &curves[1].names[1][..]),
            ("request rate, requests/s", "p99")
        );
        assert_eq!(curves[3].y, "tokens/s per GPU");
    }

    #[test]
    fn a_load_without_a_rate_is_its_cap_or_its_requests() {
        let mut asked = testing::info().load;
        asked.request_rate = None;
        (asked.max_concurrency, asked.planned_requests) = (Some(8), Some(100));
        assert_eq!(load(&asked), (8.0, "maximum requests in flight"));
        asked.max_concurrency = None;
        assert_eq!(load(&asked), (100.0, "simultaneous requests"));
    }
}
