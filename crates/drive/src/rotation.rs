//! Which address of a target a new connection tries first.
//!
//! Connections take the addresses in turn, so that the load is spread over all replicas behind a name.
//! An address that failed comes last for a while: a replica that is down must not cost every other
//! connection its head start.

use std::sync::atomic::{AtomicU64, Ordering};

use tokometer_base::Nanos;

/// An address that failed is tried last for this long.
const AVOIDED_FOR: Nanos = Nanos::from_secs(60);

/// The addresses of one target, seen by all workers.
#[derive(Debug)]
pub(crate) struct Rotation {
    connections: AtomicU64,
    /// For each address the end of the time in which it is avoided; zero for none.
    avoided_until: Vec<AtomicU64>,
}

impl Rotation {
    pub(crate) fn new(addresses: usize) -> Self {
        let avoided_until = (0..addresses).map(|_| AtomicU64::new(0)).collect();
        Self { connections: AtomicU64::new(0), avoided_until }
    }

    pub(crate) fn next(&self, now: Nanos) -> Vec<usize> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let is_avoided: Vec<bool> =
            self.avoided_until.iter().map(|until| now.0 < until.load(Ordering::Relaxed)).collect();
        order(number, &is_avoided)
    }

    /// Notes that an address could not be connected, or not in time.
    pub(crate) fn failed(&self, address: usize, now: Nanos) {
        if let Some(until) = self.avoided_until.get(address) {
            until.store((now + AVOIDED_FOR).0, Ordering::Relaxed);
        }
    }

    pub(crate) fn worked(&self, address: usize) {
        if let Some(until) = self.avoided_until.get(address)
            && until.load(Ordering::Relaxed) != 0
        {
            until.store(0, Ordering::Relaxed);
        }
    }
}

/// The addresses in turn by the connection's number, those that are avoided behind the others.
fn order(number: u64, is_avoided: &[bool]) -> Vec<usize> {
    let in_turn = |wanted: bool| {
        let indexes = (0..is_avoided.len()).filter(move |index| is_avoided[*index] == wanted);
        let mut indexes: Vec<usize> = indexes.collect();
        let count = indexes.len() as u64;
        if count > 0 {
            indexes.rotate_left(usize::try_from(number % count).unwrap_or(0));
        }
        indexes
    };
    let mut order = in_turn(false);
    order.extend(in_turn(true));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns_and_failed_ones_come_last_for_a_while() {
        let rotation = Rotation::new(3);
        let now = Nanos::from_secs(1);
        let turns = |now| -> Vec<Vec<usize>> { (0..3).map(|_| rotation.next(now)).collect() };
        assert_eq!(turns(now), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        rotation.failed(1, now);
        // The two that are left share the load evenly.
        assert_eq!(turns(now), [[2, 0, 1], [0, 2, 1], [2, 0, 1]]);
        let later = now + AVOIDED_FOR;
        assert_eq!(turns(later), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        rotation.failed(2, later);
        rotation.worked(2);
        assert_eq!(turns(later), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn when_all_have_failed_all_are_tried() {
        assert_eq!(order(1, &[true, true]), [1, 0]);
        assert!(order(7, &[]).is_empty());
    }
}
