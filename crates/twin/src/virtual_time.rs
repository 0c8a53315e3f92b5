//! The driver: clients, front ends and engines on one clock that jumps from event to event.
//!
//! In: a profile, a workload, a number of replicas with a router, and a seed. Out: everything that a
//! client would have seen, handed to a [`Sink`] in the order in which it happened. The engine is the
//! one that the simulated server runs in real time. Same input, same bytes: no clock is read, and
//! every draw is keyed by the seed. Every wake-up lies at or after the one before it and every step
//! of an engine takes time, so a run always ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use base::seed::{Generator, unit_float};
use base::{Nanos, Seed};
use sim::Profile;
use sim::engine::{Engine, Job, StepKind};
use sim::profile::FrontEnd;
use tokometer_base as base;
use tokometer_sim as sim;

use crate::Error;
use crate::client::{Bench, OldClient};
use crate::explain::Tally;
use crate::router::{Router, Routing};
use crate::sender::{Due, Sender, Share};
use crate::workload::{Ask, Workload};

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
    /// Events of one token that wait to travel with the next one.
    held_events: u32,
    /// Tokens handed on so far.
    told: u32,
}

/// One event as the client saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) at: Nanos,
    /// Tokens with text; zero for the event that only says that the answer is over.
    pub(crate) tokens: u32,
}

/// Who keeps what happened.
pub(crate) trait Sink {
    fn sent(&mut self, slot: usize, request: &Active, due: &Due);
    /// Called before `request.first` and `request.last` take the event in.
    fn event(&mut self, slot: usize, request: &Active, seen: Seen);
    /// So many events of any requests came this long after the one before.
    fn gaps(&mut self, gap: Nanos, weight: u32);
    fn ended(&mut self, slot: usize, request: &Active);
}

/// What must be told of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Every event.
    Events,
    /// First and last events, and how many gaps of which length there were.
    Ends,
}

struct Replica {
    engine: Engine,
    /// Tokens that the step under way gives to decoding requests.
    decodes: u32,
    /// When its decoding requests last got a token.
    advanced_at: Nanos,
    /// Requests that began to decode since then, and when.
    joiners: Vec<(Nanos, usize)>,
    /// Events that wait to travel with the next one, and the gap that they have waited.
    held: (u32, Nanos),
    /// Requests between the network and the engine's queue, in order.
    inbox: VecDeque<(Nanos, Job)>,
    serial_free_at: Nanos,
    is_stepping: bool,
    wake_at: Nanos,
}

/// What a run is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) workload: &'a Workload,
    pub(crate) seed: Seed,
    pub(crate) client: OldClient,
    pub(crate) replicas: usize,
    pub(crate) routing: Routing,
    pub(crate) telling: Telling,
    /// Where a fleet is cut into independent shares: which one this is.
    pub(crate) share: Share,
}

/// One run in virtual time.
pub(crate) struct World<'a, K> {
    setup: Setup<'a>,
    now: Nanos,
    last_end: Nanos,
    sender: Sender<'a>,
    router: Router,
    replicas: Vec<Replica>,
    wakes: BinaryHeap<Reverse<(Nanos, usize)>>,
    active: Vec<Active>,
    free_slots: Vec<usize>,
    client: Bench,
    coalescing: Generator,
    pub(crate) tally: Tally,
    pub(crate) sink: K,
}

/// What remains of a run besides what its sink kept.
#[derive(Debug)]
pub(crate) struct Ended<K> {
    pub(crate) sink: K,
    pub(crate) tally: Tally,
    /// When the last answer ended.
    pub(crate) at: Nanos,
}

/// Runs to the last answer.
pub(crate) fn run<K: Sink>(setup: Setup<'_>, sink: K) -> Result<Ended<K>, Error> {
    setup.profile.check()?;
    let mut world = World::new(setup, sink)?;
    while world.advance()? {}
    let counters: Vec<_> = world.replicas.iter().map(|replica| replica.engine.counters()).collect();
    world.tally.close(&counters);
    Ok(Ended { sink: world.sink, tally: world.tally, at: world.last_end })
}

