//! Percentiles between two that one cause has moved.
//!
//! The effect of a long delay counts where it exceeds chance, and chance differs from percentile to
//! percentile. A delay that has moved the median and P99 by more than chance explains has moved what lies
//! between them, even where the values of this run are too far apart to show it.

use super::judge::ShownFigure;
use tokometer_figures::figure::Percentile;

/// The effects of one cause on `shown`, where each percentile is at least as affected as the less affected
/// of two of the same quantity, one below and one above it.
pub(super) fn raised(shown: &[ShownFigure], shares: &[Option<f64>]) -> Vec<Option<f64>> {
    let percent = |one: &ShownFigure| one.statistic.percentile().map(Percentile::percent);
    let least = |of: &ShownFigure| -> Option<f64> {
        let own = percent(of)?;
        let largest = |is_meant: &dyn Fn(f64) -> bool| {
            let same = shown.iter().zip(shares).filter(|(one, _)| one.metric.key == of.metric.key);
            let meant = same.filter(|(one, _)| percent(one).is_some_and(is_meant));
            meant.filter_map(|(_, share)| *share).max_by(f64::total_cmp)
        };
        let (below, above) = (largest(&|other| other < own)?, largest(&|other| other > own)?);
        Some(below.min(above))
    };
    let raise = |(one, share): (&ShownFigure, &Option<f64>)| match (*share, least(one)) {
        (Some(share), Some(least)) => Some(share.max(least)),
        (share, _) => share,
    };
    shown.iter().zip(shares).map(raise).collect()
}
