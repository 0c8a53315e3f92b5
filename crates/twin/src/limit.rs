//! What limited a predicted run: one decision from the account of its steps.

use tokometer_sim::Profile;

use crate::explain::{EngineWindow, Explanation};
use crate::mechanism::{InPlay, RATE};
use crate::virtual_time::Prediction;

/// Share of the time below which an engine counts as idle, and requests that wait on average above
/// which it does not keep up with a rate.
const IDLE_SHARE: f64 = 0.7;
const QUEUE_MIN: f64 = 1.0;

/// The bottleneck of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bottleneck {
    /// The KV cache: running requests were preempted.
    Memory,
    /// The load: the engine could have done more.
    Load {
        /// Share of the time in which the engine computed.
        busy_share: f64,
    },
    /// The engine's limit of running sequences.
    Sequences(u32),
    /// Steps with prompt tokens.
    Prompts {
        /// Their share of the engine's time.
        share: f64,
    },
    Decode,
}

impl Bottleneck {
    pub fn of(prediction: &Prediction, profile: &Profile, in_play: &[InPlay]) -> Self {
        let explanation = &prediction.explanation;
        if explanation.memory.preemptions > 0 {
            return Self::Memory;
        }
        let busy = explanation.steps_s();
        let whole = prediction.figures.duration_s * explanation.replicas.max(1) as f64;
        let busy_share = busy / whole.max(f64::MIN_POSITIVE);
        let waiting: f64 = explanation.windows.iter().map(|window| window.waiting).sum();
        let has_rate = in_play.iter().any(|used| used.mechanism == RATE);
        let keeps_up = has_rate && waiting < QUEUE_MIN * busy;
        if busy_share < IDLE_SHARE || keeps_up {
            return Self::Load { busy_share };
        }
        if explanation.peak_running >= profile.scheduler.max_seqs {
            return Self::Sequences(profile.scheduler.max_seqs);
        }
        let prompts = explanation.prefill.seconds + explanation.mixed.seconds;
        if prompts > busy / 2.0 { Self::Prompts { share: prompts / busy } } else { Self::Decode }
    }
}

impl Explanation {
    /// Seconds of all steps, over all replicas.
    pub fn steps_s(&self) -> f64 {
        self.prefill.seconds + self.mixed.seconds + self.decode.seconds
    }

    /// The mean over busy time of a value that windows sum over their busy seconds.
    pub fn mean_when_busy(&self, of: fn(&EngineWindow) -> f64) -> f64 {
        let busy: f64 = self.windows.iter().map(|window| window.busy_s).sum();
        self.windows.iter().map(of).sum::<f64>() / busy.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_schedule::Arrivals;

    use super::*;
    use crate::{Ask, PredictOptions, RequestLoad, in_play, predict};

    fn limit(workload: &RequestLoad, change: impl Fn(&mut Profile)) -> Bottleneck {
        let mut profile = Profile::default();
        change(&mut profile);
        let run = predict(&profile, workload, Seed(1), PredictOptions::default()).unwrap();
        Bottleneck::of(&run, &profile, &in_play(&profile, workload, &run.explanation))
    }

    #[test]
    fn the_bottleneck_is_found() {
        let crowd = RequestLoad::burst(vec![Ask::new(40, 60); 400]);
        assert_eq!(limit(&crowd, |_| {}), Bottleneck::Sequences(256));
        let small = |profile: &mut Profile| profile.kv.as_mut().unwrap().tokens = 4_096;
        assert_eq!(limit(&crowd, small), Bottleneck::Memory);
        let long = RequestLoad::burst(vec![Ask::new(8_000, 2); 30]);
        let found = limit(&long, |_| {});
        assert!(matches!(found, Bottleneck::Prompts { share } if share > 0.5), "{found:?}");
        let answers = RequestLoad::burst(vec![Ask::new(10, 400); 20]);
        assert_eq!(limit(&answers, |_| {}), Bottleneck::Decode);
    }

    #[test]
    fn an_engine_that_keeps_up_with_its_rate_is_not_the_limit() {
        let asks = vec![Ask::new(40, 60); 200];
        let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(20.0));
        let found = limit(&workload, |_| {});
        assert!(matches!(found, Bottleneck::Load { .. }), "{found:?}");
    }
}
