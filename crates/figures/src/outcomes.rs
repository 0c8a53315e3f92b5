//! Requests of a run by outcome.

use tokometer_record::{RecordedLoad, RunState};

use crate::rows::{Fate, RequestRow};
use crate::summary::Counts;

pub(crate) fn counts(rows: &[RequestRow], load: &RecordedLoad, state: &RunState) -> Counts {
    let with = |fate: Fate| rows.iter().filter(|row| row.fate == fate).count() as u64;
    let abandoned_rows = with(Fate::Abandoned);
    // The last attempt of a request that was being retried has no row: its outcome is that attempt's.
    let retrying = match state {
        RunState::Ended(_) => 0,
        RunState::Killed { retrying, .. } => *retrying,
    };
    let failed = with(Fate::Failed).saturating_sub(retrying);
    // A run that ends by time has no planned number: later requests were never due.
    let planned = load.planned_requests.filter(|_| load.duration.is_none());
    let known = with(Fate::Succeeded) + failed;
    let (abandoned, never_sent) = match state {
        RunState::Ended(end) => (end.abandoned.max(abandoned_rows), end.never_sent),
        RunState::Killed { in_flight, .. } => {
            let abandoned = abandoned_rows + in_flight;
            (abandoned, planned.map_or(0, |all| all.saturating_sub(known + abandoned)))
        }
    };
    let sent = known + abandoned;
    Counts {
        planned: planned.unwrap_or(sent + never_sent).max(sent),
        sent,
        succeeded: with(Fate::Succeeded),
        failed,
        abandoned,
        never_sent,
        retries: 0,
        warmups: 0,
    }
}
