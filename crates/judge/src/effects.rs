//! How far the client and its machine may have moved each figure.
//!
//! Short delays are bounded by the share of the load that they held back. Requests that overlap a long
//! one are left out and the figure is computed again: the difference, where it is larger than chance
//! explains, is the effect. Figures from the intended time have two versions whose difference is the effect.
//! A burst wants every request at its start, and its latencies count from the send, as those of any load. What the path did to the answers is in [`path`], what a step of the wall clock
//! did to their times in [`clock`], what the server's own clock does not contain in [`outside`].

mod clock;
pub(crate) mod held;
mod outside;
mod path;
mod shifts;
pub(crate) mod touched;

use tokometer_base::Nanos;
use tokometer_record::Health;

use self::held::Held;
use self::shifts::Shifts;
use self::touched::Delay;
use crate::code::NoteCode;
use crate::limits::{LATENCY_PER_LOAD, LEFT_OUT_ABOVE, NO_BOUND_FROM, SUSPECT_ABOVE, TAIL_PERCENT};
use crate::shown::{self, ShownFigure, Standing};
use tokometer_figures::Unjudged;
use tokometer_figures::define::Latency;
use tokometer_figures::figure::{Percentile, Quantity, Statistic};
use tokometer_figures::rows::{RequestRow, TimeSpan};
use tokometer_figures::sample::Ordered;
use tokometer_figures::sends::LATE;
use tokometer_figures::steady::LoadClass;

#[derive(Debug, Clone, PartialEq)]
struct Effect {
    figure: String,
    standing: Standing,
    /// Code of the note that reports the cause.
    code: NoteCode,
    /// Share of the figure, at most [`NO_BOUND_FROM`].
    share: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Effects {
    found: Vec<Effect>,
    late_in_stalls: Option<f64>,
}

impl Effects {
    /// The largest effect of a cause on a figure that a report prints as a result, and that figure's key.
    pub(crate) fn of_note(&self, code: NoteCode) -> Option<(&str, f64)> {
        let of = self.of_code(code).filter(|effect| effect.standing != Standing::Beside);
        of.max_by(|a, b| a.share.total_cmp(&b.share)).map(|one| (one.figure.as_str(), one.share))
    }

    /// The largest effect of a cause on a figure that counts in the run's verdict.
    pub(crate) fn on_results(&self, code: NoteCode) -> Option<f64> {
        let of = self.of_code(code).filter(|effect| effect.standing == Standing::Result);
        of.map(|one| one.share).max_by(f64::total_cmp)
    }

    fn of_code(&self, code: NoteCode) -> impl Iterator<Item = &Effect> {
        self.found.iter().filter(move |effect| effect.code == code)
    }

    pub(crate) fn of_figure(&self, key: &str) -> impl Iterator<Item = (NoteCode, f64)> {
        self.found.iter().filter(move |one| one.figure == key).map(|one| (one.code, one.share))
    }

    /// Share of the late requests whose wait overlaps a stall of the control thread. `None` without late
    /// requests, and without a control thread.
    pub(crate) fn late_in_stalls(&self) -> Option<f64> {
        self.late_in_stalls
    }

    /// Adds one effect, for tests of what follows from it.
    #[cfg(test)]
    pub(crate) fn add(&mut self, figure: &str, code: NoteCode, share: f64) {
        let standing = Standing::Result;
        self.found.push(Effect { figure: figure.to_owned(), standing, code, share });
    }

    pub(crate) fn measure(input: &Unjudged) -> Self {
        let mut study = Study {
            input,
            shown: shown::shown(input),
            class: input.summary.load_class,
            found: Vec::new(),
        };
        if !input.rows.is_empty() {
            let all = Samples::of(&input.rows, |_| true, |_, _, value| value);
            study.held_back(&all);
            study.rate_missed();
            study.reads(&all);
            study.lost_packets(&all);
            study.outside_server(&all);
            study.clock_steps(&all);
            study.machine(&all);
        }
        Self { late_in_stalls: late_in_stalls(input), found: study.found }
    }
}

struct Study<'a> {
    input: &'a Unjudged,
    shown: Vec<ShownFigure>,
    class: LoadClass,
    found: Vec<Effect>,
}

fn latency(of: Latency, row: &RequestRow) -> Option<f64> {
    match of {
        Latency::Ttft => row.ttft(),
        Latency::Tpot => row.tpot(),
        Latency::E2e => row.e2e(),
    }
}

/// Samples of the three latencies after some change.
struct Samples([Ordered; 3]);

