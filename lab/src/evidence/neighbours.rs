//! What somebody without a model would say: interpolation between calibrated neighbours.
//!
//! Between two numbers of streams, linear in the logarithms of streams and figure. For a rate: the closed
//! loop of that request throughput, with throughput the rate times the answer. For a mix of lengths: the
//! middle of the two lengths. For another limit: the same load under the calibrated limit. Each guess
//! tells its neighbours, because for the last three none exist in the proper sense.

use super::figures::Figures;
use super::plan::{Lengths, LoadLevel, Role, Run};

/// A calibrated run and what it showed.
#[derive(Debug, Clone)]
pub(super) struct Known<'a> {
    pub(super) run: &'a Run,
    pub(super) figures: Figures,
}

/// A guess and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Guess {
    pub(super) figures: Figures,
    pub(super) neighbours: String,
}

/// The guess for a run from what calibrated. `rate` is the run's own, where it has one. `None` where the
/// neighbours were not measured.
pub(super) fn guess(run: &Run, rate: Option<f64>, known: &[Known<'_>]) -> Option<Guess> {
    // The same load that calibrated under another limit is nearer than any two neighbours.
    if let Some(same) = known.iter().find(|one| is_same_load(one.run, run)) {
        let neighbours = same.run.name();
        return Some(Guess { figures: same.figures.clone(), neighbours });
    }
    let of = |lengths: &str| one_length(run, rate, &line(lengths, known));
    let is_mixed = run.lengths.spread > 0.0;
    let found = if is_mixed {
        let (a, b) = (of("a")?, of("b")?);
        let figures = a.figures.towards(&b.figures, 0.5);
        Guess { figures, neighbours: format!("middle of {} and {}", a.neighbours, b.neighbours) }
    } else {
        of(run.lengths.name)?
    };
    let tokens_per_s = rate.map(|rate| rate * f64::from(run.lengths.answer));
    Some(match tokens_per_s {
        Some(tokens_per_s) => {
            Guess { figures: found.figures.with_throughput(tokens_per_s), ..found }
        }
        None => found,
    })
}

fn is_same_load(known: &Run, asked: &Run) -> bool {
    let load = |run: &Run| match run.load {
        LoadLevel::Streams { streams, .. } => (0, streams),
        LoadLevel::Share { percent, .. } => (1, percent),
    };
    same_lengths(&known.lengths, &asked.lengths) && load(known) == load(asked)
}

fn same_lengths(one: &Lengths, other: &Lengths) -> bool {
    one.name == other.name
}

/// Closed loops of one length, from few streams to many.
fn line<'a>(lengths: &str, known: &'a [Known<'a>]) -> Vec<(u32, &'a Known<'a>)> {
    let streams = |one: &'a Known<'a>| match one.run.load {
        LoadLevel::Streams { streams, .. } => Some((streams, one)),
        LoadLevel::Share { .. } => None,
    };
    let is_wanted =
        |one: &&Known<'_>| one.run.lengths.name == lengths && one.run.role == Role::Calibrating;
    let mut found: Vec<_> = known.iter().filter(is_wanted).filter_map(streams).collect();
    found.sort_by_key(|(streams, _)| *streams);
    found
}

fn one_length(run: &Run, rate: Option<f64>, line: &[(u32, &Known<'_>)]) -> Option<Guess> {
    match run.load {
        LoadLevel::Streams { streams, .. } => by_streams(streams, line),
        LoadLevel::Share { .. } => by_throughput(rate?, line),
    }
}

/// Between the neighbours in streams, or along the last two.
fn by_streams(streams: u32, line: &[(u32, &Known<'_>)]) -> Option<Guess> {
    if let Some((_, same)) = line.iter().find(|(at, _)| *at == streams) {
        return Some(Guess { figures: same.figures.clone(), neighbours: same.run.name() });
    }
    let above = line.iter().position(|(at, _)| *at > streams).unwrap_or(line.len());
    let above = above.clamp(1, line.len().checked_sub(1)?.max(1));
    let (low, high) = (line.get(above - 1)?, line.get(above)?);
    let along = |at: u32| f64::from(at).ln();
    let weight = (along(streams) - along(low.0)) / (along(high.0) - along(low.0));
    Some(between(low.1, high.1, weight))
}

/// The closed loop of this request throughput; the first one below its own, the last one above it.
fn by_throughput(rate: f64, line: &[(u32, &Known<'_>)]) -> Option<Guess> {
    let of = |at: usize| line.get(at).map(|(_, known)| known.figures.requests_per_s);
    let crossing = (1..line.len()).find(|at| {
        of(at - 1).zip(of(*at)).is_some_and(|(low, high)| low <= rate && rate <= high && low < high)
    });
    if let Some(at) = crossing {
        let (low, high) = (line[at - 1].1, line[at].1);
        let (from, to) = (low.figures.requests_per_s.ln(), high.figures.requests_per_s.ln());
        return Some(between(low, high, (rate.ln() - from) / (to - from)));
    }
    let is_low = of(0).is_some_and(|first| rate < first);
    let end = if is_low { line.first() } else { line.last() };
    end.map(|(_, known)| Guess { figures: known.figures.clone(), neighbours: known.run.name() })
}

fn between(low: &Known<'_>, high: &Known<'_>, weight: f64) -> Guess {
    let neighbours = format!("{} and {}", low.run.name(), high.run.name());
    Guess { figures: low.figures.towards(&high.figures, weight), neighbours }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_figures::{Figure, Quantity};

    use crate::evidence::figures::tests::level;
    use crate::evidence::plan::LLAMACPP;

    fn run(name: &str) -> &'static Run {
        LLAMACPP.runs.iter().find(|run| run.name() == name).unwrap()
    }

    fn known() -> Vec<Known<'static>> {
        let list = [
            ("c1-a", 10.0),
            ("c4-a", 40.0),
            ("c16-a", 160.0),
            ("c32-a", 320.0),
            ("c1-b", 1_000.0),
            ("c4-b", 4_000.0),
            ("c16-b", 16_000.0),
            ("rate50-a", 7.0),
        ];
        list.map(|(name, value)| Known { run: run(name), figures: level(value) }).into()
    }

    fn check(name: &str, rate: Option<f64>, expected: f64, neighbours: &str) {
        let found = guess(run(name), rate, &known()).unwrap();
        assert_eq!(found.neighbours, neighbours);
        let value = found.figures.get(Figure::mean(Quantity::Ttft));
        assert!((value / expected - 1.0).abs() < 1e-9, "{name}: {value}");
    }

    #[test]
    fn streams_lie_between_their_neighbours_in_logarithms() {
        check("c2-a", None, 20.0, "c1-a and c4-a");
        check("c24-a", None, 240.0, "c16-a and c32-a");
        // Beyond the last, along the last two.
        check("c24-b", None, 24_000.0, "c4-b and c16-b");
    }

    #[test]
    fn a_rate_is_the_closed_loop_of_its_throughput() {
        check("rate80-a", Some(8.0), 80.0, "c4-a and c16-a");
        check("rate25-a", Some(0.5), 10.0, "c1-a");
        check("rate80-a", Some(99.0), 320.0, "c32-a");
        let found = guess(run("rate80-a"), Some(8.0), &known()).unwrap();
        assert!((found.figures.get(Figure::whole(Quantity::Output)) - 256.0).abs() < 1e-9);
        assert_eq!(guess(run("rate80-a"), None, &known()), None);
    }

    #[test]
    fn a_mix_is_the_middle_of_both_lengths_and_a_limit_the_load_without_it() {
        check("c8-mix", None, 800.0, "middle of c4-a and c16-a and c4-b and c16-b");
        check("slots8-rate50-a", Some(5.0), 7.0, "rate50-a");
        check("slots8-c24-a", None, 240.0, "c16-a and c32-a");
        assert_eq!(guess(run("c8-a"), None, &[]), None);
    }
}
