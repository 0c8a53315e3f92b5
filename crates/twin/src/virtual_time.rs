//! The driver: clients, front ends and engines on one clock that jumps from event to event.
//!
//! In: a profile, a workload, a number of replicas with a router, and a seed. Out: everything that a
//! client would have seen, handed to a [`Sink`] in the order in which it happened. The engine is the
//! one that the simulated server runs in real time. Same input, same bytes: no clock is read, and
//! every draw is keyed by the seed. Every wake-up lies at or after the one before it and every step
//! of an engine takes time, so a run always ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use base::seed::{Generator, unit_float};
use base::{Nanos, Seed};
use sim::Profile;
use sim::engine::{Engine, Job, StepKind};
use sim::profile::FrontEnd;
use tokometer_base as base;
use tokometer_sim as sim;

use crate::Error;
use crate::client::{Bench, OldClient};
use crate::explain::{Memory, RunTally};
use crate::parts::ReplicaEngines;
use crate::replica::Replica;
use crate::router::{Router, Routing};
use crate::sender::{Due, FleetShare, Sender};
use crate::workload::{Ask, RequestLoad};

/// A request in flight.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    pub(crate) index: u64,
    /// Just before its first byte, by the client's clock.
    pub(crate) sent: Nanos,
    /// When the engine's queue got it.
    pub(crate) arrived: Nanos,
    /// Start of the step that admitted it.
    pub(crate) begun: Option<Nanos>,
    pub(crate) first: Option<Nanos>,
    pub(crate) last: Nanos,
    /// Answer tokens that carry text.
    pub(crate) output_tokens: u32,
    /// Since when it is out of the engine's running requests, though it has begun.
    out_since: Option<Nanos>,
    /// Tokens that wait to travel in one event with the next one.
    held: u32,
    /// Tokens handed on so far.
    told: u32,
    /// What another engine is to do after the first token.
    rest: Option<Box<Job>>,
}

/// One event as the client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenEvent {
    pub(crate) at: Nanos,
    /// Tokens with text; zero for the event that only says that the answer is over.
    pub(crate) tokens: u32,
}

/// Receives what happened.
pub(crate) trait Sink {
    fn sent(&mut self, slot: usize, request: &Active, due: &Due);
    /// Called before `request.first` and `request.last` take the event in.
    fn event(&mut self, slot: usize, request: &Active, seen: SeenEvent);
    /// So many events of any requests came this long after the one before.
    fn gaps(&mut self, gap: Nanos, weight: u32);
    fn ended(&mut self, slot: usize, request: &Active);
}

/// What must be reported of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportForm {
    /// Every event.
    Events,
    /// First and last events, and how many gaps of which length there were.
    Ends,
}

/// What a run is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualSetup<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) workload: &'a RequestLoad,
    pub(crate) seed: Seed,
    pub(crate) client: OldClient,
    pub(crate) replicas: usize,
    pub(crate) routing: Routing,
    pub(crate) report_form: ReportForm,
    /// Where a fleet is cut into independent shares: which one this is.
    pub(crate) share: FleetShare,
}

/// One run in virtual time.
pub(crate) struct VirtualRun<'a, K> {
    setup: VirtualSetup<'a>,
    now: Nanos,
    last_end: Nanos,
    sender: Sender<'a>,
    router: Router,
    /// All engines: those of one replica stand together, prompts before answers.
    engines: Vec<Replica>,
    parts: ReplicaEngines,
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    active: Vec<Active>,
    free_slots: Vec<usize>,
    client: Bench,
    coalescing: Generator,
    pub(crate) tally: RunTally,
    pub(crate) sink: K,
}

/// What remains of a run besides what its sink kept.
#[derive(Debug)]
pub(crate) struct RunRemainder<K> {
    pub(crate) sink: K,
    pub(crate) tally: RunTally,
    /// When the last answer ended.
    pub(crate) at: Nanos,
}

/// Runs to the last answer.
pub(crate) fn run<K: Sink>(setup: VirtualSetup<'_>, sink: K) -> Result<RunRemainder<K>, Error> {
    setup.profile.check()?;
    let mut world = VirtualRun::new(setup, sink)?;
    while world.advance()? {}
    let counters: Vec<_> = world.engines.iter().map(|replica| replica.engine.counters()).collect();
    world.tally.close(&counters);
    Ok(RunRemainder { sink: world.sink, tally: world.tally, at: world.last_end })
}

