//! Errors and noise of held-out runs, and what they come to.

use tokometer_figures::Figure;

use super::figures::{COMPARED, Figures};
use super::neighbours::Guess;
use super::plan::Kind;

/// A held-out run: measured, predicted and guessed.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) title: String,
    pub(super) kind: Kind,
    /// One per repeat.
    pub(super) measured: Vec<Figures>,
    pub(super) predicted: Figures,
    pub(super) guessed: Option<Guess>,
}

/// One figure of a held-out run. Errors are shares of what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) figure: Figure,
    pub(super) measured: f64,
    /// Absent with one repeat.
    pub(super) noise: Option<f64>,
    pub(super) predicted: f64,
    pub(super) error: f64,
    pub(super) guessed: Option<f64>,
    pub(super) guess_error: Option<f64>,
}

/// The cells of a case. Figures of zero have no errors and are left out.
pub(super) fn cells(case: &Case) -> Vec<Cell> {
    let Some(mean) = Figures::mean(&case.measured) else { return Vec::new() };
    let cell = |figure: Figure| {
        let measured = mean.get(figure);
        let share = |value: f64| value / measured - 1.0;
        let predicted = case.predicted.get(figure);
        let guessed = case.guessed.as_ref().map(|guess| guess.figures.get(figure));
        Cell {
            kind: case.kind,
            figure,
            measured,
            noise: noise(&case.measured, figure),
            predicted,
            error: share(predicted),
            guessed,
            guess_error: guessed.map(share),
        }
    };
    COMPARED.into_iter().filter(|figure| mean.get(*figure) > 0.0).map(cell).collect()
}

/// The difference of two repeats over their mean.
pub(super) fn noise(repeats: &[Figures], figure: Figure) -> Option<f64> {
    let [one, other] = repeats else { return None };
    let (one, other) = (one.get(figure), other.get(figure));
    Some((one - other).abs() / f64::midpoint(one, other))
}

/// What some cells come to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally {
    pub(super) cells: usize,
    pub(super) noise: Option<f64>,
    pub(super) model: Spread,
    pub(super) guess: Option<Spread>,
    /// Share of the cells with a guess in which the model is nearer.
    pub(super) nearer: Option<f64>,
}

/// How far off some cells are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) largest: f64,
    /// Share within 10 %.
    pub(super) within: f64,
}

/// What these cells come to. `None` of none.
pub(super) fn tally<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<Tally> {
    let cells: Vec<&Cell> = cells.collect();
    let both = || cells.iter().filter_map(|cell| Some((cell.error.abs(), cell.guess_error?.abs())));
    let nearer = both().filter(|(model, guess)| model < guess).count();
    let compared = both().count();
    Some(Tally {
        cells: cells.len(),
        noise: median(cells.iter().filter_map(|cell| cell.noise).collect()),
        model: spread(cells.iter().map(|cell| cell.error.abs()).collect())?,
        guess: spread(both().map(|(_, guess)| guess).collect()),
        nearer: (compared > 0).then(|| nearer as f64 / compared as f64),
    })
}

fn spread(errors: Vec<f64>) -> Option<Spread> {
    let within = errors.iter().filter(|error| **error <= 0.1).count() as f64 / errors.len() as f64;
    let largest = errors.iter().copied().reduce(f64::max)?;
    Some(Spread { median: median(errors)?, largest, within })
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    Some(if values.len() % 2 == 1 { *upper } else { f64::midpoint(values[middle - 1], *upper) })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::evidence::figures::tests::level;

    /// A case whose figures are all the same number.
    pub(in crate::evidence) fn case(
        measured: &[f64],
        predicted: f64,
        guessed: Option<f64>,
    ) -> Case {
        Case {
            title: "8 streams, 64/32".to_owned(),
            kind: Kind::Streams,
            measured: measured.iter().map(|value| level(*value)).collect(),
            predicted: level(predicted),
            guessed: guessed.map(|value| Guess {
                figures: level(value),
                neighbours: "c4-a and c16-a".to_owned(),
            }),
        }
    }

    #[test]
    fn errors_are_shares_of_the_mean_of_the_repeats() {
        let all = cells(&case(&[90.0, 110.0], 105.0, Some(80.0)));
        assert_eq!(all.len(), COMPARED.len());
        let cell = all[0];
        let is = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value}");
        is(cell.measured, 100.0);
        is(cell.noise.unwrap(), 0.2);
        is(cell.error, 0.05);
        is(cell.guess_error.unwrap(), -0.2);
        assert_eq!(cells(&case(&[100.0], 105.0, None))[0].noise, None);
        assert!(cells(&case(&[], 1.0, None)).is_empty());
    }

    #[test]
    fn a_tally_tells_medians_extremes_and_who_is_nearer() {
        let mut all = cells(&case(&[100.0, 100.0], 105.0, Some(120.0)));
        all.extend(cells(&case(&[100.0, 100.0], 70.0, Some(90.0))));
        let found = tally(all.iter()).unwrap();
        assert_eq!(found.cells, 16);
        assert!((found.model.median - 0.175).abs() < 1e-9, "{found:?}");
        assert!((found.model.largest - 0.3).abs() < 1e-9);
        assert!((found.model.within - 0.5).abs() < 1e-9);
        assert!((found.guess.unwrap().median - 0.15).abs() < 1e-9);
        assert!((found.nearer.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(tally([].iter()), None);
        let alone = cells(&case(&[100.0], 105.0, None));
        assert_eq!(tally(alone.iter()).unwrap().nearer, None);
    }
}
