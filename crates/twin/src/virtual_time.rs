//! The driver: clients, front ends and engines on one clock that jumps from event to event.
//!
//! In: a profile, a workload, a number of replicas with a router, and a seed. Out: everything that a
//! client would have seen, as figures and, where they are wanted, timelines. The engine is the
//! one that the simulated server runs in real time. Same input, same bytes: no clock is read, and
//! every draw is keyed by the seed. Every wake-up lies at or after the one before it and every step
//! of an engine takes time, so a run always ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use base::seed::{Generator, unit_float};
use base::{CancelAfter, Nanos, Seed};
use record::Timeline;
use sim::Profile;
use sim::engine::{Engine, Job, StepKind};
use sim::profile::FrontEnd;
use tokometer_base as base;
use tokometer_record as record;
use tokometer_sim as sim;

use crate::Error;
use crate::client::{OldClient, SerialClient};
use crate::explain::{Explanation, Memory, RunTally};
use crate::figures::PredictedFigures;
use crate::fleet_engine::{Coalescing, FleetEngine, Joiner};
use crate::in_flight::{Active, SeenEvent};
use crate::replica_engines::ReplicaEngines;
use crate::router::{Router, Routing};
use crate::sender::{Due, FleetShare, Sender};
use crate::timelines::Timelines;
use crate::workload::{Ask, RequestLoad};

/// What a prediction keeps of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeptDetail {
    /// Figures only: bounded memory.
    #[default]
    Figures,
    /// Every request with every event, for reports made by the usual code.
    Timelines,
}

/// What an engine reports of each request; timelines need every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportForm {
    Events,
    /// First and last events, and how many gaps of which length there were.
    Ends,
}

/// The input of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualSetup<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) workload: &'a RequestLoad,
    pub(crate) seed: Seed,
    pub(crate) client: OldClient,
    pub(crate) replicas: usize,
    pub(crate) routing: Routing,
    pub(crate) keep: KeptDetail,
    pub(crate) report_form: ReportForm,
    /// Where a fleet is cut into independent shares: which one this is.
    pub(crate) share: FleetShare,
}

/// One run in virtual time.
struct VirtualRun<'a> {
    setup: VirtualSetup<'a>,
    now: Nanos,
    last_end: Nanos,
    sender: Sender<'a>,
    router: Router,
    /// All engines: those of one replica stand together, prompts before answers.
    engines: Vec<FleetEngine>,
    per_replica: ReplicaEngines,
    /// When which engine has something to do. One whose time is not the engine's own is out of date.
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// When the user of the request in which slot cancels it, with its index. A request that has ended is no
    /// longer there.
    cancels: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
    active: Vec<Active>,
    free_slots: Vec<usize>,
    client: SerialClient,
    coalescing: Generator,
    tally: RunTally,
    figures: PredictedFigures,
    timelines: Option<Timelines>,
}

/// What would have been measured.
#[derive(Debug)]
pub struct Prediction {
    pub figures: PredictedFigures,
    /// The requests in the order in which they ended; empty unless they were asked for.
    pub timelines: Vec<Timeline>,
    pub explanation: Explanation,
    /// When the last answer ended, from the start of the run.
    pub end: Nanos,
}

/// Runs to the last answer. The figures are not closed: other shares of a fleet may join them.
pub(crate) fn run(setup: VirtualSetup<'_>) -> Result<Prediction, Error> {
    setup.profile.check()?;
    let mut world = VirtualRun::new(setup)?;
    while world.advance()? {}
    let counters: Vec<_> = world.engines.iter().map(|engine| engine.inner.counters()).collect();
    world.tally.close(&counters);
    world.figures.flush();
    Ok(Prediction {
        figures: world.figures,
        timelines: world.timelines.map_or_else(Vec::new, |kept| kept.ended),
        explanation: world.tally.explanation(),
        end: world.last_end,
    })
}

impl<'a> VirtualRun<'a> {
    fn new(setup: VirtualSetup<'a>) -> Result<Self, Error> {
        let per_replica = ReplicaEngines::new(setup.profile.disaggregation);
        let engine = |number: usize| {
            let engine = Engine::new(setup.profile.clone(), engine_seed(setup.seed, number));
            FleetEngine::new(match setup.report_form {
                ReportForm::Events => engine,
                ReportForm::Ends => engine.report_ends_only(),
            })
        };
        let first = usize::try_from(setup.share.first).unwrap_or(0) * per_replica.engines();
        let count = setup.replicas * per_replica.engines();
        Ok(Self {
            now: Nanos::ZERO,
            last_end: Nanos::ZERO,
            sender: Sender::new(setup.workload, setup.seed, setup.share)?,
            router: Router::new(setup.routing, setup.replicas, setup.seed),
            engines: (0..count).map(|number| engine(first + number)).collect(),
            per_replica,
            wakes: BinaryHeap::new(),
            cancels: BinaryHeap::new(),
            active: Vec::new(),
            free_slots: Vec::new(),
            client: SerialClient::new(setup.client),
            coalescing: setup.seed.stream("coalescing").at(setup.share.first),
            tally: RunTally::new(setup.replicas),
            figures: PredictedFigures::default(),
            timelines: (setup.keep == KeptDetail::Timelines).then(Timelines::default),
            setup,
        })
    }

