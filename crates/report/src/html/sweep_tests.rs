//! Tests of the charts of several runs.

use super::*;
use crate::html::chart::Scale;
use crate::testing;

fn info(rate: Option<f64>, cap: Option<u32>) -> RunInfo {
    let mut info = testing::info();
    (info.load.request_rate, info.load.max_concurrency) = (rate, cap);
    info
}

fn summary(tokens_per_s: f64) -> Summary {
    let mut summary = testing::summary();
    summary.figures.insert(Quantity::Output.key().to_owned(), Some(tokens_per_s));
    summary.figures.insert(Quantity::Total.key().to_owned(), Some(2.0 * tokens_per_s));
    let speeds = summary.distribution("ttft_ms").unwrap().clone();
    summary.distributions.insert(Quantity::UserSpeed.key().to_owned(), speeds);
    summary
}

fn point<'a>(info: &'a RunInfo, summary: &'a Summary) -> SweepPoint<'a> {
    SweepPoint { name: "p", source: None, info, summary, outcome: None }
}

fn chart<'a>(groups: &'a [ChartGroup], title: &str) -> &'a Chart {
    let all = groups.iter().flat_map(|group| &group.charts);
    all.into_iter().find(|chart| chart.title.contains(title)).unwrap()
}

#[test]
fn runs_stand_by_their_load_whatever_order_they_were_given_in() {
    let (fast, slow, measured) = (info(Some(8.0), None), info(Some(1.0), None), summary(120.0));
    let points = [point(&fast, &measured), point(&slow, &measured)];
    let context = PageContext { gpus: Some(4), ..PageContext::default() };
    let sweep = SweepView::new(&points, &context);
    let table = sweep.overview();
    assert_eq!(
        table.columns.join(", "),
        "run, load, answered, failed, req/s, tok/s, tok/s per GPU, tok/s per user, p50 TTFT ms, p99 TTFT ms, p99 TPOT ms, verdict"
    );
    assert_eq!(
        (&table.rows[0][1], &table.rows[0][5], &table.rows[0][6]),
        (&json!(8.0), &json!(120.0), &json!(30.0))
    );
    let groups = sweep.charts();
    let throughput = chart(&groups, "Throughput over load");
    let positions: Vec<(f64, f64)> =
        throughput.series[0].points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(positions, [(1.0, 30.0), (8.0, 30.0)]);
    assert_eq!(throughput.x.label, "request rate (req/s)");
    assert_eq!(throughput.y.label, "output tok/s per GPU");
    assert_eq!(throughput.series[0].points[0].run, Some(1), "a point knows its run");
}

/// A rate of 8 per second, 8 requests in flight and 8 requests at once were three points of one curve.
#[test]
fn rates_bursts_and_concurrency_never_share_an_axis() {
    let (rate, cap, burst) = (info(Some(8.0), None), info(None, Some(8)), info(None, None));
    let measured = summary(120.0);
    let points = [point(&rate, &measured), point(&cap, &measured), point(&burst, &measured)];
    let context = PageContext::default();
    let sweep = SweepView::new(&points, &context);
    let groups = sweep.charts();
    assert_eq!(groups.len(), 3);
    for group in &groups {
        for chart in &group.charts {
            let runs = chart.series.iter().flat_map(|one| &one.points).map(|point| point.run);
            assert_eq!(runs.collect::<std::collections::BTreeSet<_>>().len(), 1, "{}", chart.title);
        }
    }
    let loads: Vec<Value> = sweep.overview().rows.iter().map(|row| row[1].clone()).collect();
    assert_eq!(loads, [json!("8 req/s"), json!("8 in flight"), json!("1000 at once")]);
}

#[test]
fn configurations_are_series_with_one_look_on_every_chart() {
    let (low, high) = (info(None, Some(1)), info(None, Some(64)));
    let (slow, quick) = (summary(100.0), summary(300.0));
    let of = |info, summary, source| SweepPoint { source: Some(source), ..point(info, summary) };
    let points = [
        of(&low, &slow, "base"),
        of(&high, &slow, "base"),
        of(&low, &quick, "tuned"),
        of(&high, &quick, "tuned"),
    ];
    let context = PageContext::default();
    let groups = SweepView::new(&points, &context).charts();
    for chart in groups.iter().flat_map(|group| &group.charts) {
        for series in &chart.series {
            assert_eq!(series.look, usize::from(series.name == "tuned"), "{}", chart.title);
        }
    }
    let throughput = chart(&groups, "Throughput over load");
    let names: Vec<&str> = throughput.series.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["base", "tuned"]);
    assert_eq!(throughput.x.scale, Scale::Log);
}

