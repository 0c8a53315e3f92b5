//! Effects of what lies between the server's own clock and the client's.

use super::path::median_round_trip;
use super::{Latency, Samples, Study};
use crate::figure::Statistic;
use crate::steady::LoadClass;
use crate::summary::Summary;
use crate::verdict::limits::OUTSIDE_SERVER;

/// Requests by which the server's count may differ from ours, as a share: a scrape may miss the last ones.
const UNCOUNTED: f64 = 0.01;

impl Study<'_> {
    /// Time of every request outside the server, without the network's round trip: a proxy that holds back each
    /// token by the same time leaves no trace in the order of the events or their gaps. The HTTP layer of
    /// a server is a part of it, so small shares are no effect.
    pub(super) fn outside_server(&mut self) {
        let (rows, summary) = (self.input.rows, self.input.summary);
        let Some(theirs) = server_mean(summary) else { return };
        let all = Samples::of(rows, |_| true, |_, _, value| value);
        let Some(ours) = all.statistic(Latency::E2e, Statistic::Mean) else { return };
        let outside = ours - theirs - median_round_trip(&self.input.observed.round_trips).0 as f64;
        if outside <= OUTSIDE_SERVER * ours {
            return;
        }
        let is_closed = self.class == LoadClass::Closed;
        self.add_each("outside-server", |shown| {
            if shown.is_rate() {
                return is_closed.then_some(outside / ours);
            }
            Latency::behind(shown.quantity).filter(|one| *one == Latency::E2e)?;
            let value =
                all.statistic(Latency::E2e, shown.statistic).filter(|value| *value > 0.0)?;
            Some(outside / value)
        });
    }
}

/// The server's own mean E2E in nanoseconds, where it is about the requests of this run alone.
fn server_mean(summary: &Summary) -> Option<f64> {
    let server = summary.server.as_ref().filter(|server| server.is_whole)?;
    let (mean, theirs) = (server.e2e_ms_mean?, server.e2e_requests?);
    let counts = &summary.counts;
    let ours = counts.succeeded as f64;
    let is_alone = counts.failed + counts.abandoned + counts.retries == 0
        && (theirs - ours).abs() <= (UNCOUNTED * ours).max(1.0);
    is_alone.then_some(mean * 1e6)
}
