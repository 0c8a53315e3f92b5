//! Whether the server refuses whatever it is asked, such as a model that it does not have.
//!
//! In: how the first requests of a run ended. Out: whether the run is to stop: all others would get the same
//! answer, and somebody would wait for them. Later requests are not looked at, however early they end: a refusal
//! is faster than an answer, so that those of a few requests may come before the first success.

use std::sync::{Mutex, PoisonError};

use tokometer_record::{Failure, Outcome};

use crate::config::Refusals;

/// So many first requests with one and the same refusal stop the run.
const ENOUGH: u64 = 5;

/// The refusals among the first requests.
#[derive(Debug, Default)]
pub(crate) struct FirstRefusals(Mutex<Vec<Failure>>);

impl FirstRefusals {
    /// Takes the end of the request with this number. True for the one that shows that all are refused.
    pub(crate) fn add(&self, number: u64, outcome: &Outcome, counted: Refusals) -> bool {
        let Outcome::Failed(failure) = outcome else { return false };
        if number >= ENOUGH || !counted.has(failure.status) {
            return false;
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.push(failure.clone());
        are_alike(&found)
    }

    pub(crate) fn are_enough(&self) -> bool {
        are_alike(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn are_alike(found: &[Failure]) -> bool {
    found.len() as u64 == ENOUGH && found.windows(2).all(|pair| pair[0] == pair[1])
}

#[cfg(test)]
mod tests {
    use tokometer_record::FailureKind;

    use super::*;

    fn failed(status: u16, message: &str) -> Outcome {
        let message = message.to_owned();
        Outcome::Failed(Failure { kind: FailureKind::Status, status: Some(status), message })
    }

    #[test]
    fn only_first_requests_with_one_and_the_same_refusal_stop_a_run() {
        let check = |outcomes: &[(u64, Outcome)], counted, expected: bool| {
            let refusals = FirstRefusals::default();
            let stops = outcomes.iter().filter(|(number, one)| refusals.add(*number, one, counted));
            assert_eq!((stops.count(), refusals.are_enough()), (usize::from(expected), expected));
        };
        let five = |outcome: &Outcome| -> Vec<(u64, Outcome)> {
            [4, 2, 0, 1, 3].map(|number| (number, outcome.clone())).into()
        };
        let unknown = failed(404, "no such model");
        let (client, all) = (Refusals::OfTheClient, Refusals::All);
        check(&five(&unknown), client, true);
        check(&five(&unknown)[1..], client, false);
        // Fast refusals of some requests before the first success of others.
        let every_second = (0..20).map(|number| (2 * number, unknown.clone())).collect::<Vec<_>>();
        check(&every_second, client, false);
        let mut mixed = five(&unknown);
        mixed[2].1 = failed(404, "another");
        check(&mixed, client, false);
        mixed[2].1 = Outcome::Success;
        check(&mixed, client, false);
        // What may pass: a timeout, a limit, a server that is starting.
        for status in [408, 425, 429] {
            check(&five(&failed(status, "x")), all, false);
        }
        check(&five(&failed(500, "x")), client, false);
        check(&five(&failed(500, "x")), all, true);
        let unreached = Outcome::Failed(Failure::new(FailureKind::Connect, "refused"));
        check(&five(&unreached), all, false);
    }
}
