//! The run second by second, from the run's origin on.

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::{Phase, Timeline};

use crate::measure;
use crate::rows::{Fate, RequestRow, TimeSpan};

const SECOND: u64 = 1_000_000_000;
/// Longer runs get wider windows, so that the page of a whole day stays small.
const MOST_WINDOWS: u64 = 7_200;

/// One second of the run, or several in runs of more than two hours.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its start, in seconds after the run's origin.
    pub at_s: f64,
    pub width_s: f64,
    pub arrivals: u64,
    pub starts: u64,
    pub completions: u64,
    pub failures: u64,
    pub in_flight: f64,
    pub output_tokens: f64,
}

/// Seconds of a month. A record has no later time, and a damaged one must not take more memory.
const MONTH: usize = 31 * 24 * 3_600;

/// Output tokens by the second in which they arrived.
#[derive(Debug, Clone)]
pub(crate) struct TokenSeconds {
    origin: Nanos,
    tokens: Vec<f64>,
    /// When the first and the last of them arrived: the seconds at the ends are as long as they had tokens.
    arrivals: Option<TimeSpan>,
}

impl TokenSeconds {
    pub(crate) fn new(origin: Nanos) -> Self {
        Self { origin, tokens: Vec::new(), arrivals: None }
    }

    fn index(&self, at: Nanos) -> usize {
        usize::try_from((at - self.origin).0 / SECOND).unwrap_or(MONTH).min(MONTH)
    }

    pub(crate) fn add(&mut self, at: Nanos, tokens: f64) {
        let second = self.index(at);
        if second >= self.tokens.len() {
            self.tokens.resize(second + 1, 0.0);
        }
        self.tokens[second] += tokens;
        let before = self.arrivals.unwrap_or(TimeSpan { begin: at, end: at });
        self.arrivals = Some(TimeSpan { begin: before.begin.min(at), end: before.end.max(at) });
    }

    /// Seconds from `begin` to `end`, in order, with their tokens.
    fn seconds(&self, begin: Nanos, end: Nanos) -> impl Iterator<Item = (u64, f64)> + '_ {
        let (first, count) = (self.index(begin), self.index(end).saturating_sub(self.index(begin)));
        (first as u64..).zip(self.tokens.iter().skip(first).take(count.saturating_add(1)).copied())
    }

    /// `None` when no token arrived.
    pub(crate) fn peak(&self) -> Option<f64> {
        self.tokens.iter().copied().max_by(f64::total_cmp).filter(|peak| *peak > 0.0)
    }

    /// Tokens between two times; seconds at the edges count in proportion.
    pub(crate) fn between(&self, begin: Nanos, end: Nanos) -> f64 {
        let Some(arrivals) = self.arrivals else { return 0.0 };
        let inside = |(second, tokens): (u64, f64)| {
            let whole = self.origin + Nanos(second * SECOND);
            let to = (whole + Nanos(SECOND)).min(arrivals.end);
            // All tokens of a second may have come at one time.
            let from = whole.max(arrivals.begin).min(to - Nanos(1));
            let overlap = end.min(to) - begin.max(from);
            tokens * overlap.as_secs_f64() / (to - from).as_secs_f64().max(1e-9)
        };
        self.seconds(begin, end).map(inside).sum()
    }
}

struct WindowGrid {
    origin: Nanos,
    width: u64,
    skipped: u64,
    /// Index of the last window. A damaged record may have times beyond it.
    last: usize,
}

impl WindowGrid {
    /// The narrowest grid that covers both times with few enough windows.
    fn over(origin: Nanos, first: Nanos, last: Nanos) -> Self {
        let second = |at: Nanos| (at - origin).0 / SECOND;
        let mut width = 1;
        while (second(last) - second(first)) / width >= MOST_WINDOWS {
            width *= 2;
        }
        let skipped = second(first) / width;
        let last = usize::try_from(second(last) / width - skipped).unwrap_or(0);
        Self { origin, width, skipped, last }
    }

    /// Windows since the first one, as a fraction.
    fn exact_position(&self, at: Nanos) -> f64 {
        (at - self.origin).as_secs_f64() / self.width as f64 - self.skipped as f64
    }