impl Samples {
    fn of(
        rows: &[RequestRow],
        keep: impl Fn(usize) -> bool,
        change: impl Fn(Latency, usize, f64) -> f64,
    ) -> Self {
        let sample = |one: Latency| {
            touched::values(
                rows,
                |row| latency(one, row),
                &keep,
                |nth, value| change(one, nth, value),
            )
        };
        Self([Latency::Ttft, Latency::Tpot, Latency::E2e].map(sample))
    }

    fn statistic(&self, of: Latency, statistic: Statistic) -> Option<f64> {
        touched::statistic(&self.0[of as usize], statistic)
    }

    /// Half the width of a statistic's interval as if the requests were independent, as a share. `None`
    /// for too few requests.
    fn margin(&self, of: Latency, statistic: Statistic) -> Option<f64> {
        touched::margin(&self.0[of as usize], statistic)
    }

    /// The share by which a statistic differs from that of other samples.
    fn difference(&self, other: &Self, of: Latency, statistic: Statistic) -> Option<f64> {
        let (ours, theirs) = (self.statistic(of, statistic)?, other.statistic(of, statistic)?);
        if ours > 0.0 {
            return Some((theirs / ours - 1.0).abs());
        }
        // The statistic is zero, so a change of it has no share: all of it counts.
        (theirs > 0.0).then_some(1.0)
    }
}

