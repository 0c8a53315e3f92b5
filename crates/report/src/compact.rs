//! Another tool's report in our compact layout.
//!
//! Shows what the report has, by the definitions of the tool that printed it; a run of our own is
//! shown by `summary`, which knows more.

use tokometer_compat::{Field, Layout, Report};
use tokometer_figures::figure::{Figure, Quantity, Statistic};

use crate::grid::Grid;
use crate::style::{Style, Tone};

const LABEL: usize = 10;

const STATISTICS: [Statistic; 4] =
    [Statistic::Mean, Statistic::MEDIAN, Statistic::P90, Statistic::P99];

const RATES: [(&str, Field); 4] = [
    ("requests/s", Field::RequestThroughput),
    ("output tok/s", Field::OutputThroughput),
    ("total tok/s", Field::TotalThroughput),
    ("goodput req/s", Field::Goodput),
];

/// The report in this layout. `style` applies to our own layout only: the others are fixed bytes.
pub fn print_report(report: &Report, layout: Layout, style: Style) -> String {
    tokometer_compat::print(report, layout).unwrap_or_else(|| compact(report, style))
}

fn compact(report: &Report, style: Style) -> String {
    let mut lines = vec![head(report, style)];
    let rates: Vec<String> = RATES
        .iter()
        .filter_map(|(name, field)| Some(format!("{:.2} {name}", report.number(*field)?)))
        .collect();
    if !rates.is_empty() {
        lines.push(format!("{:<LABEL$}  {}", "throughput", rates.join(" · ")));
    }
    let mut grid = Grid::new().left("ms").at_least(LABEL);
    for statistic in STATISTICS {
        grid = grid.right(statistic.to_string()).at_least(8);
    }
    for quantity in Quantity::LATENCIES {
        let values = STATISTICS.map(|statistic| report.figure(Figure::new(quantity, statistic)));
        if values.iter().any(Option::is_some) {
            let shown = |value: Option<f64>| value.map_or("-".to_owned(), |ms| style.millis(ms));
            grid.push([quantity.label().to_owned()].into_iter().chain(values.map(shown)));
        }
    }
    lines.extend(grid.lines());
    lines.join("\n") + "\n"
}

fn head(report: &Report, style: Style) -> String {
    let title = report.context.heading.as_deref().unwrap_or("report");
    let layout = report.layout.map_or("unknown layout", Layout::about);
    let count = |field, word: &str| report.number(field).map(|count| format!(" · {count} {word}"));
    let parts = [
        count(Field::Successful, "succeeded"),
        count(Field::Failed, "failed"),
        report.number(Field::Duration).map(|secs| format!(" · {secs} s")),
    ];
    let parts: String = parts.into_iter().flatten().collect();
    format!("{} ({layout}){parts}", style.paint(Tone::Strong, title))
}

#[cfg(test)]
mod tests {
    use tokometer_compat::{Selection, from_summary};

    use tokometer_compat::Metric;

    use super::*;
    use crate::testing::{info, summary};

    #[test]
    fn our_own_layout_is_compact_and_the_others_are_their_tools() {
        let shown = Selection {
            metrics: vec![Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::E2el],
            percentiles: vec![50.0, 99.0],
        };
        let report = from_summary(&summary(), &info(), Layout::Tokometer, &shown).unwrap();
        let text = |layout| print_report(&report, layout, Style::default());
        insta::assert_snapshot!("compact", text(Layout::Tokometer));
        assert_eq!(Some(text(Layout::V4)), tokometer_compat::print(&report, Layout::V4));
    }
}