    fn window(&self, at: Nanos) -> usize {
        let window = (at - self.origin).0 / SECOND / self.width;
        usize::try_from(window.saturating_sub(self.skipped)).unwrap_or(0).min(self.last)
    }
}

/// The whole run in windows, from the first arrival to the last end.
pub(crate) fn series(origin: Nanos, rows: &[RequestRow], tokens: &TokenSeconds) -> Vec<Window> {
    let Some(last) = rows.iter().map(|row| row.end).max() else { return Vec::new() };
    let first = rows.iter().map(|row| row.due.min(row.start)).min().unwrap_or(last);
    let grid = WindowGrid::over(origin, first, last);
    let mut windows: Vec<Window> = (0..=grid.last as u64)
        .map(|window| Window {
            at_s: ((grid.skipped + window) * grid.width) as f64,
            width_s: grid.width as f64,
            ..Window::default()
        })
        .collect();
    for row in rows {
        windows[grid.window(row.due)].arrivals += 1;
        windows[grid.window(row.start)].starts += 1;
        match row.fate {
            Fate::Succeeded => windows[grid.window(row.end)].completions += 1,
            Fate::Failed => windows[grid.window(row.end)].failures += 1,
            Fate::Cancelled | Fate::Abandoned => {}
        }
    }
    add_in_flight(&mut windows, rows, &grid);
    for (second, tokens) in tokens.seconds(first, last) {
        let at = origin + Nanos(second * SECOND);
        if at + Nanos(SECOND) > first && at <= last {
            windows[grid.window(at)].output_tokens += tokens;
        }
    }
    windows
}

/// A request counts as one in every window between its start and its end, and in proportion in these
/// two. Differences are summed up, so that a long request costs no more than a short one.
fn add_in_flight(windows: &mut [Window], rows: &[RequestRow], grid: &WindowGrid) {
    let mut steps = vec![0.0; windows.len() + 1];
    for row in rows {
        let (from, to) = (grid.window(row.start), grid.window(row.end));
        steps[from] += 1.0;
        steps[to + 1] -= 1.0;
        windows[from].in_flight -= grid.exact_position(row.start) - from as f64;
        windows[to].in_flight -= (to + 1) as f64 - grid.exact_position(row.end);
    }
    let mut level = 0.0;
    for (window, step) in windows.iter_mut().zip(&steps) {
        level += step;
        window.in_flight = (window.in_flight + level).max(0.0);
    }
}

/// Measured requests sent per second, from the first to the last, without retries. `None` for fewer than two.
pub fn sent_rate(timelines: &[Timeline]) -> Option<f64> {
    let is_sent =
        |one: &&Timeline| one.identity.phase == Phase::Measure && one.identity.attempt == 0;
    let starts = || timelines.iter().filter(is_sent).map(|one| RequestRow::of(one, None).start);
    let (first, last) = (starts().min()?, starts().max()?);
    let seconds = (last - first).as_secs_f64();
    (seconds > 0.0).then(|| (starts().count() - 1) as f64 / seconds)
}

/// What came out of a part of a run, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartRates {
    /// Requests that ended with success, whenever they began.
    pub answered: f64,
    /// Output tokens that arrived.
    pub output_tokens: f64,
}

/// The rates of a part. Its begin does not belong to it, so that one that begins and ends with a send
/// counts the gaps between. `None` for a part without length.
pub fn rates_in(timelines: &[Timeline], part: TimeSpan) -> Option<PartRates> {
    let seconds = part.length().as_secs_f64();
    let is_inside = |at: Nanos| at > part.begin && at <= part.end;
    let (mut answered, mut output_tokens) = (0_u64, 0.0);
    let load =
        timelines.iter().filter(|one| matches!(one.identity.phase, Phase::Warmup | Phase::Measure));
    for one in load {
        let row = RequestRow::of(one, None);
        answered += u64::from(row.fate == Fate::Succeeded && is_inside(row.end));
        measure::each_token_arrival(one, |at, tokens| {
            output_tokens += if is_inside(at) { tokens } else { 0.0 };
        });
    }
    (seconds > 0.0).then(|| PartRates {
        answered: answered as f64 / seconds,
        output_tokens: output_tokens / seconds,
    })
}

