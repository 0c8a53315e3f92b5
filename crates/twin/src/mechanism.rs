//! Which parts of the model a prediction used, and which of them data have confirmed.

use schedule::Arrivals;
use sim::Profile;
use sim::profile::{AdmissionOrder, Policy};
use tokometer_record::RecordedLoad;
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use crate::explain::Explanation;
use crate::workload::RequestLoad;

/// A part of the model that a prediction used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlay {
    /// Its name in profiles and summaries.
    pub mechanism: &'static str,
    /// Whether the data that the profile was fitted to exercise it.
    pub is_validated: bool,
}

/// Requests spread over time.
pub(crate) const RATE: &str = "rate";
/// All requests at once.
const BURST: &str = "burst";
/// A limit of requests in flight.
const CLOSED_LOOP: &str = "closed-loop";

fn of_policy(policy: &Policy) -> &'static str {
    match policy {
        Policy::Chunked { .. } => "chunked-prefill",
        Policy::Blocking { .. } => "blocking-prefill",
        Policy::Tgi { .. } => "router",
    }
}

/// The mechanisms that a prediction used.
pub fn in_play(
    profile: &Profile,
    workload: &RequestLoad,
    explanation: &Explanation,
) -> Vec<InPlay> {
    let first = workload.asks.ask(0);
    let has_cap = workload.max_concurrency.is_some();
    let is_burst = workload.arrivals == Arrivals::AtOnce;
    let used = [
        (of_policy(&profile.scheduler.policy), true),
        (BURST, is_burst && !has_cap),
        (CLOSED_LOOP, has_cap),
        (RATE, !is_burst),
        ("prefix-cache", explanation.memory.prefix_hits > 0),
        ("preemption", explanation.memory.preemptions > 0),
        ("priority", profile.scheduler.order == AdmissionOrder::Priority),
        ("lora", first.lora.is_some()),
        ("speculation", profile.scheduler.speculation.is_some()),
        ("async-scheduling", profile.scheduler.is_async),
        ("disaggregation", profile.disaggregation.is_some()),
        ("mixture-of-experts", profile.cost.experts.is_some()),
        ("fleet", explanation.replicas > 1),
    ];
    let validated = profile.evidence.as_ref().map_or(&[][..], |evidence| &evidence.validated);
    let in_use = used.into_iter().filter(|(_, is_used)| *is_used);
    in_use
        .map(|(mechanism, _)| InPlay {
            mechanism,
            is_validated: validated.iter().any(|name| name == mechanism),
        })
        .collect()
}

/// Prompts that are longer than those a profile was fitted to, ordered by how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct BeyondRange {
    /// Tokens of the longest prompt that is predicted.
    pub asked: u32,
    /// Tokens of the longest prompt in the data.
    pub calibrated: u32,
}

/// Requests that are looked at for their length: the first ones of a large run.
const LOOKED_AT: u64 = 100_000;

/// Whether a workload has prompts beyond the range that a profile was fitted to, by more than a tenth.
/// `None` also where the profile does not state its range.
pub fn beyond_range(profile: &Profile, workload: &RequestLoad) -> Option<BeyondRange> {
    let calibrated = profile.evidence.as_ref()?.longest_prompt?;
    let looked_at = workload.asks.count().min(LOOKED_AT);
    let asked = (0..looked_at).map(|index| workload.asks.ask(index).prompt_tokens).max()?;
    let is_beyond = f64::from(asked) > 1.1 * f64::from(calibrated);
    is_beyond.then_some(BeyondRange { asked, calibrated })
}

/// What a load shows of an engine.
pub(crate) struct LoadShape {
    pub(crate) is_paced: bool,
    pub(crate) has_cap: bool,
}

/// The mechanisms that these loads show: the scheduler's own, and the kinds of load.
pub(crate) fn shown(profile: &Profile, loads: &[LoadShape]) -> Vec<String> {
    let kinds = [
        (of_policy(&profile.scheduler.policy), true),
        (BURST, loads.iter().any(|load| !load.is_paced && !load.has_cap)),
        (CLOSED_LOOP, loads.iter().any(|load| load.has_cap)),
        (RATE, loads.iter().any(|load| load.is_paced)),
    ];
    kinds.into_iter().filter(|(_, is_shown)| *is_shown).map(|(name, _)| name.to_owned()).collect()
}

/// The same of recorded runs.
pub fn shown_by(profile: &Profile, loads: &[RecordedLoad]) -> Vec<String> {
    let shape = |load: &RecordedLoad| LoadShape {
        is_paced: load.request_rate.is_some() || load.is_traced || load.ramp.is_some(),
        has_cap: load.max_concurrency.is_some(),
    };
    shown(profile, &loads.iter().map(shape).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use sim::cost::Experts;
    use sim::profile::{Disaggregation, SpeculativeDecoding};

    use super::*;
    use crate::Ask;

    #[test]
    fn runs_show_the_scheduler_and_the_kinds_of_their_loads() {
        let load = |request_rate, max_concurrency| RecordedLoad {
            request_rate,
            burstiness: 1.0,
            max_concurrency,
            planned_requests: None,
            duration: None,
            is_traced: false,
            ramp: None,
        };
        let check = |loads: &[RecordedLoad], expected: &[&str]| {
            assert_eq!(shown_by(&Profile::default(), loads), expected);
        };
        check(&[load(None, None)], &["chunked-prefill", "burst"]);
        check(&[load(Some(2.0), None), load(Some(9.0), None)], &["chunked-prefill", "rate"]);
        check(
            &[load(Some(2.0), Some(8)), load(None, Some(8))],
            &["chunked-prefill", "closed-loop", "rate"],
        );
    }

    #[test]
    fn prompts_beyond_the_calibrated_range_are_named() {
        let profile = Profile::shipped("tgi-405b").unwrap();
        let load = |tokens| RequestLoad::burst(vec![Ask::new(80, 3), Ask::new(tokens, 3)]);
        assert_eq!(beyond_range(&profile, &load(80)), None);
        let beyond = BeyondRange { asked: 128_000, calibrated: 82 };
        assert_eq!(beyond_range(&profile, &load(128_000)), Some(beyond));
        let silent = Profile { evidence: None, ..profile };
        assert_eq!(beyond_range(&silent, &load(128_000)), None);
    }

    #[test]
    fn whatever_the_profile_switches_on_is_in_play_and_not_validated_by_bursts() {
        let mut profile = Profile::default();
        let workload = RequestLoad::burst(vec![Ask::new(10, 3)]);
        let names = |profile: &Profile| -> Vec<&str> {
            let used = in_play(profile, &workload, &Explanation::default());
            used.iter().map(|one| one.mechanism).collect()
        };
        assert_eq!(names(&profile), ["chunked-prefill", "burst"]);
        profile.scheduler.speculation = Some(SpeculativeDecoding { tokens: 3, acceptance: 0.7 });
        profile.scheduler.is_async = true;
        profile.cost.experts = Some(Experts { all_ms: 10.0, share: 0.1 });
        profile.disaggregation = Some(Disaggregation {
            prefill_engines: 1,
            decode_engines: 1,
            transfer_ms: 1.0,
            transfer_token_ms: 0.0,
        });
        let more = ["speculation", "async-scheduling", "disaggregation", "mixture-of-experts"];
        assert_eq!(names(&profile)[2..], more);
    }
}
