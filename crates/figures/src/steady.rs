//! Finds the steady part of a run, and whether the server was overloaded.
//!
//! After the load has reached its target, skip one P99 of the time in flight; in a closed loop, which is full
//! from then on, the mean. The steady part is then the longest stretch without a trend in the number in flight and in the rate of completions, at
//! least three mean times in flight long (under five, with a remark). A trend counts when it is both
//! significant and large: a few of many good runs have a significant one by chance.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::RecordedLoad;

use crate::distribution::Distribution;
use crate::rows::{self, Fate, RequestRow, TimeSpan};
use crate::statistics;

/// Share of the limit at which a closed loop counts as full.
const FULL: f64 = 0.95;
/// A trend is significant below this probability.
const SIGNIFICANT: f64 = 0.01;
/// A trend is large when it changes its value by more than this share over the stretch.
const LARGE: f64 = 0.1;
/// Parts of a stretch whose values are compared. Few, so that neighbours are nearly independent.
const PIECES: u64 = 12;
/// Least length of a steady part, in mean times in flight.
const LEAST_LENGTH: f64 = 3.0;
/// A backlog that grows by this share of the arrivals means that the server is overloaded.
const BACKLOG_SHARE: f64 = 0.05;
/// Without a steady part, so does one that grows by this share of its mean: a server that is a little too slow
/// falls behind by a few percent of the arrivals.
const BACKLOG_RISE: f64 = 0.25;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadClass {
    /// All at once without a limit: there is no steady part by design.
    #[default]
    Burst,
    /// A fixed number in flight; the next request is sent when one ends.
    Closed,
    /// Sent at intended times, whatever the server does.
    Open,
    /// In stages, each with a load of its own.
    Staged,
}

impl LoadClass {
    pub fn of(load: &RecordedLoad) -> Self {
        let cap = load.max_sessions.or(load.max_concurrency);
        let is_capped = cap.is_some_and(|cap| {
            load.planned_requests.is_none_or(|planned| u64::from(cap) < planned)
        });
        match load {
            RecordedLoad { stages, .. } if !stages.is_empty() => Self::Staged,
            RecordedLoad { is_traced: true, .. } | RecordedLoad { request_rate: Some(_), .. } => {
                Self::Open
            }
            _ if is_capped => Self::Closed,
            _ => Self::Burst,
        }
    }
}

/// The steady part of a run, and figures of the requests that started in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Steady {
    /// Its start, in seconds after the measured phase began.
    pub begin_s: f64,
    /// Counted likewise; never after the end of the measured phase.
    pub end_s: f64,
    #[serde(default)]
    pub mean_stays: Option<f64>,
    pub started: u64,
    pub completed: u64,
    pub concurrency: f64,
    pub requests_per_s: f64,
    pub output_tokens_per_s: f64,
    /// TTFT of the requests that started in it, failed ones as infinitely slow.
    pub ttft_ms: Distribution,
    pub tpot_ms: Distribution,
    pub e2e_ms: Distribution,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsteady {
    /// By design: a burst, or stages.
    Designed,
    NeverFull,
    /// The rest after the start is too short.
    TooShort,
    /// The number in flight or the rate of completions kept changing.
    Sloping,
}

/// The load is full and flat by `in_progress`: sessions with the pauses between their turns, where their
/// number is limited; `None`: requests.
pub(crate) fn find(
    rows: &[RequestRow],
    in_progress: Option<&[RequestRow]>,
    load: &RecordedLoad,
) -> Result<TimeSpan, Unsteady> {
    let in_progress = in_progress.unwrap_or(rows);
    let full = FullLoad::of(in_progress, load)?;
    flat_part(full.part, full.least(), |part| {
        let in_flight = rows::mean_in_flight_by_piece(in_progress, part, PIECES);
        !has_slope(&in_flight) && !has_slope(&completions_by_piece(rows, part))
    })
}