/// Blocks per run: enough for an interval, and long enough to be nearly independent.
pub const BLOCKS: u64 = 16;

/// One block of time. Latencies are those of the requests that started in it, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Block {
    pub started: u64,
    pub requests_per_s: f64,
    pub output_tokens_per_s: f64,
    /// `None` when no such request succeeded, like the next two.
    pub ttft_ms_mean: Option<f64>,
    pub tpot_ms_mean: Option<f64>,
    pub e2e_ms_mean: Option<f64>,
}

pub(crate) fn blocks(
    span: Option<TimeSpan>,
    rows: &[RequestRow],
    tokens: &TokenSeconds,
) -> Vec<Block> {
    let Some(span) = span.filter(|span| span.length().0 >= BLOCKS) else { return Vec::new() };
    let mut sums: Vec<BlockSums> = span.pieces(BLOCKS).map(|_| BlockSums::default()).collect();
    for row in rows {
        let is_success = row.fate == Fate::Succeeded;
        if let Some(block) = span.piece_of(row.start, BLOCKS) {
            sums[block].started += 1;
            if is_success {
                sums[block].ttft.add(row.ttft());
                sums[block].tpot.add(row.tpot());
                sums[block].e2e.add(row.e2e());
            }
        }
        if let Some(block) = span.piece_of(row.end, BLOCKS).filter(|_| is_success) {
            sums[block].done += 1;
        }
    }
    let block = |(part, sums): (TimeSpan, BlockSums)| {
        let seconds = part.length().as_secs_f64();
        Block {
            started: sums.started,
            requests_per_s: sums.done as f64 / seconds,
            output_tokens_per_s: tokens.between(part.begin, part.end) / seconds,
            ttft_ms_mean: sums.ttft.mean_ms(),
            tpot_ms_mean: sums.tpot.mean_ms(),
            e2e_ms_mean: sums.e2e.mean_ms(),
        }
    };
    span.pieces(BLOCKS).zip(sums).map(block).collect()
}

/// What one pass over the rows adds up for a block.
#[derive(Debug, Default)]
struct BlockSums {
    started: u64,
    done: u64,
    ttft: SpanSum,
    tpot: SpanSum,
    e2e: SpanSum,
}

#[derive(Debug, Default)]
struct SpanSum {
    nanos: f64,
    count: u64,
}

impl SpanSum {
    fn add(&mut self, span: Option<f64>) {
        self.nanos += span.unwrap_or(0.0);
        self.count += u64::from(span.is_some());
    }

    fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.nanos / self.count as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn requests_and_tokens_fall_into_their_seconds() {
        let origin = Nanos::from_secs(100);
        let at = |millis: u64| origin + Nanos::from_millis(millis);
        let rows = [testing::row(0, at(2_500), at(4_250)), testing::row(1, at(3_000), at(3_500))];
        let mut tokens = TokenSeconds::new(origin);
        tokens.add(at(3_400), 5.0);
        tokens.add(at(4_100), 2.0);
        let found = series(origin, &rows, &tokens);
        let shape: Vec<_> = found
            .iter()
            .map(|w| (w.at_s, w.starts, w.completions, w.in_flight, w.output_tokens))
            .collect();
        assert_eq!(shape, [(2.0, 1, 0, 0.5, 0.0), (3.0, 1, 1, 1.5, 5.0), (4.0, 0, 1, 0.25, 2.0)]);
        assert_eq!(tokens.peak(), Some(5.0));
        // The first second with tokens began with them, and the last one ended with them.
        assert!((tokens.between(at(3_500), at(5_000)) - (5.0 * 0.5 / 0.6 + 2.0)).abs() < 1e-9);
    }

