//! Two targets measured in turn.

use serde::{Deserialize, Serialize};
use tokometer_base::Refusal;
use tokometer_base::units::nearest_count;

use crate::load::Load;
use crate::secret::ShellCommand;

/// Pairs of blocks that the default length makes: enough for an interval that small differences show
/// in, and few enough that a block is longer than its own rise and tail.
const DEFAULT_PAIRS: u64 = 20;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Default, Serialize)]
    pub struct Interleave / PartialInterleave {
        /// Requests of one block; zero: chosen when the plan is made.
        pub block_requests: u64 = 0,
        /// Length of a block in seconds, from which its requests follow; absent: they are given.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub block_s: Option<f64> = None,
        pub order: TurnOrder = TurnOrder::Abba,
        /// Run with `a` or `b` before a block of the other side; absent: there are two servers.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub switch_command: Option<ShellCommand> = None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOrder {
    /// A B B A, again and again: what earlier versions did without saying so.
    #[default]
    Abba,
    /// A B B A or B A A B, drawn for every two pairs from the plan's seed.
    Drawn,
}

impl Interleave {
    /// The requests of a block: as asked, or so many that the run has twenty pairs.
    pub(crate) fn requests_of_block(&self, load: &Load) -> Result<u64, Refusal> {
        let rate = Some(load.request_rate.0).filter(|rate| rate.is_finite());
        let expected = |seconds: f64| rate.map(|rate| nearest_count((rate * seconds).max(1.0)));
        let asked = match (self.block_requests, self.block_s) {
            (0, Some(seconds)) => Some(expected(seconds).ok_or_else(|| {
                Refusal::usage(
                    "cannot use a time for `--block`: the load has no finite request rate",
                    "give a number of requests, such as `--block 50`",
                )
            })?),
            (0, None) => None,
            (requests, _) => Some(requests),
        };
        let planned = load.num_prompts.filter(|count| *count > 0);
        let planned = planned.or_else(|| load.duration_s.and_then(expected));
        let block = asked.or_else(|| planned.map(|count| count / (2 * DEFAULT_PAIRS)));
        let block = block.ok_or_else(|| {
            Refusal::usage(
                "cannot choose the length of a block: the number of requests is unknown",
                "set it with `--block N`, or set the number of requests with `--num-prompts N`",
            )
        })?;
        let block = block.max(1);
        // Halved instead of doubled: a block may be as large as a number can be.
        match planned.filter(|count| count / 2 < block) {
            Some(planned) => Err(Refusal::usage(
                format!(
                    "cannot alternate between two targets: {planned} requests are fewer than two blocks of {block}"
                ),
                "send more requests, or use a shorter `--block`",
            )),
            None => Ok(block),
        }
    }

    /// Requests beyond the last whole pair of blocks, which are not sent.
    pub fn left_over(&self, load: &Load) -> u64 {
        let pair = self.block_requests.max(1).saturating_mul(2);
        load.num_prompts.map_or(0, |count| count % pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Overload, Rate, Timing};

    fn load(rate: f64, num_prompts: Option<u64>, duration_s: Option<f64>) -> Load {
        Load {
            request_rate: Rate(rate),
            burstiness: Rate(1.0),
            max_concurrency: None,
            stages: Vec::new(),
            num_prompts,
            duration_s,
            until: None,
            max_sessions: None,
            cancel: None,
            overload: Overload::Continue,
            timing: Timing::Rate,
        }
    }

    #[test]
    fn a_block_is_as_long_as_asked_or_gives_twenty_pairs() {
        let check = |turns: Interleave, load: Load, expected: Result<u64, &str>| {
            let found = turns.requests_of_block(&load).map_err(|why| why.message);
            match (found, expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (found, expected) => assert_eq!(found.ok(), expected.ok(), "{turns:?}"),
            }
        };
        let default = Interleave::default;
        let requests = |block_requests| Interleave { block_requests, ..default() };
        let seconds = |seconds| Interleave { block_s: Some(seconds), ..default() };
        let inf = f64::INFINITY;
        check(default(), load(inf, Some(1_000), None), Ok(25));
        check(default(), load(inf, Some(10), None), Ok(1));
        let few = "1 requests are fewer than two blocks of 1";
        check(default(), load(inf, Some(1), None), Err(few));
        check(default(), load(10.0, None, Some(60.0)), Ok(15));
        check(default(), load(inf, None, Some(60.0)), Err("number of requests is unknown"));
        check(requests(7), load(inf, None, Some(60.0)), Ok(7));
        check(seconds(3.0), load(20.0, Some(1_000), None), Ok(60));
        check(seconds(3.0), load(inf, Some(1_000), None), Err("no finite request rate"));
        let few = "1000 requests are fewer than two blocks of 600";
        check(requests(600), load(inf, Some(1_000), None), Err(few));
        // Twice this block overflowed to zero, and the remainder by zero ended the program.
        let largest = 1 << 63;
        check(requests(largest), load(inf, Some(1_000), None), Err("1000 requests are fewer"));
        assert_eq!(requests(largest).left_over(&load(inf, Some(100), None)), 100);
        assert_eq!(requests(30).left_over(&load(inf, Some(100), None)), 40);
        assert_eq!(requests(25).left_over(&load(inf, Some(100), None)), 0);
    }
}
