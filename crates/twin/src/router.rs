//! Which replica of a fleet gets a request.

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
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with the fewest unanswered requests, the first of equals.
    LeastLoaded,
    /// By the beginning of the prompt, so that equal beginnings meet in one cache; prompts without
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
                "there is no router `{other}`\n  try round-robin, least-loaded, prefix-affinity or random2"
            )),
        }
    }
}

/// Blocks at the beginning of a prompt that decide where it goes.
const AFFINITY_BLOCKS: usize = 8;

/// A router at work.
#[derive(Debug)]
pub(crate) struct Router {
    routing: Routing,
    replicas: usize,
    next: usize,
    generator: Generator,
}

impl Router {
    pub(crate) fn new(routing: Routing, replicas: usize, seed: Seed) -> Self {
        Self { routing, replicas, next: 0, generator: seed.stream("router").at(0) }
    }

    /// The replica for a request; `load` tells a replica's unanswered requests.
    pub(crate) fn choose(&mut self, ask: &Ask, load: impl Fn(usize) -> u64) -> usize {
        if self.replicas == 1 {
            return 0;
        }
        match self.routing {
            Routing::RoundRobin => self.rotate(),
            Routing::LeastLoaded => {
                (0..self.replicas).min_by_key(|number| load(*number)).unwrap_or(0)
            }
            Routing::PrefixAffinity => {
                match ask.block_hashes.iter().take(AFFINITY_BLOCKS).next_back() {
                    Some(hash) => {
                        let place = u128::from(*hash) * self.replicas as u128;
                        usize::try_from(place >> 64).unwrap_or(0)
                    }
                    None => self.rotate(),
                }
            }
            Routing::Random2 => {
                let (one, other) = (self.pick(), self.pick());
                if load(other) < load(one) { other } else { one }
            }
        }
    }

    fn rotate(&mut self) -> usize {
        let number = self.next;
        self.next = (self.next + 1) % self.replicas;
        number
    }

    fn pick(&mut self) -> usize {
        let last = self.replicas as u64 - 1;
        usize::try_from(whole_between(&mut self.generator, 0, last)).unwrap_or(0)
    }
}