    /// The rate was low by 40 % at 1.1 s, 9 % at 2.3 s and 2 to 5 % at 5 s.
    #[test]
    fn the_rate_does_not_depend_on_where_the_last_second_ends() {
        for millis in [300, 1_100, 2_300, 5_040] {
            let mut tokens = TokenSeconds::new(Nanos::ZERO);
            (1..=millis).for_each(|at| tokens.add(Nanos::from_millis(at), 1.0));
            for begin in [0, millis / 4, millis / 2] {
                let (begin, end) = (Nanos::from_millis(begin), Nanos::from_millis(millis));
                let rate = tokens.between(begin, end) / (end - begin).as_secs_f64();
                assert!((rate - 1e3).abs() < 20.0, "{rate} from {begin} to {end}");
            }
            let span = TimeSpan { begin: Nanos::ZERO, end: Nanos::from_millis(millis) };
            let rates = blocks(Some(span), &[], &tokens).into_iter();
            let rates: Vec<f64> = rates.map(|block| block.output_tokens_per_s).collect();
            // The first block is short of the time before the first token.
            assert!(rates[1..].iter().all(|rate| (rate - 1e3).abs() < 20.0), "{millis}: {rates:?}");
        }
    }

    #[test]
    fn blocks_hold_the_requests_that_started_in_them() {
        let span = TimeSpan { begin: Nanos::ZERO, end: Nanos::from_secs(16) };
        let timed = |index: u64, second: u64, ttft: f64| {
            let end = Nanos::from_millis(second * 1_000 + 500);
            let mut row = testing::row(index, Nanos::from_secs(second), end);
            row.ttft = Some(ttft).into();
            row
        };
        let rows = [timed(0, 0, 10e6), timed(1, 0, 30e6), timed(2, 5, 50e6)];
        let found = blocks(Some(span), &rows, &TokenSeconds::new(Nanos::ZERO));
        assert_eq!(found.len(), 16);
        assert_eq!((found[0].started, found[0].ttft_ms_mean), (2, Some(20.0)));
        assert_eq!((found[5].requests_per_s, found[5].ttft_ms_mean), (1.0, Some(50.0)));
        assert_eq!((found[6].started, found[6].ttft_ms_mean), (0, None));
        assert!(blocks(None, &rows, &TokenSeconds::new(Nanos::ZERO)).is_empty());
    }

    /// Filling and draining belong to no part of a run: 45 req/s of 128 tokens were shown as 4,551 tok/s.
    #[test]
    fn the_rates_of_a_part_leave_out_what_lies_before_and_behind_it() {
        use tokometer_record::EventKind::Text;
        // One request a second from 0 to 9, each with a token a second later and the end there.
        let one = |at: u64| {
            let mut one = testing::answer(at, at * 1_000, &[(at * 1_000 + 1_500, Text)]);
            one.usage = Some(testing::usage(7, 4));
            one
        };
        let mut timelines: Vec<_> = (0..10).map(one).collect();
        timelines[1].identity.phase = Phase::Warmup;
        let part = |begin: u64, end: u64| {
            let (begin, end) = (Nanos::from_secs(begin), Nanos::from_secs(end));
            rates_in(&timelines, TimeSpan { begin, end })
        };
        let expected = PartRates { answered: 1.0, output_tokens: 4.0 };
        assert_eq!(part(2, 9), Some(expected));
        assert_eq!(part(2, 2), None);
        // A warm-up is no part of the load.
        timelines[0].identity.phase = Phase::Warmup;
        timelines[1].identity.phase = Phase::Measure;
        assert_eq!(sent_rate(&timelines), Some(1.0));
        assert_eq!(sent_rate(&timelines[..2]), None);
    }

    #[test]
    fn a_run_of_a_day_gets_wider_windows() {
        let rows = [testing::row(0, Nanos::ZERO, Nanos::from_secs(86_400))];
        let found = series(Nanos::ZERO, &rows, &TokenSeconds::new(Nanos::ZERO));
        assert!(found.len() as u64 <= MOST_WINDOWS + 1 && found[0].width_s > 1.0);
        assert!(found[1..found.len() - 1].iter().all(|w| (w.in_flight - 1.0).abs() < 1e-6));
    }
}