impl Study<'_> {
    fn add(&mut self, shown: &ShownFigure, code: NoteCode, share: f64) {
        if share > 0.0 {
            // Answers whose tokens all share one read have next to no time between tokens, and any
            // pace is many times that.
            let share = share.min(NO_BOUND_FROM);
            let (figure, standing) = (shown.key(), shown.standing);
            self.found.push(Effect { figure, standing, code, share });
        }
    }

    /// Adds an effect for each shown figure for which `share` gives one.
    fn add_each(&mut self, code: NoteCode, share: impl Fn(&ShownFigure) -> Option<f64>) {
        let shares: Vec<Option<f64>> =
            self.shown.iter().map(|shown| share(&self.decisive(shown))).collect();
        let shares = raised(&self.shown, &shares);
        for (shown, share) in self.shown.clone().iter().zip(shares) {
            self.add(shown, code, share.unwrap_or(0.0));
        }
    }

    /// The figure that a figure moves with. Where requests come whatever the server does, as many are in
    /// flight as their mean time in flight decides (Little's law).
    fn decisive(&self, shown: &ShownFigure) -> ShownFigure {
        match (shown.metric.key, self.class) {
            ("concurrency", LoadClass::Open | LoadClass::Staged) => {
                ShownFigure { metric: Quantity::E2e.metric(), statistic: Statistic::Mean, ..*shown }
            }
            _ => *shown,
        }
    }

    fn seconds(&self) -> f64 {
        self.input.summary.duration_s.unwrap_or(0.0).max(f64::MIN_POSITIVE)
    }

    fn held_back(&mut self, all: &Samples) {
        let (rows, load) = (&self.input.rows, &self.input.info.load);
        let late =
            held::lateness(rows, load, held::Division::of(&self.input.info, &self.input.observed));
        match self.class {
            LoadClass::Burst => self.late(&late, all, NoteCode::LateSends),
            LoadClass::Closed => self.late(&late, all, NoteCode::SlowRefill),
            LoadClass::Open | LoadClass::Staged => {
                self.late(&late, all, NoteCode::LateSends);
                self.planned(&late);
            }
        }
    }

    fn late(&mut self, late: &[Nanos], all: &Samples, code: NoteCode) {
        let rows = &self.input.rows;
        let slots = match self.class {
            LoadClass::Closed => self.input.info.load.max_concurrency.unwrap_or(1),
            _ => 0,
        };
        let until_first_token = delays(rows, late, slots, |row| {
            row.start + Nanos::from_secs_f64(row.ttft().unwrap_or(0.0) / 1e9)
        });
        let touched = touched::leave_out(rows, until_first_token);
        let brief = Shifts::without(self, all, &touched);
        // Late requests that come together also share their steps with others, until they end.
        let until_end = delays(rows, late, slots, |row| row.end);
        let lasting = Shifts::without(self, all, &touched::leave_out(rows, until_end));
        let rest = held::held(rows, late, touched.longest_kept);
        let whole = held::held(rows, late, Nanos::MAX);
        let rate = match self.class {
            LoadClass::Closed => whole.raw / (1.0 + whole.raw),
            // The server's queue decides when a burst ends, not its last send.
            LoadClass::Burst => whole.mean,
            LoadClass::Open | LoadClass::Staged => self.end_shift(late),
        };
        // Short delays are spread over the run, and those of a burst over all of it; longer ones that had to
        // stay are not.
        let is_even = touched.longest_kept <= LEFT_OUT_ABOVE || self.class == LoadClass::Burst;
        self.add_each(code, |shown| {
            if shown::is_from_intended(shown.metric) {
                return None;
            }
            let Some(one) = shown.metric.behind else {
                return shown.is_rate().then_some(rate);
            };
            let mut shift = brief.of(shown);
            if one != Latency::Ttft {
                shift = shift.max(lasting.of(shown));
            }
            Some(shift + if is_even { rest.mean } else { rest.for_statistic(shown.statistic) })
        });
    }

    /// Without the client's lateness the last request would have ended earlier.
    fn end_shift(&self, late: &[Nanos]) -> f64 {
        let rows = &self.input.rows;
        let end = rows.iter().map(|row| row.end).max().unwrap_or(Nanos::ZERO);
        let on_time = rows.iter().zip(late).map(|(row, late)| row.end - *late).max();
        (end - on_time.unwrap_or(end)).as_secs_f64() / self.seconds()
    }

    /// Figures from the intended time, without what the client added to them.
    fn planned(&mut self, late: &[Nanos]) {
        let rows = &self.input.rows;
        if !self.shown.iter().any(|shown| shown::is_from_intended(shown.metric)) {
            return;
        }
        let wait = |nth: usize| (rows[nth].start - rows[nth].due).0 as f64;
        let from_due = Samples::of(rows, |_| true, |_, nth, value| value + wait(nth));
        let without =
            Samples::of(rows, |_| true, |_, nth, value| value + wait(nth) - late[nth].0 as f64);
        self.add_each(NoteCode::LateSends, |shown| {
            let one = shown.metric.behind.filter(|_| shown::is_from_intended(shown.metric))?;
            from_due.difference(&without, one, shown.statistic)
        });
    }

    /// The server was measured at another rate than the planned one. A single late request at an end of the
    /// run does not count: the rate of the middle must differ too.
    fn rate_missed(&mut self) {
        if self.class != LoadClass::Open || self.input.info.load.max_concurrency.is_some() {
            return;
        }
        let observed = &self.input.observed;
        let Some((due, achieved)) = observed.due_rate().zip(observed.achieved_rate()) else {
            return;
        };
        let share = (achieved / due - 1.0).abs();
        // The middle takes a pass over all requests.
        let share = if share > SUSPECT_ABOVE { share.min(self.middle_missed()) } else { share };
        // Rates have a bound of their own: how much earlier the run would have ended.
        self.add_each(NoteCode::RateMissed, |shown| shown.metric.behind.map(|_| share));
    }

    /// By how much the time that the middle of the sends took differs from the planned one, as a share.
    fn middle_missed(&self) -> f64 {
        let rows = &self.input.rows;
        let span = |of: fn(&RequestRow) -> Nanos| middle_span(rows.iter().map(of).collect());
        let (planned, sent) = (span(|row| row.due), span(|row| row.start));
        if sent == Nanos::ZERO {
            f64::INFINITY
        } else {
            (planned.as_secs_f64() / sent.as_secs_f64() - 1.0).abs()
        }
    }

    /// Time that the machine took from a server on the same host. On another host only the client was
    /// affected, and the other effects show by how much.
    fn machine(&mut self, all: &Samples) {
        let Some(health) = &self.input.health else { return };
        self.waiting_with_user_stamps(health);
        if health.is_same_host != Some(true) {
            return;
        }
        let (rows, seconds) = (&self.input.rows, self.seconds());
        let stalls = health.stalls.as_deref().unwrap_or_default();
        let delays: Vec<Delay> = stalls
            .iter()
            .map(|stall| Delay {
                length: stall.end - stall.begin,
                span: TimeSpan { begin: stall.begin, end: stall.end },
            })
            .collect();
        let touched = touched::leave_out(rows, delays.iter().copied());
        let shifts = Shifts::without(self, all, &touched);
        let last_start = rows.iter().map(|row| row.start).max().unwrap_or(Nanos::ZERO);
        let end = rows.iter().map(|row| row.end).max().unwrap_or(last_start);
        let drain = (end - last_start).as_secs_f64();
        let sum = |is_meant: &dyn Fn(&Delay) -> bool| {
            let of = delays.iter().filter(|delay| is_meant(delay));
            of.map(|delay| delay.length.as_secs_f64()).sum::<f64>() / seconds
        };
        // One thread waits on one core; a server that runs on all of them loses less, and not all of its
        // time is spent on a CPU.
        let cores = f64::from(health.cores.unwrap_or(1).max(1));
        let rest = sum(&|delay| delay.length <= touched.longest_kept) / cores * LATENCY_PER_LOAD;
        let of_rate = match self.class {
            LoadClass::Closed | LoadClass::Burst => sum(&|_| true),
            LoadClass::Open | LoadClass::Staged => sum(&|delay| delay.span.end > last_start),
        };
        self.add_each(NoteCode::Stalls, |shown| match shown.metric.behind {
            Some(_) => Some(shifts.of(shown) + rest),
            None => shown.is_rate().then_some(of_rate),
        });
        if let Some(stolen) = health.stolen {
            let share = stolen.as_secs_f64() / seconds / cores;
            // Requests that come whatever the server does end by so much later as the last ones do.
            let of_rate = match self.class {
                LoadClass::Closed | LoadClass::Burst => share,
                LoadClass::Open | LoadClass::Staged => share * drain / seconds,
            };
            self.add_each(NoteCode::StolenTime, |shown| {
                let of = if shown.is_rate() { of_rate } else { share };
                shown.depends_on_load().then_some(of)
            });
        }
    }

    /// Times taken after a read include the wait of the reading thread for a CPU.
    fn waiting_with_user_stamps(&mut self, health: &Health) {
        let seen = &self.input.observed;
        if seen.user_stamped == 0 || seen.kernel_stamped + seen.tls_stamped > 0 {
            return;
        }
        let waits = health.workers.iter().filter_map(|worker| worker.run_queue_delay).max();
        for (code, wait) in
            [(NoteCode::StarvedClient, waits), (NoteCode::ThrottledClient, health.throttled)]
        {
            let share = wait.unwrap_or(Nanos::ZERO).as_secs_f64() / self.seconds();
            self.add_each(code, |shown| shown.metric.behind.map(|_| share));
        }
    }
}

