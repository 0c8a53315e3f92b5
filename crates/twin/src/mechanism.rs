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

/// A side of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadSide {
    PromptTokens,
    AnswerTokens,
    InFlight,
}

/// A side of a load that lies beyond what a profile was fitted to, ordered by side, then by how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct BeyondRange {
    pub side: LoadSide,
    /// The most that is predicted.
    pub asked: u32,
    /// The most in the data.
    pub calibrated: u32,
}

/// Requests that are looked at for their length: the first ones of a large run.
const LOOKED_AT: u64 = 100_000;

/// Ratio up to which a load counts as one of the range. How many requests were in flight at once depends on
/// chance, where they come at a rate.
const LENGTHS_WITHIN: f64 = 1.1;
const IN_FLIGHT_WITHIN: f64 = 1.25;

/// The sides of a load that lie beyond the range that a profile was fitted to. None where the profile does not
/// state its range.
pub fn beyond_range(
    profile: &Profile,
    workload: &RequestLoad,
    explanation: &Explanation,
) -> Vec<BeyondRange> {
    let Some(evidence) = &profile.evidence else { return Vec::new() };
    let looked_at = 0..workload.asks.count().min(LOOKED_AT);
    let asks = || looked_at.clone().map(|index| workload.asks.ask(index));
    let in_engine = explanation.peak_running.saturating_add(explanation.peak_waiting);
    let in_flight = workload.max_concurrency.map_or(in_engine, |cap| cap.min(in_engine));
    let sides = [
        (
            LoadSide::PromptTokens,
            asks().map(|ask| ask.prompt_tokens).max(),
            evidence.longest_prompt,
        ),
        (
            LoadSide::AnswerTokens,
            asks().map(|ask| ask.output_tokens).max(),
            evidence.longest_answer,
        ),
        (LoadSide::InFlight, Some(in_flight), evidence.most_in_flight),
    ];
    let beyond = sides.into_iter().filter_map(|(side, asked, calibrated)| {
        let found = BeyondRange { side, asked: asked?, calibrated: calibrated? };
        let within = match side {
            LoadSide::InFlight => IN_FLIGHT_WITHIN,
            LoadSide::PromptTokens | LoadSide::AnswerTokens => LENGTHS_WITHIN,
        };
        (f64::from(found.asked) > within * f64::from(found.calibrated)).then_some(found)
    });
    beyond.collect()
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
        is_paced: load.request_rate.is_some() || load.is_traced || !load.stages.is_empty(),
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
            max_sessions: None,
            planned_requests: None,
            duration: None,
            is_traced: false,
            stages: Vec::new(),
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
    fn loads_beyond_the_calibrated_range_are_named() {
        let profile = Profile::shipped("tgi-405b").unwrap();
        let load = |tokens| RequestLoad::burst(vec![Ask::new(80, 3), Ask::new(tokens, 3)]);
        let beyond = |profile: &Profile, tokens: u32, peak_running: u32| {
            let explanation = Explanation { peak_running, ..Explanation::default() };
            let found = beyond_range(profile, &load(tokens), &explanation);
            found.iter().map(|one| (one.side, one.asked, one.calibrated)).collect::<Vec<_>>()
        };
        assert_eq!(beyond(&profile, 80, 1_000), []);
        let long = (LoadSide::PromptTokens, 128_000, 82);
        assert_eq!(beyond(&profile, 128_000, 1), [long]);
        let mut known = profile.clone();
        let evidence = known.evidence.as_mut().unwrap();
        (evidence.longest_answer, evidence.most_in_flight) = (Some(2), Some(8));
        let (answers, crowd) = ((LoadSide::AnswerTokens, 3, 2), (LoadSide::InFlight, 11, 8));
        assert_eq!(beyond(&known, 128_000, 11), [long, answers, crowd]);
        assert_eq!(beyond(&known, 80, 10), [answers]);
        let silent = Profile { evidence: None, ..profile };
        assert_eq!(beyond(&silent, 128_000, 1), []);
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