impl<'a, K: Sink> World<'a, K> {
    fn new(setup: Setup<'a>, sink: K) -> Result<Self, Error> {
        let engine = |number: usize| {
            let engine = Engine::new(setup.profile.clone(), replica_seed(setup.seed, number));
            match setup.telling {
                Telling::Events => engine,
                Telling::Ends => engine.telling_ends_only(),
            }
        };
        let replica = |number: usize| Replica {
            engine: engine(number),
            decodes: 0,
            advanced_at: Nanos::ZERO,
            joiners: Vec::new(),
            held: (0, Nanos::ZERO),
            inbox: VecDeque::new(),
            serial_free_at: Nanos::ZERO,
            is_stepping: false,
            wake_at: Nanos::MAX,
        };
        let first = usize::try_from(setup.share.first).unwrap_or(0);
        Ok(Self {
            now: Nanos::ZERO,
            last_end: Nanos::ZERO,
            sender: Sender::new(setup.workload, setup.seed, setup.share)?,
            router: Router::new(setup.routing, setup.replicas, setup.seed),
            replicas: (0..setup.replicas).map(|number| replica(first + number)).collect(),
            wakes: BinaryHeap::new(),
            active: Vec::new(),
            free_slots: Vec::new(),
            client: Bench::new(setup.client),
            coalescing: setup.seed.stream("coalescing").at(setup.share.first),
            tally: Tally::new(setup.replicas),
            sink,
            setup,
        })
    }

    /// Handles the next event. `false` when nothing is left to happen.
    fn advance(&mut self) -> Result<bool, Error> {
        while self
            .wakes
            .peek()
            .is_some_and(|Reverse((at, replica))| self.replicas[*replica].wake_at != *at)
        {
            let _stale = self.wakes.pop();
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
                let _wake = self.wakes.pop();
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
        let replicas = &self.replicas;
        let number = self.router.choose(&due.ask, |number| replicas[number].load());
        let front_end = &self.setup.profile.front_end;
        let replica = &mut self.replicas[number];
        replica.serial_free_at =
            replica.serial_free_at.max(on_wire) + Nanos::from_millis_f64(front_end.serial_ms);
        let arrived = replica.serial_free_at + Nanos::from_millis_f64(front_end.arrival_ms);
        let slot = self.place(Active {
            index: due.index,
            sent: self.now,
            arrived,
            begun: None,
            first: None,
            last: Nanos::ZERO,
            output_tokens: due.ask.output_tokens.max(1),
            out_since: None,
            held_events: 0,
            told: 0,
        });
        self.sink.sent(slot, &self.active[slot], &due);
        let job = job(slot, due.ask, front_end);
        let replica = &mut self.replicas[number];
        replica.inbox.push_back((arrived, job));
        if !replica.is_stepping && arrived < replica.wake_at {
            replica.wake_at = arrived;
            self.wakes.push(Reverse((arrived, number)));
        }
        Ok(())
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
        if std::mem::take(&mut self.replicas[number].is_stepping) {
            match self.setup.telling {
                Telling::Events => self.deliver(number),
                Telling::Ends => self.deliver_ends(number),
            }
        }
        let replica = &mut self.replicas[number];
        while replica.inbox.front().is_some_and(|(arrived, _)| *arrived <= self.now) {
            let Some((_, job)) = replica.inbox.pop_front() else { break };
            let slot = slot_of(job.id);
            let submitted = replica.engine.submit(self.now, job);
            submitted.map_err(|why| Error::Refused { index: self.active[slot].index, why })?;
        }
        let step = replica.engine.step(self.now);
        for id in replica.engine.admitted() {
            let request = &mut self.active[slot_of(*id)];
            let _first = request.begun.get_or_insert(self.now);
        }
        replica.is_stepping = step.kind != StepKind::Idle;
        replica.decodes = step.batch.decodes;
        let arrival = replica.inbox.front().map_or(Nanos::MAX, |(arrived, _)| *arrived);
        replica.wake_at = if replica.is_stepping { step.until } else { step.until.min(arrival) };
        if replica.wake_at < Nanos::MAX {
            self.wakes.push(Reverse((replica.wake_at, number)));
        }
        if replica.is_stepping {
            self.tally.step(self.now, &step, replica.engine.load());
        }
        Ok(())
    }

    /// Hands the tokens of the step that just ended to their clients.
    fn deliver(&mut self, number: usize) {
        let coalesce = self.setup.profile.front_end.coalesce;
        for produced in self.replicas[number].engine.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            let waits = coalesce > 0.0
                && request.first.is_some()
                && !produced.is_last
                && unit_float(&mut self.coalescing) < coalesce;
            if waits {
                request.held_events += 1;
                continue;
            }
            let held = std::mem::take(&mut request.held_events);
            let tokens = produced.tokens.min(request.output_tokens - request.told);
            let events = (0..held).map(|_| 1).chain(std::iter::once(tokens));
            for tokens in events {
                let seen = Seen { at: self.client.stamp(self.now), tokens };
                self.sink.event(slot, request, seen);
                let _first = request.first.get_or_insert(seen.at);
                request.last = seen.at;
                request.told = (request.told + tokens).min(request.output_tokens);
            }
            if produced.is_last {
                self.tally.answered(request);
                self.sink.ended(slot, request);
                self.sender.ended(request.index, request.last);
                self.last_end = self.last_end.max(request.last);
                self.free_slots.push(slot);
            }
        }
    }