impl<'a, K: Sink> VirtualRun<'a, K> {
    fn new(setup: VirtualSetup<'a>, sink: K) -> Result<Self, Error> {
        let parts = ReplicaEngines::new(setup.profile.disaggregation);
        let engine = |number: usize| {
            let engine = Engine::new(setup.profile.clone(), engine_seed(setup.seed, number));
            Replica::new(match setup.report_form {
                ReportForm::Events => engine,
                ReportForm::Ends => engine.report_ends_only(),
            })
        };
        let first = usize::try_from(setup.share.first).unwrap_or(0) * parts.engines();
        let count = setup.replicas * parts.engines();
        Ok(Self {
            now: Nanos::ZERO,
            last_end: Nanos::ZERO,
            sender: Sender::new(setup.workload, setup.seed, setup.share)?,
            router: Router::new(setup.routing, setup.replicas, setup.seed),
            engines: (0..count).map(|number| engine(first + number)).collect(),
            parts,
            wakes: BinaryHeap::new(),
            active: Vec::new(),
            free_slots: Vec::new(),
            client: Bench::new(setup.client),
            coalescing: setup.seed.stream("coalescing").at(setup.share.first),
            tally: RunTally::new(setup.replicas),
            sink,
            setup,
        })
    }

    /// Handles the next event. `false` when nothing is left to happen.
    fn advance(&mut self) -> Result<bool, Error> {
        while self
            .wakes
            .peek()
            .is_some_and(|Reverse((at, replica))| self.engines[*replica].wake_at != *at)
        {
            self.wakes.pop();
        }
        let send_at = self.sender.next_at(self.now);
        let wake = self.wakes.peek().map(|Reverse(wake)| *wake);
        match (send_at, wake) {
            (None, None) => return Ok(false),
            (Some(at), wake) if wake.is_none_or(|(wake_at, _)| at <= wake_at) => {
                self.now = at;
                self.send()?;
            }
            (_, Some((at, replica))) => {
                self.now = at;
                self.wakes.pop();
                self.wake(replica)?;
            }
            (Some(_), None) => unreachable!("a send without a wake-up is taken by the arm above"),
        }
        Ok(true)
    }

    fn send(&mut self) -> Result<(), Error> {
        let Some(due) = self.sender.take() else { return Ok(()) };
        self.check(&due)?;
        let on_wire = self.client.send(self.now);
        let parts = self.parts;
        let replica = self.router.choose(&due.ask);
        let number = self.least_loaded(parts.prefill_of(replica));
        let front_end = &self.setup.profile.front_end;
        let arrived = self.engines[number].arrival(on_wire, front_end);
        let mut job = job(due.index, &due.ask, front_end);
        let rest = parts.split(&mut job);
        let slot = self.place(Active {
            index: due.index,
            sent: self.now,
            arrived,
            begun: None,
            first: None,
            last: Nanos::ZERO,
            output_tokens: due.ask.output_tokens.max(1),
            out_since: None,
            held: 0,
            told: 0,
            rest,
        });
        self.sink.sent(slot, &self.active[slot], &due);
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
        let number = self.least_loaded(self.parts.decode_of(from / self.parts.engines()));
        let arrived = self.now + self.parts.transfer(job.prompt_tokens - 1);
        self.expect(number, arrived, job);
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

    fn place(&mut self, request: Active) -> usize {
        if let Some(slot) = self.free_slots.pop() {
            self.active[slot] = request;
            slot
        } else {
            self.active.push(request);
            self.active.len() - 1
        }
    }

    /// The end of a replica's step, or the arrival of a request at an idle one.
    fn wake(&mut self, number: usize) -> Result<(), Error> {
        if std::mem::take(&mut self.engines[number].is_stepping) {
            match self.setup.report_form {
                ReportForm::Events => self.deliver(number),
                ReportForm::Ends => self.deliver_ends(number),
            }
        }
        let replica = &mut self.engines[number];
        while replica.inbox.front().is_some_and(|(arrived, _)| *arrived <= self.now) {
            let Some((_, job)) = replica.inbox.pop_front() else { break };
            let slot = slot_of(job.id);
            let submitted = replica.engine.submit(self.now, job);
            submitted.map_err(|why| Error::Refused { index: self.active[slot].index, why })?;
        }
        let step = replica.engine.step(self.now);
        for id in replica.engine.admitted() {
            let request = &mut self.active[slot_of(*id)];
            request.begun.get_or_insert(self.now);
        }
        replica.is_stepping = step.kind != StepKind::Idle;
        replica.decodes = step.batch.decodes;
        let arrival = replica.inbox.front().map_or(Nanos::MAX, |(arrived, _)| *arrived);
        replica.wake_at = if replica.is_stepping { step.until } else { step.until.min(arrival) };
        if replica.wake_at < Nanos::MAX {
            self.wakes.push(Reverse((replica.wake_at, number)));
        }
        if replica.is_stepping {
            let counters = replica.engine.counters();
            let memory = Memory::between(&replica.counters, &counters);
            replica.counters = counters;
            self.tally.step(self.now, &step, (replica.engine.load(), memory));
        }
        Ok(())
    }

    /// Hands the tokens of the step that just ended to their clients.
    fn deliver(&mut self, number: usize) {
        let coalesce = self.setup.profile.front_end.coalesce;
        let mut handed_over = Vec::new();
        for produced in self.engines[number].engine.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            let tokens = produced.tokens + request.held;
            // The last text never waits, nor does an end without text.
            let waits = coalesce > 0.0
                && request.first.is_some()
                && request.told + tokens < request.output_tokens
                && unit_float(&mut self.coalescing) < coalesce;
            if waits {
                request.held = tokens;
                continue;
            }
            request.held = 0;
            let tokens = tokens.min(request.output_tokens - request.told);
            let seen = SeenEvent { at: self.client.stamp(self.now), tokens };
            self.sink.event(slot, request, seen);
            request.first.get_or_insert(seen.at);
            request.last = seen.at;
            request.told += tokens;
            if let Some(rest) = request.rest.take() {
                handed_over.push((slot, *rest));
            } else if produced.is_last {
                self.tally.answered(request);
                self.sink.ended(slot, request);
                self.sender.ended(request.index, request.last);
                self.router.answered(number / self.parts.engines());
                self.last_end = self.last_end.max(request.last);
                self.free_slots.push(slot);
            }
        }
        for (slot, rest) in handed_over {
            self.hand_over(slot, number, rest);
        }
    }