    /// Handles the next event. `false` when nothing is left to happen.
    fn advance(&mut self) -> Result<bool, Error> {
        while self
            .wakes
            .peek()
            .is_some_and(|Reverse((at, number))| self.engines[*number].wake_at != *at)
        {
            self.wakes.pop();
        }
        let send_at = self.sender.next_at(self.now);
        let wake = self.wakes.peek().map(|Reverse(wake)| *wake);
        let cancel = self.cancels.peek().map(|Reverse((at, ..))| *at);
        // A token of the same instant comes first: it may be the last.
        let is_next = |at: &Nanos| {
            send_at.is_none_or(|send| *at <= send) && wake.is_none_or(|(wake, _)| *at < wake)
        };
        if let Some(at) = cancel.filter(is_next) {
            self.now = at;
            self.cancel_due();
            return Ok(true);
        }
        match (send_at, wake) {
            (None, None) => return Ok(false),
            (Some(at), wake) if wake.is_none_or(|(wake_at, _)| at <= wake_at) => {
                self.now = at;
                self.send()?;
            }
            (_, Some((at, number))) => {
                self.now = at;
                self.wakes.pop();
                self.wake(number)?;
            }
            (Some(_), None) => unreachable!("a send without a wake-up is taken by the arm above"),
        }
        Ok(true)
    }

    fn send(&mut self) -> Result<(), Error> {
        let Some(due) = self.sender.take(self.now) else { return Ok(()) };
        self.check(&due)?;
        let on_wire = self.client.send(self.now);
        let per_replica = self.per_replica;
        let replica = self.router.choose(&due.ask);
        let number = self.least_loaded(per_replica.prefill_of(replica));
        let front_end = &self.setup.profile.front_end;
        let arrived = self.engines[number].queued_at(on_wire, front_end);
        let mut job = job(due.index, &due.ask, front_end);
        let rest = per_replica.split(&mut job);
        let slot = self.insert(Active {
            index: due.index,
            sent: self.now,
            arrived,
            begun: None,
            first: None,
            last: Nanos::ZERO,
            prompt_tokens: due.ask.prompt_tokens,
            output_tokens: due.ask.output_tokens.max(1),
            out_since: None,
            held: 0,
            delivered: 0,
            rest,
            engine: number,
            cancel: due.ask.cancel,
            is_over: false,
            cached_tokens: None,
        });
        if let Some(CancelAfter::Time(span)) = due.ask.cancel {
            self.cancels.push(Reverse((self.now + span, slot, due.index)));
        }
        self.figures.sent(&self.active[slot], &due);
        if let Some(timelines) = &mut self.timelines {
            timelines.sent(slot, &self.active[slot], &due);
        }
        job.id = slot as u64;
        self.expect(number, arrived, job);
        Ok(())
    }

    fn expect(&mut self, number: usize, at: Nanos, job: Job) {
        if let Some(wake_at) = self.engines[number].expect(at, job) {
            self.wakes.push(Reverse((wake_at, number)));
        }
    }

    fn least_loaded(&self, engines: Range<usize>) -> usize {
        let first = engines.start;
        engines.min_by_key(|number| self.engines[*number].load()).unwrap_or(first)
    }

    /// Sends a request, whose prompt engine `from` has computed, on to an engine that writes its answer.
    fn hand_over(&mut self, slot: usize, from: usize, mut job: Job) {
        job.id = slot as u64;
        let number = self.least_loaded(self.per_replica.decode_of(self.replica_of(from)));
        self.active[slot].engine = number;
        let arrived = self.now + self.per_replica.transfer(job.prompt_tokens - 1);
        self.expect(number, arrived, job);
    }

    fn replica_of(&self, engine: usize) -> usize {
        engine / self.per_replica.engines()
    }

