//! Which replica of a fleet gets a request.

use std::collections::BTreeSet;
use std::str::FromStr;

use base::Seed;
use base::seed::{Generator, whole_between};
use serde::{Deserialize, Serialize};
use tokometer_base as base;

use crate::workload::Ask;

/// A rule for choosing a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    #[default]
    RoundRobin,
    /// The one with the fewest unanswered requests, the first of equals.
    LeastLoaded,
    /// By the beginning of the prompt, so that equal prefixes share one cache; prompts without
    /// known blocks go one after the other.
    PrefixAffinity,
    /// The less loaded of two picked at random.
    Random2,
}

impl FromStr for Routing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "round-robin" => Ok(Self::RoundRobin),
            "least-loaded" => Ok(Self::LeastLoaded),
            "prefix-affinity" => Ok(Self::PrefixAffinity),
            "random2" => Ok(Self::Random2),
            other => Err(format!(
                "unknown router `{other}`\n  use round-robin, least-loaded, prefix-affinity or random2"
            )),
        }
    }
}

/// Blocks at the beginning of a prompt that decide where it goes.
const AFFINITY_BLOCKS: usize = 8;

/// The state of a router. It counts the unanswered requests of each replica, so that a choice among a thousand
/// replicas costs no more than one among ten.
#[derive(Debug)]
pub(crate) struct Router {
    routing: Routing,
    next: usize,
    generator: Generator,
    open: Vec<u64>,
    /// Replicas by unanswered requests, where the least loaded is asked for.
    order: BTreeSet<(u64, usize)>,
}

impl Router {
    pub(crate) fn new(routing: Routing, replicas: usize, seed: Seed) -> Self {
        let is_ordered = routing == Routing::LeastLoaded && replicas > 1;
        let order = if is_ordered {
            (0..replicas).map(|number| (0, number)).collect()
        } else {
            BTreeSet::new()
        };
        let generator = seed.stream("router").at(0);
        Self { routing, next: 0, generator, open: vec![0; replicas], order }
    }

    /// The replica for a request, which it has from now on.
    pub(crate) fn choose(&mut self, ask: &Ask) -> usize {
        let replica = if self.open.len() == 1 { 0 } else { self.pick_for(ask) };
        self.recount(replica, |open| open + 1);
        replica
    }

    /// A request of this replica was answered.
    pub(crate) fn answered(&mut self, replica: usize) {
        self.recount(replica, |open| open.saturating_sub(1));
    }

    fn recount(&mut self, replica: usize, change: impl Fn(u64) -> u64) {
        let before = self.open[replica];
        let after = change(before);
        self.open[replica] = after;
        if self.order.remove(&(before, replica)) {
            self.order.insert((after, replica));
        }
    }

    fn pick_for(&mut self, ask: &Ask) -> usize {
        match self.routing {
            Routing::RoundRobin => self.rotate(),
            Routing::LeastLoaded => self.order.first().map_or(0, |(_, replica)| *replica),
            Routing::PrefixAffinity => {
                match ask.block_hashes.iter().take(AFFINITY_BLOCKS).next_back() {
                    Some(hash) => {
                        let scaled = u128::from(*hash) * self.open.len() as u128;
                        usize::try_from(scaled >> 64).unwrap_or(0)
                    }
                    None => self.rotate(),
                }
            }
            Routing::Random2 => {
                let (one, other) = (self.pick(), self.pick());
                if self.open[other] < self.open[one] { other } else { one }
            }
        }
    }

    fn rotate(&mut self) -> usize {
        let number = self.next;
        self.next = (self.next + 1) % self.open.len();
        number
    }

    fn pick(&mut self) -> usize {
        let last = self.open.len() as u64 - 1;
        usize::try_from(whole_between(&mut self.generator, 0, last)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_loaded_replica_is_the_first_of_those_with_the_fewest_unanswered_requests() {
        let mut router = Router::new(Routing::LeastLoaded, 3, Seed(1));
        let mut choose = |answered: Option<usize>| {
            if let Some(replica) = answered {
                router.answered(replica);
            }
            router.choose(&Ask::new(10, 3))
        };
        assert_eq!([choose(None), choose(None), choose(None), choose(None)], [0, 1, 2, 0]);
        assert_eq!(choose(Some(2)), 2);
        assert_eq!([choose(Some(0)), choose(None)], [0, 1]);
    }
}
