//! What limited a run: steps by kind, how full the engine was, and the parts of TTFT.

use base::Nanos;
use serde::{Deserialize, Serialize};
use sim::engine::{Counters, Occupancy, Step, StepKind};
use tokometer_base as base;
use tokometer_sim as sim;

use crate::in_flight::Active;

/// Most windows of the account over time; twice as many are merged in pairs.
const WINDOWS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepGroup {
    pub count: u64,
    /// How long together, in seconds.
    pub seconds: f64,
    pub decode_tokens: u64,
    pub prefill_tokens: u64,
}

/// The engine over one stretch of time; with several replicas, all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct EngineWindow {
    /// Seconds of steps that began in it.
    pub busy_s: f64,
    /// Sequences running, summed over busy seconds.
    pub running: f64,
    /// Requests waiting, summed over busy seconds.
    pub waiting: f64,
    /// Share of the KV cache held, summed over busy seconds.
    pub kv: f64,
    pub decode_tokens: u64,
    pub prefill_tokens: u64,
    #[serde(flatten)]
    pub memory: Memory,
}

/// What an engine's memory did in a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Running requests preempted because it ran out.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Prompt tokens found there.
    pub prefix_hits: u64,
}

impl Memory {
    /// What happened between two readings of an engine's counters.
    pub(crate) fn between(before: &Counters, after: &Counters) -> Self {
        Self {
            preemptions: after.preemptions - before.preemptions,
            prefix_queries: after.prefix_queries - before.prefix_queries,
            prefix_hits: after.prefix_hits - before.prefix_hits,
        }
    }

    fn add(&mut self, other: &Self) {
        self.preemptions += other.preemptions;
        self.prefix_queries += other.prefix_queries;
        self.prefix_hits += other.prefix_hits;
    }

    /// Share of the prompt tokens that were found; `None` where none were looked up.
    pub fn hit_share(&self) -> Option<f64> {
        let queries = self.prefix_queries;
        (queries > 0).then(|| self.prefix_hits as f64 / queries as f64)
    }
}

/// Parts of the time to first token, in seconds summed over requests.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FirstToken {
    /// Before the engine's queue: client, network, front end.
    pub front_end_s: f64,
    pub queue_s: f64,
    /// From the step that admitted it to its first token.
    pub prefill_s: f64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Explanation {
    pub prefill: StepGroup,
    pub decode: StepGroup,
    pub mixed: StepGroup,
    pub replicas: u64,
    /// Most sequences that ran at once in one replica.
    pub peak_running: u32,
    /// Most requests that waited at once in one replica.
    pub peak_waiting: u32,
    /// Largest share of the KV cache that was held; `None` without a limit.
    pub peak_kv: Option<f64>,
    /// What all engines' memory did.
    #[serde(flatten)]
    pub memory: Memory,
    pub first_token: FirstToken,
    pub window_s: f64,
    pub windows: Vec<EngineWindow>,
}

impl FirstToken {
    /// The parts as shares of the whole: front end, queue, prefill. `None` where there is no time.
    pub fn shares(&self) -> Option<[f64; 3]> {
        let parts = [self.front_end_s, self.queue_s, self.prefill_s];
        let whole: f64 = parts.iter().sum();
        (whole > 0.0).then(|| parts.map(|part| part / whole))
    }
}

impl StepGroup {
    pub fn decoded_per_step(&self) -> f64 {
        self.decode_tokens as f64 / self.count.max(1) as f64
    }

    pub fn prefilled_per_step(&self) -> f64 {
        self.prefill_tokens as f64 / self.count.max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.seconds += other.seconds;
        self.decode_tokens += other.decode_tokens;
        self.prefill_tokens += other.prefill_tokens;
    }
}

impl Explanation {
    /// Share of the engine's time that these steps took.
    pub fn time_share(&self, steps: &StepGroup) -> f64 {
        let all = self.steps_s();
        if all > 0.0 { steps.seconds / all } else { 0.0 }
    }

    /// A gauge over the time of the run, window by window, summed over replicas.
    pub fn course(&self, of: fn(&EngineWindow) -> f64) -> Vec<f64> {
        let replicas = self.replicas.max(1) as f64;
        // A step counts in the window in which it begins, and may be longer than that window.
        let width = |window: &EngineWindow| (window.busy_s / replicas).max(self.window_s);
        self.windows.iter().map(|window| of(window) / width(window)).collect()
    }

    /// The share of the KV cache in use over the time of the run, on average over replicas.
    pub fn kv_course(&self) -> Vec<f64> {
        let replicas = self.replicas.max(1) as f64;
        self.course(|window| window.kv).into_iter().map(|share| share / replicas).collect()
    }

    /// Adds the account of other replicas over the same time.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.prefill.add(&other.prefill);
        self.decode.add(&other.decode);
        self.mixed.add(&other.mixed);
        self.replicas += other.replicas;
        self.peak_running = self.peak_running.max(other.peak_running);
        self.peak_waiting = self.peak_waiting.max(other.peak_waiting);
        let peaks = [self.peak_kv, other.peak_kv].into_iter().flatten();
        self.peak_kv = peaks.max_by(f64::total_cmp);
        self.memory.add(&other.memory);
        self.first_token.front_end_s += other.first_token.front_end_s;
        self.first_token.queue_s += other.first_token.queue_s;
        self.first_token.prefill_s += other.first_token.prefill_s;
        while self.window_s < other.window_s {
            self.widen();
        }
        while other.window_s < self.window_s {
            other.widen();
        }
        let count = self.windows.len().max(other.windows.len());
        self.windows.resize(count, EngineWindow::default());
        for (mine, theirs) in self.windows.iter_mut().zip(&other.windows) {
            *mine = join(*mine, theirs);
        }
    }

    /// Windows of twice the width. Widths are a power of two times the first one.
    fn widen(&mut self) {
        let pairs = self.windows.chunks(2);
        self.windows = pairs.map(|pair| pair.iter().fold(EngineWindow::default(), join)).collect();
        self.window_s *= 2.0;
    }
}

