//! The progress bar: on stderr, and only if that is a terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokometer_base::{Background, Clock, Nanos, StopSignal};
use tokometer_drive::{Live, LiveCounts};
use tokometer_measure::Goal;
use tokometer_record::Phase;

use tokometer_plan::Shown;

use crate::lower::Bar;
use crate::silence::{Silence, waiting_for_shards};
use crate::terminal::print_message;

/// Redrawn this often: slower than the eye, cheap beside the run.
const REDRAW_EVERY: Duration = Duration::from_millis(250);

/// Lines about requests that are waited for, where there is no bar, come this often.
const LINE_EVERY: Nanos = Nanos::from_secs(10);

/// A wait for the last requests that is worth showing in the bar.
const SHORT_WAIT: Nanos = Nanos::from_secs(2);

/// Says now and then that the run waits for its last requests.
#[derive(Debug, Default)]
struct Stragglers {
    /// When the wait began that lines were printed about, and how many.
    told: Option<(Nanos, u64)>,
}

/// Says that requests wait because the server asked for it.
#[derive(Debug, Default)]
struct AskedWaits {
    /// The end of the last wait that was said.
    told: Nanos,
}

impl AskedWaits {
    /// The line to print now, if a wait is news.
    fn line(&mut self, live: &Live, now: Nanos) -> Option<String> {
        let until = live.wanted_later(now)?;
        let is_news = until > self.told + LINE_EVERY && until - now >= SHORT_WAIT;
        is_news.then(|| {
            self.told = until;
            let seconds = (until - now).as_secs_f64();
            format!(
                "the server asks to be tried again in {seconds:.0} s (`Retry-After`); `--retry-max-wait` limits the wait"
            )
        })
    }
}

/// Follows a run without a bar until it has ended.
fn say_lines(live: &Live, clock: &dyn Clock, goal: Goal, shown: Shown, stop: &StopSignal) {
    let mut stragglers = Stragglers::default();
    let mut asked = AskedWaits::default();
    let mut silence = Silence::default();
    let begun = clock.now();
    let mut said = 0;
    while !stop.is_raised_within(REDRAW_EVERY) {
        let now = clock.now();
        let silent = silence.span(&live.counts(), now);
        if let Some(line) = stragglers.line(live, now, silent) {
            print_message(&line);
        }
        if let Some(line) = asked.line(live, now) {
            print_message(&line);
        }
        let due = (now - begun).0 / LINE_EVERY.0;
        let has_more = live.all_sent().is_none() || live.awaited() > 0;
        if due > said && has_more && shown != Shown::Nothing {
            print_message(&running_line(live, goal, now, silent));
        }
        said = said.max(due);
    }
}

/// `120 of 480 requests after 30 s · 8 in flight · 840 tok/s`.
fn running_line(live: &Live, goal: Goal, now: Nanos, silent: Option<Nanos>) -> String {
    if let Some(waiting) = waiting_for_shards(live) {
        return waiting;
    }
    let counts = live.counts();
    let elapsed = live.began().map(|began| now - began);
    let of = goal.requests.map(|all| format!(" of {all}")).unwrap_or_default();
    let after =
        elapsed.map(|time| format!(" after {} s", time.whole_seconds())).unwrap_or_default();
    let message = message(live.phase(), &counts, elapsed);
    format!("{}{of} requests{after} · {message}{}", counts.ended(), silence_text(silent))
}

/// ` · no content for 12 s`.
fn silence_text(silent: Option<Nanos>) -> String {
    silent.map(|span| format!(" · no content for {} s", span.whole_seconds())).unwrap_or_default()
}

impl Stragglers {
    fn line(&mut self, live: &Live, now: Nanos, silent: Option<Nanos>) -> Option<String> {
        if live.awaited() > 0 {
            return None;
        }
        self.due(live.all_sent()?, now, live.counts().in_flight(), silent)
    }

