//! Decides how long to wait, without a clock and without waiting.
//!
//! A sleep is exact to some tens of microseconds. So the last part before a send is spent polling the
//! sockets, which costs CPU time only there and does not delay arriving bytes.

use tokometer_base::Nanos;

/// Time before a send that is polled instead of slept.
pub(crate) const SPIN: Nanos = Nanos::from_micros(80);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Poll,
    /// Sleep until a socket is ready or the timer expires.
    Sleep {
        /// `None` when no timer is needed.
        timer: Option<Nanos>,
    },
}

/// How to wait at `now` for something that is due at `due`.
pub(crate) fn wait(now: Nanos, due: Option<Nanos>, spin: Nanos) -> Wait {
    match due {
        None => Wait::Sleep { timer: None },
        Some(due) if due.saturating_sub(spin) <= now => Wait::Poll,
        Some(due) => Wait::Sleep { timer: Some(due.saturating_sub(spin)) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_from_a_send_it_sleeps_and_close_to_one_it_polls() {
        let check = |now, due: Option<u64>, expected| {
            assert_eq!(wait(Nanos(now), due.map(Nanos), Nanos(100)), expected, "{now} {due:?}");
        };
        check(0, None, Wait::Sleep { timer: None });
        check(0, Some(1_000), Wait::Sleep { timer: Some(Nanos(900)) });
        check(900, Some(1_000), Wait::Poll);
        check(2_000, Some(1_000), Wait::Poll);
        check(0, Some(50), Wait::Poll);
    }
}
