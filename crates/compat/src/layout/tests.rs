//! One fixed run in every layout.

use super::Layout;
use crate::from_summary::{Selection, from_summary};
use crate::model::Metric;
use crate::testing::{info, summary};
use crate::{Report, parse};

fn classic() -> impl Iterator<Item = Layout> {
    Layout::all().filter(|layout| *layout != Layout::Tokometer)
}

fn print(report: &Report, layout: Layout) -> String {
    crate::print(report, layout).unwrap()
}

fn shown() -> Selection {
    let queue = [Metric::ClientQueue, Metric::QueuedE2el];
    let metrics = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el].into_iter().chain(queue);
    Selection { metrics: metrics.collect(), percentiles: vec![50.0, 99.0] }
}

#[test]
fn a_fixed_run_looks_the_same_in_every_layout() {
    for layout in classic() {
        let report = from_summary(&summary(), &info(), layout, &shown()).unwrap();
        let text = print(&report, layout);
        insta::assert_snapshot!(format!("layout_{}", layout.name()), text);
    }
}

#[test]
fn a_run_s_block_is_read_back_in_the_layout_it_was_printed_in() {
    for layout in classic() {
        let report = from_summary(&summary(), &info(), layout, &shown()).unwrap();
        let text = print(&report, layout);
        let read = parse(&text).remove(0);
        assert_eq!(read.layout, Some(layout), "{text}");
        assert_eq!(print(&read, layout), text);
    }
}

#[test]
fn only_the_percentiles_asked_for_are_printed_and_in_their_order() {
    let report = from_summary(
        &summary(),
        &info(),
        Layout::V4,
        &Selection { metrics: vec![Metric::Ttft], percentiles: vec![99.0, 50.0] },
    );
    let text = print(&report.unwrap(), Layout::V4);
    let labels: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" TTFT").map(|(label, _)| label)).collect();
    assert_eq!(labels, ["Mean", "Median", "P99", "P50"]);
    assert!(!text.contains("TPOT"));
}

#[test]
fn a_summary_serves_every_view_with_the_percentiles_it_is_told_to_have() {
    let shown = Selection { percentiles: vec![99.9, 50.0, 99.0], ..Selection::default() };
    assert_eq!(shown.needed_percentiles(), [99.9, 50.0, 99.0, 90.0, 95.0]);
}