    fn due(
        &mut self,
        since: Nanos,
        now: Nanos,
        in_flight: u64,
        silent: Option<Nanos>,
    ) -> Option<String> {
        let due = (now - since).0 / LINE_EVERY.0;
        let told = self.told.filter(|(of, _)| *of == since).map_or(0, |(_, lines)| lines);
        if due <= told {
            return None;
        }
        self.told = Some((since, due));
        let waiting = match in_flight {
            0 => "retries".to_owned(),
            1 => "1 request in flight".to_owned(),
            many => format!("{many} requests in flight"),
        };
        let seconds = (now - since).whole_seconds();
        let (heard, limit) = match silent {
            Some(span) => (
                format!("; no content for {} s", span.whole_seconds()),
                "; `--timeout` limits a request",
            ),
            None => (String::new(), ""),
        };
        Some(format!(
            "waiting for {waiting}; everything was sent {seconds} s ago{heard} (Ctrl-C ends the wait and reports{limit})"
        ))
    }
}

/// A bar that follows a run until it is dropped.
pub(crate) struct Progress {
    _thread: Option<Background>,
}

impl Progress {
    /// Follows `live`. Prints lines instead of a bar where stderr is not a terminal.
    pub(crate) fn start(
        live: &Arc<Live>,
        clock: &Arc<dyn Clock>,
        goal: Goal,
        bar: Bar,
        shown: Shown,
    ) -> Self {
        let is_visible =
            bar == Bar::Allowed && shown != Shown::Nothing && std::io::stderr().is_terminal();
        let (live, clock) = (Arc::clone(live), Arc::clone(clock));
        if !is_visible {
            // A display of the whole terminal shows by itself what is in flight.
            let shown = if bar == Bar::Silent { Shown::Nothing } else { shown };
            let thread = (bar != Bar::Live).then(|| {
                Background::start("progress", move |stop| {
                    say_lines(&live, &*clock, goal, shown, stop);
                })
            });
            return Self { _thread: thread };
        }
        let thread = Background::start("progress", move |stop| {
            let bar = bar_for(goal);
            let mut silence = Silence::default();
            while !stop.is_raised_within(REDRAW_EVERY) {
                let now = clock.now();
                redraw(&bar, &live, goal, now, silence.span(&live.counts(), now));
            }
            bar.finish_and_clear();
        });
        Self { _thread: Some(thread) }
    }
}