/// The time between filling up and draining.
struct FullLoad {
    part: TimeSpan,
    /// Time in flight, in nanoseconds. In flight / completion rate is the same (Little's law).
    mean_stay: f64,
}

impl FullLoad {
    fn of(rows: &[RequestRow], load: &RecordedLoad) -> Result<Self, Unsteady> {
        let class = LoadClass::of(load);
        let reached = match class {
            LoadClass::Burst | LoadClass::Staged => return Err(Unsteady::Designed),
            LoadClass::Closed => {
                let cap = load.max_sessions.or(load.max_concurrency);
                let cap = f64::from(cap.unwrap_or(1));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a cap"
                )]
                let full = (cap * FULL).ceil() as u64;
                rows::first_reaching(rows, full.max(1)).ok_or(Unsteady::NeverFull)?
            }
            LoadClass::Open => rows.iter().map(|row| row.start).min().ok_or(Unsteady::TooShort)?,
        };
        let mut lengths = stays(rows);
        tokometer_base::sort_numbers(&mut lengths);
        let mean_stay = statistics::mean(&lengths).ok_or(Unsteady::TooShort)?;
        let skip = match class {
            LoadClass::Closed => mean_stay,
            _ => statistics::percentile(&lengths, 99.0).ok_or(Unsteady::TooShort)?,
        };
        let begin = reached + Nanos::from_secs_f64(skip / 1e9);
        // No request arrives after the last start: from there on the load drains.
        let end = rows.iter().map(|row| row.start).max().ok_or(Unsteady::TooShort)?;
        Ok(Self { part: TimeSpan { begin, end }, mean_stay })
    }

    fn least(&self) -> Nanos {
        Nanos::from_secs_f64(LEAST_LENGTH * self.mean_stay / 1e9)
    }
}

/// What a run lacks for a steady part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MissingLength {
    /// Mean times in flight that are left at full load, and those that are needed.
    pub stays: f64,
    pub needed: f64,
    /// How much longer the run must be.
    pub more: Nanos,
}

/// `None` for a run that is long enough, or has no full load.
pub fn missing_length(rows: &[RequestRow], load: &RecordedLoad) -> Option<MissingLength> {
    let full = FullLoad::of(rows, load).ok()?;
    let (length, least) = (full.part.length(), full.least());
    let stays = length.0 as f64 / full.mean_stay.max(1.0);
    (length < least).then(|| MissingLength { stays, needed: LEAST_LENGTH, more: least - length })
}

/// Times in flight of successful requests, in nanoseconds.
fn stays(rows: &[RequestRow]) -> Vec<f64> {
    let succeeded = rows.iter().filter(|row| row.fate == Fate::Succeeded);
    succeeded.map(|row| (row.end - row.start).0 as f64).collect()
}

pub(crate) fn mean_stays(rows: &[RequestRow], part: TimeSpan) -> Option<f64> {
    let stay = statistics::mean(&stays(rows)).filter(|stay| *stay > 0.0)?;
    Some(part.length().0 as f64 / stay)
}

/// The longest stretch that ends with `whole` and is flat; its start moves up to half way.
fn flat_part(
    whole: TimeSpan,
    least: Nanos,
    is_flat: impl Fn(TimeSpan) -> bool,
) -> Result<TimeSpan, Unsteady> {
    let mut was_long_enough = false;
    for tenths in 0..=5 {
        let begin = whole.begin + Nanos(whole.length().0 / 10 * tenths);
        let part = TimeSpan { begin, end: whole.end };
        if part.length() == Nanos::ZERO || part.length() < least {
            break;
        }
        was_long_enough = true;
        if is_flat(part) {
            return Ok(part);
        }
    }
    Err(if was_long_enough { Unsteady::Sloping } else { Unsteady::TooShort })
}

