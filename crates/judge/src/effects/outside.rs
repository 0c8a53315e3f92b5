//! Effects of what lies between the server's own clock and the client's.

use super::{Latency, Samples, Study};
use crate::code::NoteCode;
use crate::limits::{NO_BOUND_FROM, OUTSIDE_SERVER, OUTSIDE_SERVER_TTFT};
use tokometer_figures::figure::Statistic;
use tokometer_figures::server::ServerFigures;
use tokometer_figures::steady::LoadClass;
use tokometer_figures::summary::Summary;

/// Requests by which the server's count may differ from ours, as a share: a scrape may miss the last ones.
const UNCOUNTED: f64 = 0.01;

impl Study<'_> {
    /// Time of every request outside the server, without the network's round trip: a proxy that holds back each
    /// token by the same time leaves no trace in the order of the events or their gaps. The HTTP layer of
    /// a server is a part of it, so small shares are no effect.
    pub(super) fn outside_server(&mut self, all: &Samples) {
        let Some(server) = own_requests(&self.input.summary) else { return };
        self.outside(all, Latency::E2e, server.e2e_ms_mean, OUTSIDE_SERVER);
        self.outside(all, Latency::Ttft, server.ttft_ms_mean, OUTSIDE_SERVER_TTFT);
    }

    /// The effect on one latency, if it exceeds the server's own mean by more than the share `most`.
    fn outside(&mut self, all: &Samples, of: Latency, server_ms: Option<f64>, most: f64) {
        let ours = all.statistic(of, Statistic::Mean);
        let Some((ours, theirs)) = ours.zip(server_ms.map(|ms| ms * 1e6)) else { return };
        // An acknowledgement may be delayed, so the shortest is the network's.
        let trips = self.input.observed.round_trips.iter().map(|(trip, _)| *trip);
        let outside = ours - theirs - trips.min().unwrap_or_default().0 as f64;
        if outside <= most * theirs {
            return;
        }
        let moves_rates = of == Latency::E2e && self.class == LoadClass::Closed;
        let share = |inside: f64| if inside > 0.0 { outside / inside } else { NO_BOUND_FROM };
        self.add_each(NoteCode::OutsideServer, |shown| {
            if shown.is_rate() {
                return moves_rates.then(|| share(theirs));
            }
            shown.metric.behind.filter(|one| *one == of)?;
            Some(share(all.statistic(of, shown.statistic)? - outside))
        });
    }
}

/// What the server counted, where that is about the requests of this run alone.
fn own_requests(summary: &Summary) -> Option<&ServerFigures> {
    let server = summary.server.as_ref().filter(|server| server.is_whole)?;
    let counts = &summary.counts;
    let (ours, theirs) = (counts.succeeded as f64, server.e2e_requests?);
    let is_alone = counts.failed + counts.cancelled + counts.abandoned + counts.retries == 0
        && (theirs - ours).abs() <= (UNCOUNTED * ours).max(1.0);
    is_alone.then_some(server)
}