fn bar_for(goal: Goal) -> ProgressBar {
    let length = goal
        .requests
        .or(goal.seconds.map(|all| Nanos::from_secs_f64(all).whole_seconds()))
        .unwrap_or(0);
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let unit = if goal.requests.is_none() { "s" } else { "requests" };
    let style = format!("{{bar:20}} {{pos}}/{{len}} {unit} · {{msg}} · ETA {{eta}}");
    let style = ProgressStyle::with_template(&style);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn redraw(bar: &ProgressBar, live: &Live, goal: Goal, now: Nanos, silent: Option<Nanos>) {
    if let Some(waiting) = waiting_for_shards(live) {
        return bar.set_message(waiting);
    }
    let counts = live.counts();
    let elapsed = live.began().map(|began| now - began);
    match (goal.requests, goal.seconds) {
        (None, Some(_)) => bar.set_position(elapsed.map_or(0, Nanos::whole_seconds)),
        _ => bar.set_position(counts.ended()),
    }
    let waited = live.all_sent().map(|since| now - since).filter(|waited| *waited >= SHORT_WAIT);
    let waited = waited.map(|waited| format!(" · all sent {} s ago", waited.whole_seconds()));
    let later = live.wanted_later(now).map(|until| until - now).filter(|left| *left >= SHORT_WAIT);
    let later = later.map(|left| format!(" · `Retry-After`: {} s", left.whole_seconds()));
    let message = message(live.phase(), &counts, elapsed);
    let waits = waited.unwrap_or_default() + &later.unwrap_or_default();
    bar.set_message(message + &waits + &silence_text(silent));
}

/// `warming up · 12 in flight · 3 failed · 840 tok/s`.
fn message(phase: Option<Phase>, counts: &LiveCounts, elapsed: Option<Nanos>) -> String {
    let mut parts = Vec::new();
    match phase {
        None => parts.push("preparing".to_owned()),
        Some(Phase::Warmup) => parts.push("warming up".to_owned()),
        Some(_) => {}
    }
    parts.push(format!("{} in flight", counts.in_flight()));
    if counts.failed > 0 {
        parts.push(format!("{} failed", counts.failed));
    }
    if counts.cancelled > 0 {
        parts.push(format!("{} cancelled", counts.cancelled));
    }
    if let Some(elapsed) = elapsed.filter(|elapsed| *elapsed > Nanos::ZERO) {
        let rates = counts.rates_since(&LiveCounts::default(), elapsed);
        parts.push(format!("{:.0} tok/s", rates.tokens_per_s));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_the_last_requests_is_said_every_ten_seconds() {
        let mut stragglers = Stragglers::default();
        let since = Nanos::from_secs(100);
        let mut is_said = |seconds: u64, in_flight| {
            let now = since + Nanos::from_secs(seconds);
            stragglers.due(since, now, in_flight, None).is_some_and(|line| {
                let ago = format!("everything was sent {seconds} s ago");
                assert!(line.contains(&ago), "{line}");
                true
            })
        };
        assert_eq!(
            [0, 9, 10, 11, 19, 20, 45].map(|at| is_said(at, 3)),
            [false, false, true, false, false, true, true]
        );
        assert!(!is_said(49, 3) && is_said(50, 1));
        // A later phase has a wait of its own.
        let later = Nanos::from_secs(500);
        assert_eq!(stragglers.due(later, later + Nanos::from_secs(9), 1, None), None);
        let line = stragglers.due(later, later + Nanos::from_secs(12), 2, None).unwrap();
        assert!(line.starts_with("waiting for 2 requests in flight; "), "{line}");
        let now = later + Nanos::from_secs(20);
        let line = stragglers.due(later, now, 2, Some(Nanos::from_secs(18))).unwrap();
        let silent = "everything was sent 20 s ago; no content for 18 s (";
        assert!(line.contains(silent) && line.contains("`--timeout`"), "{line}");
    }

    /// The run stood still for 30 s without a word.
    #[test]
    fn a_wait_that_the_server_asks_for_is_said_once() {
        let (live, mut asked) = (Live::default(), AskedWaits::default());
        let at = Nanos::from_secs;
        assert_eq!(asked.line(&live, at(100)), None);
        live.note_wait(at(130));
        let shown = asked.line(&live, at(100)).unwrap();
        assert!(
            shown.starts_with("the server asks to be tried again in 30 s (`Retry-After`)"),
            "{shown}"
        );
        assert_eq!([101, 129].map(|now| asked.line(&live, at(now))), [None, None]);
        // Other requests that wait as long are no news.
        live.note_wait(at(131));
        assert_eq!(asked.line(&live, at(102)), None);
        live.note_wait(at(190));
        assert!(asked.line(&live, at(131)).is_some());
        live.note_wait(at(601));
        assert_eq!(asked.line(&live, at(600)), None, "a short one");
    }

    /// It said that everything had been sent and retries were awaited.
    #[test]
    fn a_leader_says_for_how_many_shards_it_waits() {
        let (live, goal) = (Live::default(), Goal::default());
        let said = |awaited| {
            live.set_awaited(awaited);
            running_line(&live, goal, Nanos::from_secs(1), None)
        };
        assert_eq!(said(1), "waiting for 1 other shard");
        assert_eq!(said(3), "waiting for 3 other shards");
        assert!(said(0).contains("preparing"), "{}", said(0));
    }

    #[test]
    fn the_message_shows_phase_requests_and_speed() {
        let counts =
            LiveCounts { sent: 12, succeeded: 3, failed: 1, tokens: 400, ..LiveCounts::default() };
        assert_eq!(
            message(Some(Phase::Measure), &counts, Some(Nanos::from_secs(2))),
            "8 in flight · 1 failed · 200 tok/s"
        );
        assert_eq!(message(None, &LiveCounts::default(), None), "preparing · 0 in flight");
    }
}