    /// Refuses what the engine could never finish, and a backlog that would fill the memory.
    fn check(&self, due: &Due) -> Result<(), Error> {
        let (prompt, output) = (due.ask.prompt_tokens, due.ask.output_tokens);
        let limit = self.setup.profile.max_model_len;
        if prompt.saturating_add(output) > limit {
            return Err(Error::TooLong { index: due.index, prompt, output, limit });
        }
        let in_flight = (self.active.len() - self.free_slots.len()) as u64;
        let most = self.setup.workload.in_flight_max;
        if in_flight >= most {
            return Err(Error::Backlog { most, after: self.now, sent: due.index });
        }
        Ok(())
    }

    fn insert(&mut self, request: Active) -> usize {
        if let Some(slot) = self.free_slots.pop() {
            self.active[slot] = request;
            slot
        } else {
            self.active.push(request);
            self.active.len() - 1
        }
    }

    /// The end of an engine's step, or the arrival of a request at an idle one.
    fn wake(&mut self, number: usize) -> Result<(), Error> {
        let mut given_up = Vec::new();
        if std::mem::take(&mut self.engines[number].is_stepping) {
            match self.setup.report_form {
                ReportForm::Events => given_up = self.deliver(number),
                ReportForm::Ends => self.deliver_ends(number),
            }
        }
        let engine = &mut self.engines[number];
        self.free_slots.append(&mut engine.leaving);
        while let Some(arrival) = engine.inbox.pop_front_if(|arrival| arrival.at <= self.now) {
            let slot = slot_of(arrival.job.id);
            let submitted = engine.inner.submit(self.now, arrival.job);
            submitted.map_err(|why| Error::Refused { index: self.active[slot].index, why })?;
        }
        let step = engine.inner.step(self.now);
        for admission in engine.inner.admitted() {
            let request = &mut self.active[slot_of(admission.id)];
            request.begun.get_or_insert(self.now);
            request.cached_tokens = request.cached_tokens.or(admission.cached_tokens);
        }
        engine.is_stepping = step.kind != StepKind::Idle;
        // The next step has begun by the time at which a server sees the closed connection.
        for slot in given_up {
            engine.cancel(slot);
        }
        engine.decodes = step.batch.decodes;
        let next_arrival = engine.inbox.front().map_or(Nanos::MAX, |arrival| arrival.at);
        engine.wake_at = if engine.is_stepping { step.until } else { step.until.min(next_arrival) };
        if engine.wake_at < Nanos::MAX {
            self.wakes.push(Reverse((engine.wake_at, number)));
        }
        if engine.is_stepping {
            let counters = engine.inner.counters();
            let memory = Memory::between(&engine.counters, &counters);
            engine.counters = counters;
            self.tally.step(self.now, &step, engine.inner.load(), memory);
        }
        Ok(())
    }

    /// Hands the tokens of the step that just ended to their clients. Returns the requests that these cancel
    /// then.
    fn deliver(&mut self, number: usize) -> Vec<usize> {
        let coalesce = self.setup.profile.front_end.coalesce;
        let (mut handed_over, mut answered, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
        for produced in self.engines[number].inner.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            // Cancelled while the step was under way.
            if request.is_over {
                continue;
            }
            let tokens = produced.tokens + request.held;
            // The last text never waits, nor does an end without text.
            let waits = coalesce > 0.0
                && request.first.is_some()
                && request.delivered + tokens < request.output_tokens
                && unit_float(&mut self.coalescing) < coalesce;
            if waits {
                request.held = tokens;
                continue;
            }
            request.held = 0;
            let tokens = tokens.min(request.output_tokens - request.delivered);
            let seen = SeenEvent { at: self.client.stamp(self.now), tokens };
            self.figures.event(request, seen.at);
            if let Some(timelines) = &mut self.timelines {
                timelines.event(slot, request, seen);
            }
            request.first.get_or_insert(seen.at);
            request.last = seen.at;
            request.delivered += tokens;
            if request.is_given_up() && !produced.is_last {
                given_up.push(slot);
            } else if let Some(rest) = request.rest.take() {
                handed_over.push((slot, *rest));
            } else if produced.is_last {
                answered.push(slot);
            }
        }
        self.end_requests(number, &answered);
        for (slot, rest) in handed_over {
            self.hand_over(slot, number, rest);
        }
        for slot in &given_up {
            self.cancelled(*slot, self.active[*slot].last);
        }
        given_up
    }

    /// Cancels the next request whose user has waited long enough, unless it has ended.
    fn cancel_due(&mut self) {
        let Some(Reverse((at, slot, index))) = self.cancels.pop() else { return };
        let request = &self.active[slot];
        if request.index != index || request.is_over {
            return;
        }
        let number = request.engine;
        self.cancelled(slot, at);
        let engine = &mut self.engines[number];
        engine.cancel(slot);
        if !engine.is_stepping {
            self.free_slots.append(&mut engine.leaving);
        }
    }