    /// The same for an engine that tells only ends: all other decoding requests got one token now,
    /// as they did when they last advanced together.
    fn deliver_ends(&mut self, number: usize) {
        let now = self.now;
        let replica = &mut self.replicas[number];
        for id in replica.engine.preempted() {
            let slot = slot_of(*id);
            let joined = replica.joiners.iter().position(|(_, joiner)| *joiner == slot);
            let since = joined.map(|at| replica.joiners.swap_remove(at).0);
            self.active[slot].out_since = Some(since.unwrap_or(replica.advanced_at));
        }
        if replica.decodes > 0 {
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
        for produced in replica.engine.produced() {
            let slot = slot_of(produced.id);
            let request = &mut self.active[slot];
            let out_since = request.out_since.take();
            if request.first.is_none() {
                let tokens = produced.tokens.min(request.output_tokens);
                self.sink.event(slot, request, Seen { at: now, tokens });
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
                self.last_end = now;
                self.free_slots.push(slot);
            } else if has_joined {
                replica.joiners.push((now, slot));
            }
        }
    }
}

impl Replica {
    /// Lets a share of the events wait for the next one, and hands on those that waited. Returns how
    /// many of `together` neither wait nor waited.
    fn hold(&mut self, together: u32, gap: Nanos, draw: (f64, f64), sink: &mut impl Sink) -> u32 {
        let (held, waited) = self.held;
        let held = held.min(together);
        sink.gaps(waited + gap, held);
        sink.gaps(Nanos::ZERO, held);
        let ends = self.engine.produced().iter().filter(|produced| produced.is_last).count();
        let ends = u32::try_from(ends).unwrap_or(u32::MAX);
        let free = (together - held).saturating_sub(ends);
        // The expected number, rounded at random: one draw per step instead of one per event.
        let expected = draw.0 * f64::from(free) + draw.1;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between zero and the number of running requests"
        )]
        let waits = (expected as u32).min(free);
        self.held = (waits, gap);
        together - held - waits
    }

    /// Requests that it has been given and not answered.
    fn load(&self) -> u64 {
        let load = self.engine.load();
        u64::from(load.running) + u64::from(load.waiting) + self.inbox.len() as u64
    }
}

fn slot_of(id: u64) -> usize {
    usize::try_from(id).expect("ids are slots of a vector")
}

/// Replicas draw from streams of their own; the first one draws what a single server draws.
fn replica_seed(seed: Seed, number: usize) -> Seed {
    if number == 0 { seed } else { Seed(seed.stream("replica").draw(number as u64)) }
}

/// The request as the engine sees it. An answer that ends by itself costs one more step where the
/// front end passes the end on as an event of its own.
fn job(slot: usize, ask: Ask, front_end: &FrontEnd) -> Job {
    let ends_by_itself = ask.output_tokens < ask.output_limit;
    let output_tokens = ask.output_tokens.max(1);
    Job {
        id: slot as u64,
        prompt_tokens: ask.prompt_tokens,
        output_tokens: output_tokens + u32::from(front_end.eos_step && ends_by_itself),
        output_limit: ask.output_limit.max(output_tokens),
        block_hashes: ask.block_hashes,
        priority: ask.priority,
        lora: ask.lora,
    }
}
