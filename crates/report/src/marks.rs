//! The marks behind figures, the same in every table and on every page.
//!
//! `!` and `~`: the client or its machine moved the figure (INVALID, SUSPECT). `?`: too few independent
//! values. What is doubtful at one percentile is doubtful at every higher one.

use tokometer_figures::figure::{Figure, Statistic};
use tokometer_figures::{ConfidenceInterval, NoInterval, PercentileValue, Summary, Verdict};
use tokometer_judge::verdict::limits;

/// The mark of a figure; `None` for one that can be used as it is.
pub(crate) fn mark(summary: &Summary, figure: Figure) -> Option<char> {
    let moved = summary.figure_verdicts.get(&figure.key()).and_then(|found| match found.verdict {
        Verdict::Invalid => Some('!'),
        Verdict::Suspect if found.effect? > limits::SUSPECT_ABOVE => Some('~'),
        _ => None,
    });
    moved.or_else(|| is_doubtful(summary, figure).then_some('?'))
}

fn is_doubtful(summary: &Summary, figure: Figure) -> bool {
    let Statistic::Percentile(asked) = figure.statistic else { return false };
    let Some(values) = summary.distribution(figure.quantity) else { return false };
    let few = |one: &PercentileValue| {
        let is_short = one.interval == ConfidenceInterval::Unknown(NoInterval::TooShort);
        one.value.is_some() && (!one.is_supported || is_short)
    };
    values.percentiles.iter().any(|one| one.percent <= asked.percent() && few(one))
}
