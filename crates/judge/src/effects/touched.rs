//! Requests that overlap a delay, and the figures without them.

use tokometer_base::Nanos;

use crate::limits::{LEFT_OUT_ABOVE, LEFT_OUT_MOST};
use tokometer_figures::figure::Statistic;
use tokometer_figures::rows::{Fate, RequestRow, TimeSpan};
use tokometer_figures::sample::{Ordered, Sample};

/// Which requests are left out, and the longest delay that was not a reason to leave one out.
pub(crate) struct Touched {
    /// In the order of the rows.
    pub(crate) is_touched: Vec<bool>,
    pub(crate) count: usize,
    pub(crate) longest_kept: Nanos,
}

/// A delay with its length, which may be shorter than the time that it affects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delay {
    pub(crate) length: Nanos,
    pub(crate) span: TimeSpan,
}

/// Leaves out the requests that wait or are in flight during a long delay. Where these would be most of
/// the run, only longer delays count; in the end none does, and all are bounded by their sum.
pub(crate) fn leave_out(rows: &[RequestRow], delays: impl IntoIterator<Item = Delay>) -> Touched {
    let (mut longest, mut long) = (Nanos::ZERO, Vec::new());
    for delay in delays {
        longest = longest.max(delay.length);
        // Every request of a large run has a delay, and few have a long one.
        long.extend((delay.length > LEFT_OUT_ABOVE).then_some(delay));
    }
    let mut limit = LEFT_OUT_ABOVE;
    while limit < longest {
        let longer = long.iter().filter(|delay| delay.length > limit);
        let (is_touched, count) = overlapping(rows, longer.map(|delay| delay.span));
        if is_part(count, rows) {
            return Touched { is_touched, count, longest_kept: limit };
        }
        limit = limit + limit;
    }
    Touched { is_touched: vec![false; rows.len()], count: 0, longest_kept: longest }
}

/// Leaves out the requests that wait or are in flight during one of the spans. `None` where these are
/// most of the run.
pub(crate) fn leave_out_all(
    rows: &[RequestRow],
    spans: impl Iterator<Item = TimeSpan>,
) -> Option<Touched> {
    let (is_touched, count) = overlapping(rows, spans);
    is_part(count, rows).then_some(Touched { is_touched, count, longest_kept: Nanos::ZERO })
}

/// Whether enough requests stay when so many are left out.
fn is_part(count: usize, rows: &[RequestRow]) -> bool {
    count as f64 <= LEFT_OUT_MOST * rows.len() as f64
}

/// Which requests overlap one of the spans, and how many.
fn overlapping(rows: &[RequestRow], spans: impl Iterator<Item = TimeSpan>) -> (Vec<bool>, usize) {
    let mut spans: Vec<TimeSpan> = spans.collect();
    spans.sort_by_key(|span| span.begin);
    // Joined spans are disjoint, so the last one that begins before a request ends decides.
    let mut joined: Vec<TimeSpan> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    let is_touched = |row: &RequestRow| {
        let before = joined.partition_point(|span| span.begin <= row.end);
        before.checked_sub(1).is_some_and(|nth| joined[nth].end >= row.due.min(row.start))
    };
    let is_touched: Vec<bool> = rows.iter().map(is_touched).collect();
    let count = is_touched.iter().filter(|touched| **touched).count();
    (is_touched, count)
}

/// One latency of the rows, changed by `change`, without those that `keep` refuses.
pub(crate) fn values(
    rows: &[RequestRow],
    value: impl Fn(&RequestRow) -> Option<f64>,
    keep: impl Fn(usize) -> bool,
    change: impl Fn(usize, f64) -> f64,
) -> Ordered {
    let kept = rows.iter().enumerate().filter(|(nth, _)| keep(*nth));
    let of = |(nth, row): (usize, &RequestRow)| match row.fate {
        Fate::Succeeded => value(row).map(|value| change(nth, value).max(0.0)),
        Fate::Failed => Some(f64::INFINITY),
        Fate::Cancelled | Fate::Abandoned => None,
    };
    kept.filter_map(of).collect::<Sample>().into_ordered()
}

/// A statistic of a sample; `None` where it is infinite or there is none.
pub(crate) fn statistic(sample: &Ordered, of: Statistic) -> Option<f64> {
    let value = match of {
        Statistic::Mean => sample.mean(),
        Statistic::Percentile(one) => sample.percentile(one.percent()),
        _ => None,
    };
    value.filter(|value| value.is_finite())
}

/// Half the width of the statistic's 95 % interval, as a share of it, as if the values were independent.
pub(crate) fn margin(sample: &Ordered, of: Statistic) -> Option<f64> {
    let value = statistic(sample, of).filter(|value| *value > 0.0)?;
    let width = match of {
        Statistic::Mean => 2.0 * sample.mean_margin()?,
        Statistic::Percentile(one) => {
            let (low, high) = sample.interval(one.percent())?;
            high - low
        }
        _ => return None,
    };
    Some(width / 2.0 / value)
}