    /// The user of a request closes its connection.
    fn cancelled(&mut self, slot: usize, at: Nanos) {
        let request = &mut self.active[slot];
        request.is_over = true;
        request.rest = None;
        let request = &self.active[slot];
        self.figures.cancelled(request.prompt_tokens);
        if let Some(timelines) = &mut self.timelines {
            timelines.cancelled(slot, request, at);
        }
        self.sender.ended(request.index, at);
        self.router.answered(self.replica_of(request.engine));
        self.last_end = self.last_end.max(at);
    }

    /// The same for an engine that reports only ends: all other decoding requests got one token now,
    /// as they did when they last advanced together.
    fn deliver_ends(&mut self, number: usize) {
        self.note_preempted(number);
        self.report_gaps(number);
        let now = self.now;
        let engine = &mut self.engines[number];
        let mut answered = Vec::new();
        for produced in engine.inner.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            let out_since = request.out_since.take();
            if request.first.is_none() {
                self.figures.event(request, now);
                request.first = Some(now);
            } else if let Some(since) = out_since {
                self.figures.gaps(now - since, 1);
            }
            let has_joined = request.first == Some(now) || out_since.is_some();
            if produced.is_last {
                request.last = now;
                answered.push(slot);
            } else if has_joined {
                engine.joiners.push(Joiner { since: now, slot });
            }
        }
        self.end_requests(number, &answered);
    }

    /// Requests whose last token engine `number` has produced, in that order.
    fn end_requests(&mut self, number: usize, answered: &[usize]) {
        let replica = self.replica_of(number);
        for slot in answered {
            self.active[*slot].is_over = true;
            let request = &self.active[*slot];
            self.tally.answered(request);
            self.figures.ended(request);
            if let Some(timelines) = &mut self.timelines {
                timelines.ended(*slot, request);
            }
            self.sender.ended(request.index, request.last);
            self.router.answered(replica);
            self.last_end = self.last_end.max(request.last);
            self.free_slots.push(*slot);
        }
    }

    /// Stores since when preempted requests have had no token.
    fn note_preempted(&mut self, number: usize) {
        let engine = &mut self.engines[number];
        for id in engine.inner.preempted() {
            let slot = slot_of(*id);
            let joined = engine.joiners.iter().position(|joiner| joiner.slot == slot);
            let since = joined.map(|at| engine.joiners.swap_remove(at).since);
            self.active[slot].out_since = Some(since.unwrap_or(engine.advanced_at));
        }
    }

    /// Reports how long the decoding requests had waited for the token that they all got now.
    fn report_gaps(&mut self, number: usize) {
        let now = self.now;
        let engine = &mut self.engines[number];
        if engine.decodes == 0 {
            return;
        }
        let joined = u32::try_from(engine.joiners.len()).unwrap_or(u32::MAX);
        for joiner in engine.joiners.drain(..) {
            self.figures.gaps(now - joiner.since, 1);
        }
        let together = engine.decodes.saturating_sub(joined);
        let gap = now - engine.advanced_at;
        let share = self.setup.profile.front_end.coalesce;
        let alone = if share > 0.0 {
            let coalescing = Coalescing { share, rounding: unit_float(&mut self.coalescing) };
            engine.hold(together, gap, coalescing, &mut self.figures)
        } else {
            together
        };
        self.figures.gaps(gap, alone);
        engine.advanced_at = now;
    }
}

fn slot_of(id: u64) -> usize {
    usize::try_from(id).expect("ids are slots of a vector")
}

/// Engines draw from streams of their own; the first one draws what a single server draws.
fn engine_seed(seed: Seed, number: usize) -> Seed {
    if number == 0 { seed } else { Seed(seed.stream("replica").draw(number as u64)) }
}

/// The request as an engine sees it, still without a slot. An answer that ends by itself costs one
/// more step where the front end passes the end on as an event of its own.
fn job(index: u64, ask: &Ask, front_end: &FrontEnd) -> Job {
    let ends_by_itself = ask.output_tokens < ask.output_limit;
    let output_tokens = ask.output_tokens.max(1);
    Job {
        id: index,
        prompt_tokens: ask.prompt_tokens,
        output_tokens: output_tokens + u32::from(front_end.eos_step && ends_by_itself),
        output_limit: ask.output_limit.max(output_tokens),
        block_hashes: ask.block_hashes.clone(),
        priority: ask.priority,
        lora: ask.lora,
        has_kv: false,
    }
}