/// Counts while a run goes on.
#[derive(Debug)]
pub(crate) struct RunTally {
    explanation: Explanation,
    width: Nanos,
    /// Front end, queue and prefill of all first tokens. Whole numbers, so that the order in which
    /// requests end does not matter.
    first_token: [u64; 3],
}

impl RunTally {
    pub(crate) fn new(replicas: usize) -> Self {
        let explanation = Explanation { replicas: replicas as u64, ..Explanation::default() };
        Self { explanation, width: Nanos::from_millis(100), first_token: [0; 3] }
    }

    /// A step that begins now, with the engine's load and what its memory did since the step before.
    pub(crate) fn step(&mut self, now: Nanos, step: &Step, load: Occupancy, memory: Memory) {
        let seconds = (step.until - now).as_secs_f64();
        let explanation = &mut self.explanation;
        let kind = match step.kind {
            StepKind::Idle => return,
            StepKind::Prefill => &mut explanation.prefill,
            StepKind::Decode => &mut explanation.decode,
            StepKind::Mixed => &mut explanation.mixed,
        };
        let (decoded, prefilled) =
            (u64::from(step.batch.decodes), u64::from(step.batch.prefill_tokens));
        kind.count += 1;
        kind.seconds += seconds;
        kind.decode_tokens += decoded;
        kind.prefill_tokens += prefilled;
        explanation.peak_running = explanation.peak_running.max(load.running);
        explanation.peak_waiting = explanation.peak_waiting.max(load.waiting);
        if let Some(kv) = load.kv_share {
            explanation.peak_kv = Some(explanation.peak_kv.unwrap_or(0.0).max(kv));
        }
        let window = self.window(now);
        window.busy_s += seconds;
        window.running += f64::from(load.running) * seconds;
        window.waiting += f64::from(load.waiting) * seconds;
        window.kv += load.kv_share.unwrap_or(0.0) * seconds;
        window.decode_tokens += decoded;
        window.prefill_tokens += prefilled;
        window.memory.add(&memory);
    }

    fn window(&mut self, now: Nanos) -> &mut EngineWindow {
        let mut at = usize::try_from(now.0 / self.width.0).unwrap_or(usize::MAX);
        while at >= 2 * WINDOWS_MAX {
            self.explanation.widen();
            self.width = Nanos(self.width.0 * 2);
            at = usize::try_from(now.0 / self.width.0).unwrap_or(usize::MAX);
        }
        let windows = &mut self.explanation.windows;
        if windows.len() <= at {
            windows.resize(at + 1, EngineWindow::default());
        }
        &mut windows[at]
    }

    pub(crate) fn answered(&mut self, request: &Active) {
        let first = request.first.unwrap_or(request.last);
        let begun = request.begun.unwrap_or(first).min(first);
        let parts = [request.arrived - request.sent, begun - request.arrived, first - begun];
        for (sum, part) in self.first_token.iter_mut().zip(parts) {
            *sum += part.0;
        }
    }

    pub(crate) fn close(&mut self, counters: &[Counters]) {
        self.explanation.window_s = self.width.as_secs_f64();
        let [front_end_s, queue_s, prefill_s] =
            self.first_token.map(|nanos| Nanos(nanos).as_secs_f64());
        self.explanation.first_token = FirstToken { front_end_s, queue_s, prefill_s };
        for counters in counters {
            self.explanation.memory.add(&Memory::between(&Counters::default(), counters));
        }
    }

    pub(crate) fn explanation(self) -> Explanation {
        self.explanation
    }
}

fn join(mut one: EngineWindow, other: &EngineWindow) -> EngineWindow {
    one.busy_s += other.busy_s;
    one.running += other.running;
    one.waiting += other.waiting;
    one.kv += other.kv;
    one.decode_tokens += other.decode_tokens;
    one.prefill_tokens += other.prefill_tokens;
    one.memory.add(&other.memory);
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_courses_are_those_of_all_replicas() {
        let steps = StepGroup { count: 4, seconds: 1.0, decode_tokens: 10, prefill_tokens: 2 };
        let window = EngineWindow { busy_s: 2.0, running: 6.0, kv: 1.0, ..EngineWindow::default() };
        let explanation = Explanation {
            decode: steps,
            mixed: StepGroup { seconds: 3.0, ..steps },
            replicas: 2,
            window_s: 0.5,
            windows: vec![
                window,
                EngineWindow { busy_s: 0.2, running: 1.0, ..EngineWindow::default() },
            ],
            ..Explanation::default()
        };
        assert_eq!((steps.decoded_per_step(), steps.prefilled_per_step()), (2.5, 0.5));
        let share = explanation.time_share(&explanation.decode);
        assert_eq!((share, Explanation::default().time_share(&steps)), (0.25, 0.0));
        // One second of each replica, then the window's own half second.
        assert_eq!(explanation.course(|window| window.running), [6.0, 2.0]);
        assert_eq!(explanation.kv_course(), [0.5, 0.0]);
    }

    #[test]
    fn the_parts_of_the_first_token_are_shares_of_the_whole() {
        let parts = FirstToken { front_end_s: 1.0, queue_s: 2.0, prefill_s: 1.0 };
        assert_eq!(parts.shares(), Some([0.25, 0.5, 0.25]));
        assert_eq!(FirstToken::default().shares(), None);
    }
}
