//! Which request uses which adapter (`lora`).

use serde::{Deserialize, Serialize};
use tokometer_base::Seed;
use tokometer_base::seed::unit_float;

/// The adapters of a run and how requests fall upon them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adapters {
    /// The adapters' names. Without any the model itself is used.
    pub names: Vec<String>,
    /// How requests fall upon them.
    #[serde(default)]
    pub assignment: Assignment,
}

/// How requests fall upon adapters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assignment {
    /// Each equally likely: vLLM's `random`, SGLang's `uniform`.
    #[default]
    Random,
    /// In turn: vLLM's `round-robin`, SGLang's `distinct`.
    RoundRobin,
    /// Each `alpha` times as likely as the next: SGLang's `skewed`.
    Skewed {
        /// The factor, above 1.
        alpha: f64,
    },
}

impl Adapters {
    /// The adapter of a request. `None` when there are none.
    pub fn at(&self, index: u64, seed: Seed) -> Option<&str> {
        let number = self.names.len();
        let at = match self.assignment {
            Assignment::RoundRobin => usize::try_from(index % (number.max(1) as u64)).ok()?,
            Assignment::Random => self.drawn(index, seed, 1.0),
            Assignment::Skewed { alpha } => self.drawn(index, seed, alpha),
        };
        self.names.get(at).map(String::as_str)
    }

    /// The place of a draw with shares 1, 1/alpha, 1/alpha², …
    fn drawn(&self, index: u64, seed: Seed, alpha: f64) -> usize {
        let share = |at: usize| alpha.powf(-(at as f64));
        let total: f64 = (0..self.names.len()).map(share).sum();
        let mut left = unit_float(&mut seed.stream("lora").at(index)) * total;
        for at in 0..self.names.len() {
            left -= share(at);
            if left < 0.0 {
                return at;
            }
        }
        self.names.len().saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(assignment: Assignment) -> [usize; 3] {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let adapters = Adapters { names, assignment };
        let mut uses = [0; 3];
        for index in 0..3_000 {
            let name = adapters.at(index, Seed(1)).unwrap();
            uses[usize::from(name.as_bytes()[0] - b'a')] += 1;
        }
        uses
    }

    #[test]
    fn each_assignment_has_its_own_shares() {
        assert_eq!(uses(Assignment::RoundRobin), [1_000; 3]);
        // A count of 1,000 in 3,000 has a standard deviation of 26: six of them are 155.
        let is_near = |used: usize, expected: usize| used.abs_diff(expected) < 155;
        assert!(uses(Assignment::Random).iter().all(|used| is_near(*used, 1_000)));
        let skewed = uses(Assignment::Skewed { alpha: 2.0 });
        let expected = [1_714, 857, 429];
        assert!(
            skewed.iter().zip(expected).all(|(used, share)| is_near(*used, share)),
            "{skewed:?}"
        );
    }

    #[test]
    fn without_adapters_the_model_itself_is_used() {
        for assignment in [Assignment::Random, Assignment::RoundRobin] {
            assert_eq!(Adapters { names: Vec::new(), assignment }.at(0, Seed(1)), None);
        }
    }
}