/// The middle leaves out one in so many times at each end.
const OUTER_SHARE: usize = 20;

/// From the first to the last of the times, without a twentieth at each end.
fn middle_span(mut times: Vec<Nanos>) -> Nanos {
    let outer = times.len() / OUTER_SHARE;
    let Some(last) = times.len().checked_sub(outer + 1) else { return Nanos::ZERO };
    let (_, first, _) = times.select_nth_unstable(outer);
    let first = *first;
    let (_, end, _) = times.select_nth_unstable(last);
    *end - first
}

/// Share of the late requests that a stall explains.
fn late_in_stalls(input: &Unjudged) -> Option<f64> {
    let stalls = input.health.as_ref()?.stalls.as_deref()?;
    let is_late = |row: &&RequestRow| row.lateness() > LATE;
    let late: Vec<&RequestRow> = input.rows.iter().filter(is_late).collect();
    let is_explained = |row: &&&RequestRow| {
        let due = row.start - row.lateness();
        // Stalls are in the order of time and do not overlap.
        let before = stalls.partition_point(|stall| stall.begin <= row.start);
        before.checked_sub(1).is_some_and(|nth| stalls[nth].end >= due)
    };
    let explained = late.iter().filter(is_explained).count();
    (!late.is_empty()).then(|| explained as f64 / late.len() as f64)
}

impl Held {
    fn for_statistic(&self, statistic: Statistic) -> f64 {
        let is_tail = statistic.percentile().is_some_and(|one| one.percent() >= TAIL_PERCENT);
        if is_tail { self.worst } else { self.mean }
    }
}

/// Each late request delays from its due time until some moment; the first `slots` fill the loop.
fn delays(
    rows: &[RequestRow],
    late: &[Nanos],
    slots: u32,
    until: impl Fn(&RequestRow) -> Nanos,
) -> impl Iterator<Item = Delay> {
    let filled = filled_at(rows, slots);
    let is_meant = move |row: &RequestRow| filled.is_none_or(|filled| row.start > filled);
    let delay = move |(row, late): (&RequestRow, &Nanos)| Delay {
        length: *late,
        span: TimeSpan { begin: row.start - *late, end: until(row) },
    };
    rows.iter().zip(late).filter(move |(row, _)| is_meant(row)).map(delay)
}

/// When the last of the slots was taken first; `None` without slots.
fn filled_at(rows: &[RequestRow], slots: u32) -> Option<Nanos> {
    let last = usize::try_from(slots).unwrap_or(usize::MAX).checked_sub(1)?;
    let mut starts: Vec<Nanos> = rows.iter().map(|row| row.start).collect();
    (last < starts.len()).then(|| *starts.select_nth_unstable(last).1)
}

/// The effects of one cause on `shown`, where each percentile is at least as affected as the less affected
/// of two of the same quantity, one below and one above it.
///
/// The effect of a long delay counts where it exceeds chance, and chance differs from percentile to
/// percentile. A delay that has moved the median and P99 by more than chance explains has moved what lies
/// between them, even where the values of this run are too far apart to show it.
fn raised(shown: &[ShownFigure], shares: &[Option<f64>]) -> Vec<Option<f64>> {
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