    /// The same for an engine that reports only ends: all other decoding requests got one token now,
    /// as they did when they last advanced together.
    fn deliver_ends(&mut self, number: usize) {
        self.note_preempted(number);
        self.report_gaps(number);
        let now = self.now;
        let replica = &mut self.engines[number];
        for produced in replica.engine.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            let out_since = request.out_since.take();
            if request.first.is_none() {
                let tokens = produced.tokens.min(request.output_tokens);
                self.sink.event(slot, request, SeenEvent { at: now, tokens });
                request.first = Some(now);
            } else if let Some(since) = out_since {
                self.sink.gaps(now - since, 1);
            }
            let has_joined = request.first == Some(now) || out_since.is_some();
            if produced.is_last {
                request.last = now;
                self.tally.answered(request);
                self.sink.ended(slot, request);
                self.sender.ended(request.index, now);
                self.router.answered(number / self.parts.engines());
                self.last_end = now;
                self.free_slots.push(slot);
            } else if has_joined {
                replica.joiners.push((now, slot));
            }
        }
    }

    /// Stores since when preempted requests have had no token.
    fn note_preempted(&mut self, number: usize) {
        let replica = &mut self.engines[number];
        for id in replica.engine.preempted() {
            let slot = slot_of(*id);
            let joined = replica.joiners.iter().position(|(_, joiner)| *joiner == slot);
            let since = joined.map(|at| replica.joiners.swap_remove(at).0);
            self.active[slot].out_since = Some(since.unwrap_or(replica.advanced_at));
        }
    }

    /// Reports how long the decoding requests had waited for the token that they all got now.
    fn report_gaps(&mut self, number: usize) {
        let now = self.now;
        let replica = &mut self.engines[number];
        if replica.decodes == 0 {
            return;
        }
        let joined = u32::try_from(replica.joiners.len()).unwrap_or(u32::MAX);
        for (since, _) in replica.joiners.drain(..) {
            self.sink.gaps(now - since, 1);
        }
        let together = replica.decodes.saturating_sub(joined);
        let gap = now - replica.advanced_at;
        let coalesce = self.setup.profile.front_end.coalesce;
        let plain = if coalesce > 0.0 {
            let draw = (coalesce, unit_float(&mut self.coalescing));
            replica.hold(together, gap, draw, &mut self.sink)
        } else {
            together
        };
        self.sink.gaps(gap, plain);
        replica.advanced_at = now;
    }
}

fn slot_of(id: u64) -> usize {
    usize::try_from(id).expect("ids are slots of a vector")
}

/// Engines draw from streams of their own; the first one draws what a single server draws.
fn engine_seed(seed: Seed, number: usize) -> Seed {
    if number == 0 { seed } else { Seed(seed.stream("replica").draw(number as u64)) }
}

/// The request as an engine sees it, still without a place. An answer that ends by itself costs one
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
