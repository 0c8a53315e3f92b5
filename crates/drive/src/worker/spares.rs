//! Counts connections that are opened ahead of the flights that need them.
//!
//! Per target: a spare connection to one server is of no use for another. Holds numbers only; the
//! worker has the connections and the flights.

/// How many of a worker's paced flights have a connection, and which kind.
#[derive(Debug)]
pub(super) struct Spares {
    /// Flights at the head of the paced queue that have a connection, over all targets.
    provided: usize,
    targets: Vec<Count>,
}

#[derive(Debug, Clone, Default)]
struct Count {
    /// Flights to this target that have a connection.
    provided: usize,
    /// Spare connections to it that are being opened.
    opening: usize,
}

impl Spares {
    pub(super) fn new(targets: usize) -> Self {
        Self { provided: 0, targets: vec![Count::default(); targets] }
    }

    /// Position in the paced queue of the first flight without a connection.
    pub(super) fn provided(&self) -> usize {
        self.provided
    }

    /// Assigns a connection to the next flight of the queue. True when one must be opened for it,
    /// because the idle ones and those being opened are assigned.
    pub(super) fn provide(&mut self, target: u16, idle: usize) -> bool {
        self.provided += 1;
        let count = &mut self.targets[usize::from(target)];
        count.provided += 1;
        idle + count.opening < count.provided
    }

    /// A flight with a connection is sent, or needs a new one.
    pub(super) fn release(&mut self, target: u16) {
        self.provided = self.provided.saturating_sub(1);
        let count = &mut self.targets[usize::from(target)];
        count.provided = count.provided.saturating_sub(1);
    }

    pub(super) fn forget_flights(&mut self) {
        self.provided = 0;
        for count in &mut self.targets {
            count.provided = 0;
        }
    }

    pub(super) fn opening(&mut self, target: u16) {
        self.targets[usize::from(target)].opening += 1;
    }

    pub(super) fn settled(&mut self, target: u16) {
        let count = &mut self.targets[usize::from(target)];
        count.opening = count.opening.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection to A, still opening after its flight had left, was assigned to a flight to B. B's
    /// flight then had to open its own, which made it late.
    #[test]
    fn a_spare_connection_to_one_target_does_not_serve_another() {
        let mut spares = Spares::new(2);
        assert!(spares.provide(0, 0));
        spares.opening(0);
        spares.release(0);
        assert!(spares.provide(1, 0), "the connection to target 0 is of no use to target 1");
        spares.opening(1);
        assert!(!spares.provide(0, 0), "the connection to target 0 is there for this one");
        assert!(spares.provide(0, 0));
        assert_eq!(spares.provided(), 3);
    }

    #[test]
    fn flights_to_one_target_take_its_idle_connections_first() {
        let mut spares = Spares::new(2);
        let opened: Vec<bool> = (0..3).map(|_| spares.provide(0, 2)).collect();
        assert_eq!(opened, [false, false, true]);
        assert!(!spares.provide(1, 1), "flights to target 0 leave target 1's connection alone");
        spares.opening(0);
        spares.settled(0);
        assert!(!spares.provide(0, 4), "the opened connection is idle now");
    }
}
