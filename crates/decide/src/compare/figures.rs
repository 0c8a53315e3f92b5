//! Which figures are compared.

use tokometer_figures::figure::{Figure, Percentile, Quantity, Statistic};

const THROUGHPUTS: [Quantity; 3] = [Quantity::Requests, Quantity::Output, Quantity::Total];

/// Percentiles that are compared by default.
const PERCENTILES: [Percentile; 3] =
    [Percentile::whole(50), Percentile::whole(90), Percentile::whole(99)];

/// The figures of a comparison in the order of its rows: the default ones, and those that rules name.
pub fn compared(asked: impl IntoIterator<Item = Figure>) -> Vec<Figure> {
    let statistics = || {
        let percentiles = PERCENTILES.into_iter().map(Statistic::Percentile);
        std::iter::once(Statistic::Mean).chain(percentiles)
    };
    let latencies = Quantity::LATENCIES
        .into_iter()
        .flat_map(|quantity| statistics().map(move |statistic| Figure { quantity, statistic }));
    let throughputs = THROUGHPUTS.into_iter().map(Figure::whole);
    let mut figures: Vec<Figure> = throughputs.chain(latencies).chain(asked).collect();
    figures.sort_unstable();
    figures.dedup();
    figures
}

/// The percentiles that a summary must have for these figures, in percent.
pub fn percentiles(figures: &[Figure]) -> Vec<f64> {
    let mut found: Vec<Percentile> =
        figures.iter().filter_map(|figure| figure.statistic.percentile()).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(Percentile::percent).collect()
}

/// Whether runs can be compared by this figure. Extremes and spreads of single runs vary too much by
/// chance.
pub(super) fn is_comparable(figure: Figure) -> bool {
    match figure.statistic {
        Statistic::Whole => THROUGHPUTS.contains(&figure.quantity),
        Statistic::Mean | Statistic::Percentile(_) => {
            Quantity::LATENCIES.contains(&figure.quantity)
        }
        Statistic::Std | Statistic::Min | Statistic::Max => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_a_rule_asks_for_takes_its_place_among_the_others() {
        let asked = Figure::parse("p99.9 ttft").unwrap();
        let figures = compared([asked, Figure::mean(Quantity::Ttft)]);
        let labels: Vec<String> = figures.iter().map(|figure| figure.label()).collect();
        assert_eq!(
            labels[..8],
            [
                "Request throughput",
                "Output throughput",
                "Total throughput",
                "mean TTFT",
                "p50 TTFT",
                "p90 TTFT",
                "p99 TTFT",
                "p99.9 TTFT",
            ]
        );
        assert_eq!(figures.len(), 20);
        assert_eq!(percentiles(&figures), [50.0, 90.0, 99.0, 99.9]);
        assert!(figures.iter().all(|figure| is_comparable(*figure)));
    }
}
