//! What a table says before anything is fitted: rows that fit no engine, rows that do not belong
//! together, and the mark of a poll.

use std::ops::Range;

use tokometer_figures::figure::{Figure, Quantity};

use super::row::MeasuredRow;
use crate::Error;

/// A row that was left out of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    pub row: usize,
    pub reason: String,
}

/// Share by which a smaller burst must be slower than a larger one to be called stalled.
const STALL_SHARE: f64 = 0.05;

/// Rows with a stall. The first `n` requests of a larger burst are served as those of a burst of `n`, so a
/// larger one cannot have the smaller mean time to first token; where it has, the smaller run was held
/// up by something that is not the engine's steady work.
pub fn stalls(rows: &[MeasuredRow]) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(mine) = row.cells.get(Figure::mean(Quantity::Ttft)) else { continue };
        let witness = rows
            .iter()
            .filter(|other| {
                row.is_burst() && other.requests > row.requests && other.is_same_sweep(row)
            })
            .filter_map(|other| {
                other.cells.get(Figure::mean(Quantity::Ttft)).map(|ttft| (ttft, other))
            })
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((theirs, other)) = witness else { continue };
        if mine > theirs * (1.0 + STALL_SHARE) {
            let reason = format!(
                "stalled: its mean TTFT of {mine:.0} ms exceeds the {theirs:.0} ms of the burst of {} requests, which contains it",
                other.requests
            );
            left_out.push(LeftOut { row: at, reason });
        }
    }
    left_out
}

/// Ratio of the mean TPOT of one load in two rows, as far as one engine explains it.
const SAME_ENGINE: Range<f64> = 0.6..1.7;

/// Refuses tables that no single engine can have printed.
pub(crate) fn check(rows: &[MeasuredRow]) -> Result<(), Error> {
    if rows.len() < super::ROWS_MIN {
        return Err(Error::TooFewRows { rows: rows.len(), least: super::ROWS_MIN });
    }
    for (at, row) in rows.iter().enumerate() {
        if row.requests == 0 || row.input_tokens < row.requests || row.output_tokens < row.requests
        {
            return Err(Error::EmptyRow { row: at, label: row.label.clone() });
        }
        let earlier = rows[..at]
            .iter()
            .find(|earlier| earlier.requests == row.requests && earlier.is_same_sweep(row));
        let Some(earlier) = earlier else { continue };
        let tpot = |row: &MeasuredRow| {
            row.cells.get(Figure::mean(Quantity::Tpot)).filter(|tpot_ms| *tpot_ms > 0.0)
        };
        let Some((one_tpot_ms, other_tpot_ms)) = tpot(earlier).zip(tpot(row)) else { continue };
        if !SAME_ENGINE.contains(&(other_tpot_ms / one_tpot_ms)) {
            return Err(Error::MixedEngines {
                one: earlier.label.clone(),
                other: row.label.clone(),
                one_tpot_ms,
                other_tpot_ms,
            });
        }
    }
    Ok(())
}

/// Poll intervals that are looked for, in milliseconds.
const QUANTA: [f64; 4] = [50.0, 100.0, 200.0, 250.0];
/// A gap is just above a multiple of an interval when it exceeds it by at most this share of the interval.
/// Gaps that know nothing of the interval lie there with the same probability.
const JUST_ABOVE: f64 = 0.12;
/// Fewest gaps that can show an interval.
const GAPS_MIN: usize = 6;
/// Standard deviations by which the gaps just above multiples must exceed what chance puts there.
const DEVIATIONS_MIN: f64 = 5.0;

/// The interval at which steps are completed, if the printed gaps show one: medians and 99th
/// percentiles of gaps then lie just above its multiples.
pub fn quantum_of<'a>(rows: impl Iterator<Item = &'a MeasuredRow>) -> Option<f64> {
    let rows: Vec<&MeasuredRow> = rows.collect();
    let best = QUANTA.into_iter().filter_map(|quantum| {
        let gaps: Vec<f64> = rows
            .iter()
            .flat_map(|row| {
                [
                    row.cells.get(Figure::percentile(Quantity::Itl, 50)),
                    row.cells.get(Figure::percentile(Quantity::Itl, 99)),
                ]
            })
            .flatten()
            .filter(|gap| *gap > 1.5 * quantum)
            .collect();
        let is_above = |gap: &&f64| {
            let multiple = **gap / quantum;
            multiple - libm::floor(multiple) <= JUST_ABOVE
        };
        let hits = gaps.iter().filter(is_above).count() as f64;
        let count = gaps.len() as f64;
        let deviation = libm::sqrt(count * JUST_ABOVE * (1.0 - JUST_ABOVE));
        let excess = (hits - count * JUST_ABOVE) / deviation.max(1e-9);
        (gaps.len() >= GAPS_MIN && excess > DEVIATIONS_MIN).then_some((excess, quantum))
    });
    best.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, quantum)| quantum)
}
