//! Sessions in words: how many ended, how long they took, where their time went, and their turns by depth.

use tokometer_base::Nanos;
use tokometer_figures::define::TURN_WAIT;
use tokometer_figures::figure::{Quantity, Statistic};
use tokometer_figures::sessions::{SessionSummary, TurnDepth};
use tokometer_figures::{Distribution, Summary};

use super::{LABEL, SummaryPage, count, line, rate, short, whole};
use crate::grid::{GAP, Grid};

/// A shorter wait is the time of the client's own work.
const LEAST_TURN_WAIT_MS: f64 = 1.0;

fn all(sessions: &SessionSummary) -> u64 {
    sessions.finished + sessions.failed + sessions.unfinished
}

/// `model 62 %, tools 35 %, client 3 %` of the time of all sessions.
fn shares(sessions: &SessionSummary) -> Option<String> {
    let SessionSummary { model_s, tools_s, client_s, .. } = *sessions;
    let whole = model_s + tools_s + client_s;
    let share = |name: &str, part: f64| format!("{name} {:.0} %", part / whole * 100.0);
    let parts = [share("model", model_s), share("tools", tools_s), share("client", client_s)];
    (whole > 0.0).then(|| parts.join(", "))
}

/// A percentile as a time, or what it lies above.
fn time(found: &Distribution, percent: f64) -> Option<String> {
    let one = found.percentile(percent)?;
    let text = |millis: f64| Nanos::from_millis_f64(millis).to_string();
    let above = || one.above.map(|above| format!("> {}", text(above)));
    let sure = if one.is_doubtful() { "?" } else { "" };
    one.value.map(|value| text(value) + sure).or_else(above)
}

/// How the sessions of a run ended, and how fast they ended.
pub(crate) fn ends(summary: &Summary) -> Option<String> {
    let sessions = summary.sessions.as_ref()?;
    let mut parts =
        vec![format!("{} of {} finished", count(sessions.finished), count(all(sessions)))];
    let fates =
        [(sessions.failed, "failed"), (sessions.unfinished, "cut off by the end of the run")];
    let others = fates.iter().filter(|(number, _)| *number > 0);
    parts.extend(others.map(|(number, word)| format!("{} {word}", count(*number))));
    let mut text = parts.join(", ");
    let figure = |key: &str, unit: &str| {
        summary.figure(key).map(|value| format!(" · {} {unit}", rate(value)))
    };
    text.extend(figure(Quantity::Sessions.key(), "sessions/h"));
    text.extend(
        summary.mean("session_turns").map(|turns| format!(" · {} turns each", short(turns))),
    );
    text.extend(shares(sessions).map(|shares| format!(" · {shares}")));
    Some(text)
}

/// The heads of a table of turns by depth, and its rows.
pub(crate) const DEPTH_HEADS: [&str; 8] =
    ["depth", "turns", "prompt", "TTFT mean", "p50", "p90", "cached", "possible"];

pub(crate) fn depth_cells(depth: &TurnDepth) -> [String; 8] {
    let TurnDepth { from, to, .. } = *depth;
    let value = |value: Option<f64>, text: fn(f64) -> String| value.map_or("-".to_owned(), text);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    [
        if from == to { from.to_string() } else { format!("{from}–{to}") },
        count(depth.turns),
        value(depth.prompt_tokens_mean, whole),
        value(depth.ttft_ms_mean, short),
        value(depth.ttft_ms_p50, short),
        value(depth.ttft_ms_p90, short),
        value(depth.cached_share, percent),
        value(depth.possible_share, percent),
    ]
}

impl SummaryPage<'_> {
    /// The line of the first screen.
    pub(super) fn sessions_in_short(&self) -> Option<String> {
        let sessions = self.summary.sessions.as_ref()?;
        let mut parts = vec![format!("{} of {}", count(sessions.finished), count(all(sessions)))];
        let found = self.summary.distribution(Quantity::Session);
        let percentiles = [Statistic::MEDIAN, Statistic::P90].map(|statistic| {
            Some(format!("{statistic} {}", time(found?, statistic.percentile()?.percent())?))
        });
        let percentiles: Vec<String> = percentiles.into_iter().flatten().collect();
        parts.extend((!percentiles.is_empty()).then(|| percentiles.join(", ")));
        parts.extend(shares(sessions));
        Some(line("sessions", &parts.join(" · ")))
    }

    pub(super) fn sessions(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            ends(self.summary).map(|text| line("sessions", &text)).into_iter().collect();
        let stretch = self.summary.distribution(Quantity::SessionStretch);
        lines.extend(stretch.and_then(|found| {
            let of =
                |percent: f64| Some(format!("p{percent} {:.2}", found.percentile(percent)?.value?));
            let parts: Vec<String> = [50.0, 90.0, 99.0].into_iter().filter_map(of).collect();
            let mean = format!("mean {:.2}", found.mean?);
            let text = format!("{}, of the recorded time", [vec![mean], parts].concat().join(", "));
            Some(line("stretch", &text))
        }));
        let wait = self.summary.figure(TURN_WAIT).filter(|wait| *wait >= LEAST_TURN_WAIT_MS);
        lines.extend(wait.map(|wait| {
            let wait = Nanos::from_millis_f64(wait);
            line(
                "next turns",
                &format!("waited {wait} in this client before they were sent (mean)"),
            )
        }));
        let depths = self.summary.sessions.iter().flat_map(|sessions| &sessions.depths);
        let mut grid = Grid::new().left(DEPTH_HEADS[0]).at_least(LABEL - GAP);
        for head in &DEPTH_HEADS[1..] {
            grid = grid.right(*head);
        }
        depths.for_each(|depth| grid.push(depth_cells(depth)));
        lines.extend(if grid.is_empty() { Vec::new() } else { grid.lines() });
        lines
    }
}
