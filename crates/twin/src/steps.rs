//! Engine steps as seen from outside: tokens of one step reach all streams together.
//!
//! In: the timelines of a run. Out: one [`SeenStep`] per group of events that arrived at about the
//! same time, with what the engine must have done in it. Pure functions; a record whose events shared
//! reads is refused, because its times say when the client read and not when the engine stepped.

use record::{EventKind, Timeline};
use tokometer_base::Nanos;
use tokometer_record as record;

use crate::Error;

/// Share of events that may have come in one read with the event before.
pub const SHARED_READS_MAX: f64 = 0.05;

/// Groups of a run below which nothing is concluded.
pub const STEPS_MIN: usize = 30;

/// What one step did, as far as streams tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeenStep {
    /// When its last token arrived.
    pub at: Nanos,
    /// Time since the step before.
    pub span: Nanos,
    /// Streams that got a further token.
    pub decodes: u32,
    /// Sum of their contexts.
    pub context: u64,
    /// Streams that got their first token.
    pub firsts: u32,
    /// Prompt tokens of those.
    pub prefill_tokens: u64,
    /// Requests that had been sent before the step began and were still without a token after it:
    /// some of their prompt may have been computed in it.
    pub pending: u32,
}

impl SeenStep {
    /// Whether nothing but decoding can have gone on.
    pub fn is_decode_only(&self) -> bool {
        self.firsts == 0 && self.pending == 0 && self.decodes > 0
    }
}

struct Token {
    at: Nanos,
    is_first: bool,
    context: u64,
    prompt: u64,
}

/// The steps of a run. Requests that failed are left out; they held the engine up all the same, so a
/// run with many of them should not be used.
pub fn steps(timelines: &[Timeline]) -> Result<Vec<SeenStep>, Error> {
    let good: Vec<&Timeline> = timelines.iter().filter(|timeline| timeline.is_success()).collect();
    let (mut tokens, mut shared) = (Vec::new(), 0_usize);
    for timeline in &good {
        let prompt = u64::from(timeline.prompt_tokens().unwrap_or(0));
        let mut read_before = None;
        let events = timeline.events.iter().filter(|event| is_token(event.kind));
        for (number, event) in (0_u64..).zip(events) {
            shared += usize::from(read_before == Some(event.read));
            read_before = Some(event.read);
            let is_first = number == 0;
            tokens.push(Token { at: event.at, is_first, context: prompt + number, prompt });
        }
    }
    if shared as f64 > SHARED_READS_MAX * tokens.len() as f64 {
        return Err(Error::SharedReads { shared, events: tokens.len() });
    }
    tokens.sort_by_key(|token| token.at);
    let width = group_width(&good);
    let mut steps = Vec::new();
    for group in tokens.chunk_by(|one, other| other.at - one.at <= width) {
        steps.push(step_of(group, steps.last()));
    }
    if steps.len() < STEPS_MIN {
        return Err(Error::TooFewSteps { steps: steps.len(), least: STEPS_MIN });
    }
    count_pending(&good, &mut steps);
    Ok(steps)
}

fn is_token(kind: EventKind) -> bool {
    kind.is_content() || kind == EventKind::Empty
}

/// Events closer than this belong to one step: a fifth of the shorter gaps within streams.
fn group_width(timelines: &[&Timeline]) -> Nanos {
    let mut gaps: Vec<u64> = timelines
        .iter()
        .flat_map(|timeline| timeline.events.windows(2))
        .map(|pair| (pair[1].at - pair[0].at).0)
        .filter(|gap| *gap > 0)
        .collect();
    gaps.sort_unstable();
    Nanos(gaps.get(gaps.len() / 10).copied().unwrap_or(0) / 5)
}

fn step_of(group: &[Token], before: Option<&SeenStep>) -> SeenStep {
    let at = group.last().map_or(Nanos::ZERO, |token| token.at);
    let mut step = SeenStep {
        at,
        span: before.map_or(Nanos::ZERO, |before| at - before.at),
        decodes: 0,
        context: 0,
        firsts: 0,
        prefill_tokens: 0,
        pending: 0,
    };
    for token in group {
        if token.is_first {
            step.firsts += 1;
            step.prefill_tokens += token.prompt;
        } else {
            step.decodes += 1;
            step.context += token.context;
        }
    }
    step
}

fn count_pending(timelines: &[&Timeline], steps: &mut [SeenStep]) {
    for timeline in timelines {
        let Some(sent) = timeline.times.first_byte_sent else { continue };
        let Some(first) = timeline.first_event().map(|event| event.at) else { continue };
        let from = steps.partition_point(|step| step.at <= sent);
        let until = steps.partition_point(|step| step.at < first);
        for step in steps.iter_mut().take(until).skip(from) {
            step.pending += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ask, Keep, Options, Workload, predict};
    use tokometer_base::Seed;
    use tokometer_sim::Profile;

    fn run(profile: &Profile) -> Vec<Timeline> {
        let asks: Vec<Ask> = (0..40).map(|index| Ask::new(20 + index, 10 + index)).collect();
        let workload = Workload::burst(asks).capped(8);
        let options = Options { keep: Keep::Timelines, ..Options::default() };
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
        let mut profile = Profile::shipped("default").unwrap();
        profile.front_end.coalesce = 0.3;
        assert!(matches!(steps(&run(&profile)), Err(Error::SharedReads { .. })));
        assert!(matches!(steps(&[]), Err(Error::TooFewSteps { .. })));
    }
}
