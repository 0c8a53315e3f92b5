//! Which parts of the model a prediction used, and which of them data have confirmed.

use schedule::Arrivals;
use sim::Profile;
use sim::profile::{AdmissionOrder, Policy};
use tokometer_record::RecordedLoad;
use tokometer_schedule as schedule;
use tokometer_sim as sim;

use crate::explain::Explanation;
use crate::workload::RequestLoad;

/// A part of the model that a workload may exercise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// Prompts in pieces beside decodes.
    ChunkedPrefill,
    /// Prompts in steps of their own.
    BlockingPrefill,
    /// A router that reserves whole answers.
    Router,
    /// All requests at once.
    Burst,
    /// A limit of requests in flight.
    ClosedLoop,
    /// Requests spread over time.
    Rate,
    /// Prompts that begin alike.
    PrefixCache,
    /// Preemption of requests when KV memory runs out.
    Preemption,
    /// An order of urgency.
    Priority,
    Lora,
    /// Speculative decoding: draft tokens.
    SpeculativeDecoding,
    /// Steps scheduled while the one before them runs.
    AsyncScheduling,
    /// Disaggregated prefill and decode.
    Disaggregation,
    /// Experts that are read as far as tokens need them.
    Experts,
    /// More than one server.
    Fleet,
}

impl Mechanism {
    /// That of a scheduler.
    pub(crate) fn of_policy(policy: &Policy) -> Self {
        match policy {
            Policy::Chunked { .. } => Self::ChunkedPrefill,
            Policy::Blocking { .. } => Self::BlockingPrefill,
            Policy::Tgi { .. } => Self::Router,
        }
    }

    /// Its name in profiles and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChunkedPrefill => "chunked-prefill",
            Self::BlockingPrefill => "blocking-prefill",
            Self::Router => "router",
            Self::Burst => "burst",
            Self::ClosedLoop => "closed-loop",
            Self::Rate => "rate",
            Self::PrefixCache => "prefix-cache",
            Self::Preemption => "preemption",
            Self::Priority => "priority",
            Self::Lora => "lora",
            Self::SpeculativeDecoding => "speculation",
            Self::AsyncScheduling => "async-scheduling",
            Self::Disaggregation => "disaggregation",
            Self::Experts => "mixture-of-experts",
            Self::Fleet => "fleet",
        }
    }
}

/// A mechanism that a prediction used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlay {
    pub mechanism: Mechanism,
    /// Whether the data that the profile was fitted to exercise it.
    pub is_validated: bool,
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
        (Mechanism::of_policy(&profile.scheduler.policy), true),
        (Mechanism::Burst, is_burst && !has_cap),
        (Mechanism::ClosedLoop, has_cap),
        (Mechanism::Rate, !is_burst),
        (Mechanism::PrefixCache, explanation.prefix_hits > 0),
        (Mechanism::Preemption, explanation.preemptions > 0),
        (Mechanism::Priority, profile.scheduler.order == AdmissionOrder::Priority),
        (Mechanism::Lora, first.lora.is_some()),
        (Mechanism::SpeculativeDecoding, profile.scheduler.speculation.is_some()),
        (Mechanism::AsyncScheduling, profile.scheduler.is_async),
        (Mechanism::Disaggregation, profile.disaggregation.is_some()),
        (Mechanism::Experts, profile.cost.experts.is_some()),
        (Mechanism::Fleet, explanation.replicas > 1),
    ];
    let validated = profile.evidence.as_ref().map(|evidence| evidence.validated.as_slice());
    let in_use = used.into_iter().filter(|(_, is_used)| *is_used);
    in_use
        .map(|(mechanism, _)| InPlay {
            mechanism,
            is_validated: validated
                .is_some_and(|names| names.iter().any(|name| name == mechanism.name())),
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

/// The mechanisms that runs of these loads show: the scheduler's own, and the kinds of load.
pub fn shown_by(profile: &Profile, loads: &[RecordedLoad]) -> Vec<Mechanism> {
    let mut shown = vec![Mechanism::of_policy(&profile.scheduler.policy)];
    for load in loads {
        let is_paced = load.request_rate.is_some() || load.is_traced || load.ramp.is_some();
        shown.extend(is_paced.then_some(Mechanism::Rate));
        let has_cap = load.max_concurrency.is_some();
        shown.extend(has_cap.then_some(Mechanism::ClosedLoop));
        shown.extend((!is_paced && !has_cap).then_some(Mechanism::Burst));
    }
    shown.sort_unstable();
    shown.dedup();
    shown
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
            let found = shown_by(&Profile::default(), loads);
            assert_eq!(found.iter().map(|one| one.name()).collect::<Vec<_>>(), expected);
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
            used.iter().map(|one| one.mechanism.name()).collect()
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
