//! Engine steps of recorded runs, for fitting.
//!
//! The steps themselves are found by [`tokometer_figures::steps`]; here every token of a run is kept,
//! because a fit looks at pairs of neighbouring steps.

use tokometer_figures::steps::StepCollector;
use tokometer_record::Timeline;

use crate::Error;

pub use tokometer_figures::steps::{STEPS_MIN, SeenStep};

/// The steps of a run. Requests that failed are left out; they held the engine up all the same, so a
/// run with many of them should not be used.
pub fn steps(timelines: &[Timeline]) -> Result<Vec<SeenStep>, Error> {
    let mut collector = StepCollector::unbounded();
    for timeline in timelines.iter().filter(|timeline| timeline.is_success()) {
        collector.add(timeline);
    }
    Ok(collector.seen()?.steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, KeptDetail, PredictOptions, RequestLoad, predict};
    use tokometer_base::Seed;
    use tokometer_sim::Profile;

    fn run(profile: &Profile) -> Vec<Timeline> {
        let asks: Vec<Ask> = (0..40).map(|index| Ask::new(20 + index, 10 + index)).collect();
        let workload = RequestLoad::burst(asks).capped(8);
        let options = PredictOptions { keep: KeptDetail::Timelines, ..PredictOptions::default() };
        predict(profile, &workload, Seed(1), options).unwrap().timelines
    }

    #[test]
    fn tokens_that_arrive_together_are_one_step_of_the_engine() {
        let mut profile = Profile::shipped("default").unwrap();
        profile.cost.jitter = 0.0;
        let steps = steps(&run(&profile)).unwrap();
        let tokens: u32 = steps.iter().map(|step| step.decodes + step.firsts).sum();
        assert_eq!(tokens, (10..50).sum::<u32>());
        let quiet = steps.iter().skip(1).filter(|step| step.is_decode_only());
        for step in quiet.clone() {
            let cost = &profile.cost;
            let decodes = f64::from(step.decodes);
            let expected = cost.base_ms
                + (cost.token_ms + cost.sequence_ms) * decodes
                + cost.context_ms * step.context as f64;
            let off = step.span.as_millis_f64() / expected - 1.0;
            assert!(off.abs() < 0.01, "{step:?} instead of {expected} ms");
        }
        assert!(quiet.count() > 20);
    }

    #[test]
    fn a_record_whose_events_shared_reads_is_refused() {
        let mut run = run(&Profile::shipped("default").unwrap());
        for timeline in &mut run {
            for pair in timeline.events.chunks_exact_mut(2) {
                (pair[1].at, pair[1].read) = (pair[0].at, pair[0].read);
            }
        }
        assert!(matches!(steps(&run), Err(Error::Steps(_))));
        assert!(matches!(steps(&[]), Err(Error::Steps(_))));
    }
}
