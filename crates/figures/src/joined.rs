//! Content that shared a read: the first of an answer may have arrived earlier than recorded, and the last
//! may have waited for a proxy.
//!
//! A proxy that joins events, or a path that stalls, holds tokens back that the server has sent. The tokens
//! of one read show it: at the answer's own pace they take less time than the silence before them.
//! The client merges tokens too, when it reads late, but only what arrived since it last looked.

use tokometer_base::Nanos;
use tokometer_record::{Event, Timeline};

use crate::measure;

/// Content that shared its read with other content, so that some of it may have been sent earlier than
/// recorded: how much earlier, from this request's own pace. In microseconds, which saturate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Joined {
    client_us: u32,
    sender_us: u32,
}

impl Joined {
    /// In nanoseconds, like the next two.
    pub fn new(by_client: f64, by_sender: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts from floats saturate"
        )]
        let micros = |nanos: f64| (nanos / 1e3) as u32;
        Self { client_us: micros(by_client), sender_us: micros(by_sender) }
    }

    /// It arrived by so much before the client read it.
    pub fn by_client(self) -> f64 {
        f64::from(self.client_us) * 1e3
    }

    /// A server, a proxy or the network held it back for so long.
    pub fn by_sender(self) -> f64 {
        f64::from(self.sender_us) * 1e3
    }
}

/// Share of the content events in the read of the previous one from which the reads of an answer count as
/// joined, so that a last token that came alone may have waited too.
const JOINED_SHARE: f64 = 0.2;

fn content(timeline: &Timeline) -> impl DoubleEndedIterator<Item = &Event> {
    timeline.events.iter().filter(|event| event.kind.is_content())
}

/// Content that shared the read of the first, in the time that this request needs for as much content.
pub(crate) fn first(timeline: &Timeline) -> Option<Joined> {
    let mut content = content(timeline);
    let first = content.next()?;
    let last = timeline.last_content()?;
    let (mut shared, mut later) = (0_u32, 0_u32);
    for event in content {
        if event.read == first.read { shared += 1 } else { later += 1 }
    }
    // What came after the first read shows the pace. A whole answer in one read shows none: its tokens may
    // have come at any time since the request was sent.
    let pace = match later {
        0 => measure::ttft(timeline)? / f64::from(shared + 1),
        later => (last.at - first.at).0 as f64 / f64::from(later),
    };
    let nanos = f64::from(shared) * pace;
    (nanos > 0.0).then(|| divided(nanos, first, timeline.merge_waits.first))
}

/// Divides the time that content arrived earlier between the client's late read, which is known not to have
/// been later than `wait`, and what held the content back before it reached the client.
fn divided(nanos: f64, content: &Event, wait: Option<Nanos>) -> Joined {
    let by_client = match wait {
        _ if !content.is_upper_bound() => 0.0,
        Some(wait) => nanos.min(wait.0 as f64),
        // Older records do not say how late the read was.
        None => nanos,
    };
    Joined::new(by_client, nanos - by_client)
}

/// The silence before the last read, less the time that this request needs for the content of that read.
pub(crate) fn last(timeline: &Timeline) -> Option<Joined> {
    let first = content(timeline).next()?;
    let last = timeline.last_content()?;
    let in_last = content(timeline).rev().take_while(|event| event.read == last.read).count();
    let before = content(timeline).rev().find(|event| event.read != last.read)?;
    let (mut count, mut joined, mut between) = (0_usize, 0_usize, 0_usize);
    let mut read = None;
    for event in content(timeline) {
        count += 1;
        joined += usize::from(read == Some(event.read));
        between += usize::from(event.read != first.read && event.read != last.read);
        read = Some(event.read);
    }
    if in_last < 2 && (joined as f64) < JOINED_SHARE * count as f64 {
        return None;
    }
    let pace = match between {
        // Two reads show no pace; the whole request gives an upper bound of it.
        0 => measure::e2e(timeline)? / count as f64,
        between => (before.at - first.at).0 as f64 / between as f64,
    };
    let nanos = (last.at - before.at).0 as f64 - in_last as f64 * pace;
    // A wait below the usual distance of two tokens is the server's own variation.
    (nanos > pace).then(|| divided(nanos, last, timeline.merge_waits.last))
}

#[cfg(test)]
mod tests {
    use tokometer_record::{EventKind, MergeWaits};

    use super::*;
    use crate::testing::answer;

    /// An answer whose tokens arrive at these milliseconds; tokens of one time share a read.
    fn arriving(times: &[u64]) -> Timeline {
        let events: Vec<_> = times.iter().map(|at| (*at, EventKind::Text)).collect();
        let mut timeline = answer(0, 0, &events);
        let mut read = 0;
        for nth in 1..times.len() {
            read += u32::from(times[nth] != times[nth - 1]);
            timeline.events[nth].read = read;
        }
        timeline
    }

    fn waited_ms(times: &[u64]) -> Option<f64> {
        last(&arriving(times)).map(|joined| joined.by_sender() / 1e6)
    }

    /// The bound for bodies of 2 MB was three to five times too high: a server that was late itself and sent
    /// two tokens one after the other looked like a client that read late.
    #[test]
    fn a_late_read_explains_no_more_than_the_time_since_the_socket_was_empty() {
        let found = |times: &[u64], wait_ms: Option<u64>, of: fn(&Timeline) -> Option<Joined>| {
            let mut timeline = arriving(times);
            for event in &mut timeline.events {
                *event = event.with_upper_bound(true);
            }
            let wait = wait_ms.map(Nanos::from_millis);
            timeline.merge_waits = MergeWaits { first: wait, last: wait };
            of(&timeline).map(|joined| (joined.by_client() / 1e6, joined.by_sender() / 1e6))
        };
        // Two tokens in the first read, one every 10 ms after it.
        let first_two = [100, 100, 110, 120];
        assert_eq!(found(&first_two, Some(1), first), Some((1.0, 9.0)));
        assert_eq!(found(&first_two, Some(30), first), Some((10.0, 0.0)));
        assert_eq!(found(&first_two, None, first), Some((10.0, 0.0)), "an older record");
        let last_two = [100, 110, 120, 130, 530, 530];
        assert_eq!(found(&last_two, Some(80), last), Some((80.0, 300.0)));
        assert_eq!(found(&last_two, None, last), Some((380.0, 0.0)));
    }

    #[test]
    fn the_last_tokens_after_a_stall_of_the_path_were_held_back() {
        // A token every 10 ms, then a stall of 400 ms that held two of them.
        assert_eq!(waited_ms(&[100, 110, 120, 130, 530, 530]), Some(380.0));
    }

    #[test]
    fn a_proxy_that_sends_every_50_ms_holds_the_rest_of_an_answer_back() {
        let times = [100, 100, 100, 150, 150, 150, 150, 150, 200, 200, 200, 200, 200, 250];
        assert_eq!(waited_ms(&times), Some(40.0));
    }

    #[test]
    fn a_slow_last_step_of_the_server_is_no_wait() {
        assert_eq!(waited_ms(&[100, 110, 120, 130, 530]), None);
    }

    #[test]
    fn an_end_that_comes_with_the_last_token_is_no_wait() {
        assert_eq!(waited_ms(&[100, 110, 120, 130, 140, 140]), None);
        assert_eq!(waited_ms(&[100, 100, 100]), None);
    }
}
