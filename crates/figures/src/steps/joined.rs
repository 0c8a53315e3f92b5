//! Steps that no event of their own shows: a server that falls behind sends the tokens of several steps
//! in one event.
//!
//! A stream gets one token from each step, so one with more tokens than steps since its first token tells
//! how many steps are missing. Which streams lack how many says where they are missing. With speculative
//! decoding one step makes several tokens for every stream: then nothing is missing.

use tokometer_base::Nanos;
use tokometer_base::units::nearest_count;

use super::{SeenStep, StreamSpan};

/// Streams of fewer steps may have one token per step by chance.
const STEPS_LEAST: usize = 16;
/// At least this share of the streams must have one token per step; with speculative decoding none has.
const PLAIN_SHARE: f64 = 0.02;
/// Passes over the streams; the result changes by less than 1 % after a few.
const PASSES: usize = 10;

/// The steps of one stream, from its first token to its last.
struct Life {
    /// The step of its first token, and of its last.
    from: usize,
    to: usize,
    /// Tokens beyond one per step.
    more: f64,
}

/// How many steps there were besides these.
pub(super) fn joined(streams: &[StreamSpan], steps: &[SeenStep]) -> u64 {
    let step_at = |at: Nanos| steps.partition_point(|step| step.at < at);
    let life = |stream: &StreamSpan| {
        let (from, to) = (step_at(stream.first), step_at(stream.last));
        let more = f64::from(stream.tokens?.checked_sub(1)?) - (to - from) as f64;
        (to >= from + STEPS_LEAST).then_some(Life { from, to, more })
    };
    let lives: Vec<Life> = streams.iter().filter_map(life).collect();
    let plain = lives.iter().filter(|life| life.more <= 0.0).count();
    if (plain as f64) < PLAIN_SHARE * lives.len() as f64 {
        return 0;
    }
    // The least changes with which each stream has its tokens: every stream in turn spreads what it lacks
    // over its steps, and takes back what is too much.
    let mut missing = vec![0.0_f64; steps.len()];
    for _ in 0..PASSES {
        for Life { from, to, more } in &lives {
            let own = &mut missing[from + 1..=*to];
            let change = (more - own.iter().sum::<f64>()) / own.len() as f64;
            for steps in own {
                *steps = (*steps + change).max(0.0);
            }
        }
    }
    nearest_count(missing.iter().sum())
}
