//! The progress bar: on stderr, and only where a person looks at it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokometer_base::{Background, Clock, Nanos};
use tokometer_drive::{Counts, Live};
use tokometer_measure::Goal;
use tokometer_record::Phase;

use tokometer_plan::Shown;

/// Redrawn this often: slower than the eye, cheap beside the run.
const REDRAW_EVERY: Duration = Duration::from_millis(250);

/// A bar that follows a run until it is dropped.
pub(crate) struct Progress {
    _thread: Option<Background>,
}

/// Whether a bar may be shown at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bar {
    /// On a terminal.
    Allowed,
    /// The whole terminal instead of a bar.
    Live,
    /// Never.
    Hidden,
}

impl Progress {
    /// Follows `live`. Shows nothing where stderr is no terminal.
    pub(crate) fn start(
        (live, clock): (&Arc<Live>, &Arc<dyn Clock>),
        goal: Goal,
        bar: Bar,
        shown: Shown,
    ) -> Self {
        let is_visible =
            bar == Bar::Allowed && shown != Shown::Nothing && std::io::stderr().is_terminal();
        if !is_visible {
            return Self { _thread: None };
        }
        let (live, clock) = (Arc::clone(live), Arc::clone(clock));
        let thread = Background::start("progress", move |stop| {
            let bar = bar_for(goal);
            while !stop.is_raised_within(REDRAW_EVERY) {
                redraw(&bar, &live, goal, clock.now());
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
    let style = ProgressStyle::with_template("{bar:28} {pos}/{len} {msg} ETA {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn redraw(bar: &ProgressBar, live: &Live, goal: Goal, now: Nanos) {
    let counts = live.counts();
    let elapsed = live.began().map(|began| now - began);
    match (goal.requests, goal.seconds) {
        (None, Some(_)) => bar.set_position(elapsed.map_or(0, Nanos::whole_seconds)),
        _ => bar.set_position(counts.ended()),
    }
    bar.set_message(message(live.phase(), &counts, elapsed));
}

/// `warming up · 12 in flight · 3 failed · 840 tok/s`.
fn message(phase: Option<Phase>, counts: &Counts, elapsed: Option<Nanos>) -> String {
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
    if let Some(elapsed) = elapsed.filter(|elapsed| *elapsed > Nanos::ZERO) {
        let rates = counts.rates_since(&Counts::default(), elapsed);
        parts.push(format!("{:.0} tok/s", rates.tokens_per_s));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_tells_what_is_going_on() {
        let counts = Counts { sent: 12, succeeded: 3, failed: 1, tokens: 400, ttft_mean: None };
        assert_eq!(
            message(Some(Phase::Measure), &counts, Some(Nanos::from_secs(2))),
            "8 in flight · 1 failed · 200 tok/s"
        );
        assert_eq!(message(None, &Counts::default(), None), "preparing · 0 in flight");
    }
}