#[test]
fn objectives_are_lines_on_the_charts_of_their_figures() {
    let (run, measured) = (info(Some(8.0), None), summary(120.0));
    let points =
        [SweepPoint { outcome: Some(ObjectivesOutcome::Missed), ..point(&run, &measured) }];
    let context =
        PageContext { slo: Slo::parse("p50 ttft < 200ms").unwrap(), ..PageContext::default() };
    let sweep = SweepView::new(&points, &context);
    let groups = sweep.charts();
    let against = chart(&groups, "Throughput against p50 TTFT");
    assert_eq!((against.limits[0].of, against.limits[0].at), (Of::X, 200.0));
    assert_eq!(against.series[0].points[0].text, "violates an objective");
    assert_eq!(chart(&groups, "TTFT over load").limits.len(), 1);
    assert!(chart(&groups, "TPOT over load").limits.is_empty());
    assert_eq!(sweep.overview().columns[10], "objectives");
}

#[test]
fn a_price_gives_the_cost_of_a_million_tokens() {
    let (run, measured) = (info(Some(8.0), None), summary(1_000.0));
    let points = [point(&run, &measured)];
    let context = PageContext {
        gpus: Some(8),
        price: Some(Price::parse("3.6/h").unwrap()),
        ..PageContext::default()
    };
    let sweep = SweepView::new(&points, &context);
    let table = sweep.overview();
    let column = table.columns.iter().position(|head| head == "$ per M output tokens").unwrap();
    // 8 GPUs × 3.6 per hour for 3.6 million tokens.
    assert_eq!(table.rows[0][column], json!(8.0));
    let groups = sweep.charts();
    let cost = chart(&groups, "Cost per million tokens");
    assert!((cost.series[0].points[0].y - 4.0).abs() < 1e-9);
}

/// The page called objectives met by a p99 of 36 requests, and drew INVALID runs as all others.
#[test]
fn too_few_requests_and_verdicts_are_marked_at_the_numbers_and_at_the_points() {
    let (slow, quick) = (info(None, Some(4)), info(None, Some(8)));
    let mut few = summary(100.0);
    for percentile in &mut few.distributions.get_mut("ttft_ms").unwrap().percentiles {
        percentile.value = percentile.value.or(Some(300.0));
        percentile.is_supported = percentile.percent < 90.0;
    }
    few.verdict = Verdict::Valid;
    let mut spoilt = summary(900.0);
    spoilt.verdict = Verdict::Invalid;
    let context =
        PageContext { slo: Slo::parse("p99 ttft < 500ms").unwrap(), ..PageContext::default() };
    let outcome = |summary: &Summary| ObjectivesOutcome::of(&context.slo, summary);
    assert_eq!(outcome(&few), Some(ObjectivesOutcome::TooFew));
    let points = [
        SweepPoint { outcome: outcome(&few), ..point(&slow, &few) },
        SweepPoint { name: "eight", ..point(&quick, &spoilt) },
    ];
    let sweep = SweepView::new(&points, &context);
    let table = sweep.overview();
    let cell = |name: &str| {
        let at = table.columns.iter().position(|column| column == name).unwrap();
        table.rows[0][at].clone()
    };
    assert_eq!(cell("p99 TTFT ms")["mark"], "?");
    assert_eq!(cell("objectives")["text"], "too few requests");
    let groups = sweep.charts();
    let doubts: Vec<_> =
        chart(&groups, "TTFT over load").series[0].points.iter().map(|one| one.doubt).collect();
    assert_eq!(doubts[0], Some('?'));
    let doubts: Vec<_> =
        chart(&groups, "Throughput over load").series[0].points.iter().map(|p| p.doubt).collect();
    assert_eq!(doubts, [None, Some('!')]);
    let answer = sweep.answer();
    assert_eq!(
        (answer.tone, answer.headline.as_str()),
        (
            "open",
            "cannot tell: 1 run within all objectives, with too few requests for a percentile"
        )
    );
    assert_eq!(answer.trust, Some((Verdict::Invalid, "eight".to_owned())));
    let plain = PageContext::default();
    let answer = SweepView::new(&points, &plain).answer();
    assert_eq!(
        (answer.tone, answer.headline.as_str()),
        ("open", "100 output tok/s at 4 in flight, the highest")
    );
}