fn completions_by_piece(rows: &[RequestRow], part: TimeSpan) -> Vec<f64> {
    let mut completions: Vec<f64> = part.pieces(PIECES).map(|_| 0.0).collect();
    for piece in rows.iter().filter_map(|row| part.piece_of(row.end, PIECES)) {
        completions[piece] += 1.0;
    }
    completions
}

fn has_slope(values: &[f64]) -> bool {
    let points: Vec<(f64, f64)> =
        (0_u32..).zip(values).map(|(x, value)| (f64::from(x), *value)).collect();
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    statistics::slope(&points).is_some_and(|slope| {
        let change = slope.per_x * (points.len() - 1) as f64;
        slope.p_value < SIGNIFICANT && change.abs() > LARGE * mean
    })
}

/// A backlog that grew while requests kept arriving.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrowingBacklog {
    pub growth_per_s: f64,
    /// Requests due and not ended at the last arrival.
    pub backlog: u64,
}

/// Whether, in an open loop, ever more requests were due and not ended. The start is left out,
/// because the backlog first has to build up to its normal level. `unsteady` says why there is no steady part.
pub(crate) fn overload(
    rows: &[RequestRow],
    load: &RecordedLoad,
    unsteady: Option<Unsteady>,
) -> Option<GrowingBacklog> {
    if LoadClass::of(load) != LoadClass::Open {
        return None;
    }
    let mut due: Vec<Nanos> = rows.iter().map(|row| row.due).collect();
    let mut ends: Vec<Nanos> = rows.iter().map(|row| row.end).collect();
    due.sort_unstable();
    ends.sort_unstable();
    let (first, last) = (*due.first()?, *due.last()?);
    let quarter = Nanos((last - first).0 / 4);
    let mut early: Vec<f64> = rows
        .iter()
        .filter(|row| row.due <= first + quarter)
        .map(|row| (row.end - row.due).0 as f64)
        .collect();
    tokometer_base::sort_numbers(&mut early);
    let skip = Nanos::from_secs_f64(statistics::percentile(&early, 90.0)? / 1e9).max(quarter);
    if skip.0 > (last - first).0 / 2 {
        return None;
    }
    let rest = TimeSpan { begin: first + skip, end: last };
    let passed = |times: &[Nanos], at: Nanos| times.partition_point(|time| *time <= at);
    let backlog = |at: Nanos| passed(&due, at).saturating_sub(passed(&ends, at));
    let points: Vec<(f64, f64)> = rest
        .pieces(PIECES)
        .map(|piece| ((piece.end - first).as_secs_f64(), backlog(piece.end) as f64))
        .collect();
    let slope = statistics::slope(&points)?;
    let growth = slope.per_x * rest.length().as_secs_f64();
    let arrivals = passed(&due, rest.end).saturating_sub(passed(&due, rest.begin)) as f64;
    let mean = points.iter().map(|(_, backlog)| backlog).sum::<f64>() / PIECES as f64;
    let share = BACKLOG_SHARE * arrivals;
    let enough = if unsteady.is_some() { share.min(BACKLOG_RISE * mean) } else { share };
    let grows = slope.p_value < SIGNIFICANT && growth > enough.max(5.0);
    grows.then(|| GrowingBacklog { growth_per_s: slope.per_x, backlog: backlog(last) as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const SECOND: u64 = 1_000;

    /// As a summary has it.
    pub(super) fn backlog(rows: &[RequestRow], load: &RecordedLoad) -> Option<GrowingBacklog> {
        overload(rows, load, find(rows, None, load).err())
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// `count` requests, one every `every` ms, each `length(start)` ms long.
    fn open_loop(count: u64, every: u64, length: impl Fn(u64) -> u64) -> Vec<RequestRow> {
        (0..count)
            .map(|i| testing::row(i, at(i * every), at(i * every + length(i * every))))
            .collect()
    }

    #[test]
    fn a_load_is_classed_by_rate_and_cap() {
        let check = |rate: Option<f64>, cap: Option<u32>, expected: LoadClass| {
            let load = RecordedLoad { max_concurrency: cap, ..testing::load(rate, 100) };
            assert_eq!(LoadClass::of(&load), expected);
        };
        check(None, None, LoadClass::Burst);
        check(None, Some(100), LoadClass::Burst);
        check(None, Some(10), LoadClass::Closed);
        check(Some(5.0), Some(10), LoadClass::Open);
        check(Some(5.0), None, LoadClass::Open);
        let stages = vec![tokometer_record::RecordedStage::default()];
        let in_stages = RecordedLoad { stages, ..testing::load(None, 100) };
        assert_eq!(LoadClass::of(&in_stages), LoadClass::Staged);
    }

    #[test]
    fn an_even_open_loop_is_steady_after_its_first_answers() {
        let rows = open_loop(400, 50, |_| SECOND);
        let load = testing::load(Some(20.0), 400);
        let part = find(&rows, None, &load).unwrap();
        assert_eq!((part.begin, part.end), (at(1_000), at(399 * 50)));
        assert_eq!(backlog(&rows, &load), None);
    }

    #[test]
    fn a_server_that_falls_behind_is_neither_steady_nor_keeping_up() {
        // Each request waits for a share of all that came before it.
        let rows = open_loop(400, 50, |start| SECOND + start / 2);
        let load = testing::load(Some(20.0), 400);
        assert!(find(&rows, None, &load).is_err());
        let found = backlog(&rows, &load).unwrap();
        assert!(found.growth_per_s > 5.0 && found.backlog > 100, "{found:?}");
    }

    #[test]
    fn long_answers_in_a_short_run_are_not_called_overload() {
        let rows = open_loop(400, 50, |_| 9 * SECOND);
        let load = testing::load(Some(20.0), 400);
        assert_eq!(backlog(&rows, &load), None);
        assert_eq!(find(&rows, None, &load), Err(Unsteady::TooShort));
    }

    /// Answers of four seconds: after the first of them 16 s are left, four mean times in flight.
    #[test]
    fn a_steady_part_of_three_mean_times_is_enough() {
        let check = |length: u64, expected: Option<f64>| {
            let rows = open_loop(400, 50, |_| length);
            let part = find(&rows, None, &testing::load(Some(20.0), 400)).ok();
            let found = part.and_then(|part| mean_stays(&rows, part));
            let rounded = found.map(f64::round);
            assert_eq!(rounded, expected, "{length} ms");
        };
        check(SECOND, Some(19.0));
        check(4 * SECOND, Some(4.0));
        check(6 * SECOND, None);
    }

    #[test]
    fn a_closed_loop_is_steady_between_filling_and_draining() {
        // Four slots, each with back-to-back requests of one second.
        let rows: Vec<RequestRow> = (0..80)
            .map(|i| {
                let start = (i / 4) * SECOND + (i % 4) * 10;
                testing::row(i, at(start), at(start + SECOND))
            })
            .collect();
        let load = RecordedLoad { max_concurrency: Some(4), ..testing::load(None, 80) };
        let part = find(&rows, None, &load).unwrap();
        assert_eq!(part.begin, at(1_030));
        let never = RecordedLoad { max_concurrency: Some(40), ..load };
        assert_eq!(find(&rows, None, &never), Err(Unsteady::NeverFull));
    }

    /// 256 slots with answers of 5 s in a run of 25.7 s, five times as long, were called shorter than three times
    /// the mean: one P99 was left out, of answers whose tail is long.
    #[test]
    fn a_closed_loop_of_five_mean_times_is_long_enough() {
        let run = |seconds: u64| {
            let mut rows = Vec::new();
            for slot in 0..256 {
                let (mut start, mut turn) = (slot, 0);
                while start < seconds * SECOND {
                    // Between 3 and 7 s, mean 5 s.
                    let length = 3 * SECOND + (slot * 7_919 + turn * 1_013) % 4_001;
                    rows.push(testing::row(rows.len() as u64, at(start), at(start + length)));
                    (start, turn) = (start + length, turn + 1);
                }
            }
            let load = RecordedLoad {
                max_concurrency: Some(256),
                ..testing::load(None, rows.len() as u64)
            };
            (find(&rows, None, &load), missing_length(&rows, &load))
        };
        let (found, missing) = run(21);
        assert!(found.is_ok() && missing.is_none(), "{found:?}");
        let (found, missing) = run(15);
        let missing = missing.unwrap();
        assert_eq!(found, Err(Unsteady::TooShort));
        assert!((1.8..2.2).contains(&missing.stays), "{missing:?}");
        assert!((at(4_000)..at(6_000)).contains(&missing.more), "{missing:?}");
    }

    /// Of many good runs a few have a significant trend by chance, so a trend must be large too.
    #[test]
    fn a_trend_counts_where_it_is_significant_and_large() {
        let rising = |by: f64| -> Vec<f64> {
            (0..12_u32).map(|at| 100.0 + by * f64::from(at) / 11.0 + f64::from(at % 2)).collect()
        };
        assert!(!has_slope(&rising(8.0)) && has_slope(&rising(15.0)));
        let scattered: Vec<f64> =
            (0..12_u32).map(|at| 100.0 + f64::from(at) + 60.0 * f64::from(at % 2)).collect();
        assert!(!has_slope(&scattered), "large, but not significant");
    }

    /// The part begins later where the start of the run still has a trend.
    #[test]
    fn a_steady_part_begins_where_the_trend_ends() {
        let rows = open_loop(400, 50, |start| 200 + start.min(8 * SECOND) / 4);
        let load = testing::load(Some(20.0), 400);
        let part = find(&rows, None, &load).unwrap();
        assert!(part.begin > at(4 * SECOND) && part.begin <= at(12 * SECOND), "{part:?}");
    }

    /// An open loop whose answers take ever longer completes as many requests per second as before, and a
    /// closed loop that slows down has as many in flight: each shows its trend in one of both only.
    #[test]
    fn a_trend_of_either_kind_is_no_steady_state() {
        let rows = open_loop(2_000, 50, |start| SECOND + start / 10);
        assert_eq!(find(&rows, None, &testing::load(Some(20.0), 2_000)), Err(Unsteady::Sloping));
        let mut rows = Vec::new();
        for slot in 0..16 {
            let mut start = slot * 60;
            for turn in 0..60 {
                // Not in step with the other slots.
                let length = SECOND + 20 * turn + slot * 37 % 100;
                rows.push(testing::row(slot * 60 + turn, at(start), at(start + length)));
                start += length;
            }
        }
        let load = RecordedLoad { max_concurrency: Some(16), ..testing::load(None, 960) };
        assert_eq!(find(&rows, None, &load), Err(Unsteady::Sloping));
    }

    /// Four requests more than at the start are no growing backlog, however few arrive.
    #[test]
    fn a_backlog_of_a_few_requests_is_no_overload() {
        let growing = |by: u64| {
            let rows = open_loop(60, 1_000, |start| 2 * SECOND + start * by / 60);
            backlog(&rows, &testing::load(Some(1.0), 60))
        };
        assert_eq!(growing(5), None);
        assert!(growing(20).is_some());
    }

    /// Answers that take more than half of the run show nothing of its end.
    #[test]
    fn a_run_that_is_shorter_than_two_answers_is_not_called_overloaded() {
        let rows = open_loop(400, 50, |start| 11 * SECOND + start / 2);
        assert_eq!(backlog(&rows, &testing::load(Some(20.0), 400)), None);
    }

    #[test]
    fn a_burst_has_no_steady_part_by_design() {
        let rows = open_loop(100, 0, |_| SECOND);
        assert_eq!(find(&rows, None, &testing::load(None, 100)), Err(Unsteady::Designed));
    }
}

#[cfg(test)]
#[path = "steady_tests.rs"]
mod random_runs;
