//! The false-alarm rate and the power of a comparison, from runs in virtual time with a known truth.

use std::collections::BTreeMap;

use tokometer_base::Seed;
use tokometer_base::seed::whole_between;
use tokometer_figures::figure::{Figure, Quantity};
use tokometer_schedule::{Arrivals, First, Pace};
use tokometer_sim::Profile;
use tokometer_twin::{Ask, PredictOptions, RequestLoad, predict};

use super::comparison::{ComparedFigure, Comparison, Criteria};
use super::difference::Conclusion;
use super::figures::compared;
use super::run::Run;

/// Comparisons of each kind.
const COUNT: u64 = 100;
/// Runs per side, each with its own arrivals and lengths.
const RUNS: u64 = 3;
const REQUESTS: u64 = 120;
/// At 95 % confidence 5 of 100 comparisons of equal servers are wrong on average. More than this many
/// are so unlikely (once in a thousand) that the level must be wrong.
const MOST_ALARMS: usize = 12;

/// One run of a server whose steps take `scale` times as long.
fn run(scale: f64, seed: Seed) -> Run {
    let mut profile = Profile::default();
    profile.cost.scale = scale;
    let lengths = seed.stream("lengths");
    let ask = |index: u64| {
        let mut generator = lengths.at(index);
        let mut tokens =
            |low, high| u32::try_from(whole_between(&mut generator, low, high)).unwrap();
        Ask::new(tokens(128, 384), tokens(32, 96))
    };
    let asks: Vec<Ask> = (0..REQUESTS).map(ask).collect();
    let pace = Pace::flat(10.0, Some(1.0), First::Waits);
    let workload = RequestLoad::burst(asks).arriving(Arrivals::Paced(pace));
    let figures = predict(&profile, &workload, seed, PredictOptions::default()).unwrap().figures;
    let values = BTreeMap::from([
        (Figure::whole(Quantity::Output), figures.output_throughput().unwrap()),
        (Figure::mean(Quantity::Ttft), figures.ttft.mean_ms().unwrap()),
        (Figure::mean(Quantity::Tpot), figures.tpot.mean_ms().unwrap()),
        (Figure::mean(Quantity::Itl), figures.itl.mean_ms().unwrap()),
        (Figure::mean(Quantity::E2e), figures.e2el.mean_ms().unwrap()),
    ]);
    Run { values, ..Run::default() }
}

/// The rows of all comparisons of a server with one that is `scale` times as slow, by figure.
fn rows(scale: f64) -> BTreeMap<Figure, Vec<ComparedFigure>> {
    let mut rows: BTreeMap<Figure, Vec<ComparedFigure>> = BTreeMap::new();
    for at in 0..COUNT {
        let side = |scale: f64, number: u64| {
            let seed = |of: u64| Seed((at * 2 + number) * RUNS + of);
            (0..RUNS).map(|of| run(scale, seed(of))).collect::<Vec<Run>>()
        };
        let (a, b) = (side(1.0, 0), side(scale, 1));
        for row in Comparison::of_runs(&a, &b, Criteria::of(&compared([])), Vec::new()).rows {
            rows.entry(row.figure).or_default().push(row);
        }
    }
    rows
}

fn concluded(rows: &[ComparedFigure], wanted: &[Conclusion]) -> usize {
    let is_wanted = |row: &&ComparedFigure| {
        row.difference.is_some_and(|found| wanted.contains(&found.conclusion))
    };
    rows.iter().filter(is_wanted).count()
}

#[test]
fn equal_servers_differ_no_more_often_than_the_level_says() {
    let rows = rows(1.0);
    assert_eq!(rows.len(), 5);
    for (figure, rows) in rows {
        let alarms = concluded(&rows, &[Conclusion::Better, Conclusion::Worse]);
        assert!(alarms <= MOST_ALARMS, "{}: {alarms} of {}", figure.label(), rows.len());
    }
}

/// A change is always found where the detectable difference is well below it, and never with the
/// wrong sign.
#[test]
fn a_server_that_is_three_percent_slower_is_found_where_three_percent_is_detectable() {
    for (figure, rows) in rows(1.03) {
        let label = figure.label();
        let could_show =
            |row: &&ComparedFigure| row.difference.is_some_and(|found| found.detectable < 0.02);
        let able: Vec<ComparedFigure> = rows.iter().filter(could_show).copied().collect();
        // In an open loop the arrivals set the throughput, so the servers are equal in it.
        if figure.quantity != Quantity::Output {
            assert_eq!(concluded(&able, &[Conclusion::Worse]), able.len(), "{label}");
        }
        assert_eq!(concluded(&rows, &[Conclusion::Better]), 0, "{label}");
        if matches!(figure.quantity, Quantity::Tpot | Quantity::Itl) {
            assert_eq!(concluded(&rows, &[Conclusion::Worse]), rows.len(), "{label}");
        }
    }
}
