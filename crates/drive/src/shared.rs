//! State that all threads of a run share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::Nanos;
use tokometer_client::replacement;
use tokometer_record::{Outcome, Phase, Timeline};

use crate::config::{RunConfig, TargetServer, WarmUps};
use crate::error::Error;
use crate::flight::Flight;
use crate::gate::Gate;
use crate::inbox::{Inbox, WorkerCommand};
use crate::live::Live;
use crate::platform::Wake;
use crate::refusals::FirstRefusals;
use crate::rotation::Rotation;
use crate::turns::EndedTurns;

/// A target that refuses so many connections in a row, without a success or a complete response
/// between, counts as lost. Nothing more is sent then.
const LOST_AFTER: u32 = 50;

/// Limits on prepared requests; the one that is reached first applies.
const AHEAD_ITEMS: u64 = 16_384;
/// A prompt of 128k tokens has about 600 KB, so several hundred of the largest fit.
const AHEAD_BYTES: u64 = 256 << 20;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: RunConfig,
    pub(crate) gate: Gate,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) live: Arc<Live>,
    pub(crate) turns: EndedTurns,
    /// Flights fed and not finally ended.
    pending: AtomicU64,
    ahead_items: AtomicU64,
    ahead_bytes: AtomicU64,
    pub(crate) opening: AtomicU64,
    /// Flights of the first wave that have no connection yet.
    arming: AtomicU64,
    /// Measured requests that were due and will never be sent.
    unsent: AtomicU64,
    /// Those of them that are later turns of a conversation.
    unsent_turns: AtomicU64,
    connection_ids: AtomicU64,
    pub(crate) rotations: Vec<Rotation>,
    connect_failures: Vec<AtomicU32>,
    first_refusals: FirstRefusals,
    is_stopping: AtomicBool,
    is_abandoning: AtomicBool,
    is_over: AtomicBool,
    are_notices_closed: AtomicBool,
    is_transcript_wanted: AtomicBool,
    has_dropped_fields: AtomicBool,
    /// Refused fields, each with the target that refuses it.
    dropped_fields: Mutex<Vec<(u16, &'static str)>>,
    warm_up: Mutex<WarmUp>,
    panic: Mutex<Option<Error>>,
}

#[derive(Debug, Default)]
struct WarmUp {
    answered: u64,
    failure: Option<String>,
}

impl Shared {
    /// A run with one worker per waker.
    pub(crate) fn new(config: RunConfig, live: Arc<Live>, wakers: Vec<Arc<dyn Wake>>) -> Self {
        let inboxes = wakers.into_iter().map(Inbox::new).collect();
        let connect_failures = config.targets.iter().map(|_| AtomicU32::new(0)).collect();
        let rotation = |target: &TargetServer| Rotation::new(target.endpoint.addresses.len());
        let rotations = config.targets.iter().map(rotation).collect();
        let turns = EndedTurns::new(&config);
        Self {
            gate: Gate::new(config.limits.max_concurrency),
            is_transcript_wanted: AtomicBool::new(config.keeps_transcript),
            config,
            inboxes,
            live,
            turns,
            pending: AtomicU64::new(0),
            ahead_items: AtomicU64::new(0),
            ahead_bytes: AtomicU64::new(0),
            opening: AtomicU64::new(0),
            arming: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            unsent_turns: AtomicU64::new(0),
            connection_ids: AtomicU64::new(0),
            rotations,
            connect_failures,
            first_refusals: FirstRefusals::default(),
            is_stopping: AtomicBool::new(false),
            is_abandoning: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            are_notices_closed: AtomicBool::new(false),
            has_dropped_fields: AtomicBool::new(false),
            dropped_fields: Mutex::new(Vec::new()),
            warm_up: Mutex::new(WarmUp::default()),
            panic: Mutex::new(None),
        }
    }

    /// Says that slots may be free, or needed, where they are shared with other processes.
    pub(crate) fn cap_changed(&self) {
        if let Some(lending) = &self.config.cap_lending {
            lending.changed();
        }
    }

    pub(crate) fn warmed_up(&self, outcome: &Outcome) {
        let mut warm_up = self.warm_up.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Outcome::Success => warm_up.answered += 1,
            Outcome::Failed(failure) => {
                let status = failure.status.map(|status| format!("status {status}: "));
                let status = status.unwrap_or_default();
                warm_up.failure = Some(format!("{status}{}", failure.message));
            }
            Outcome::Cancelled | Outcome::Abandoned => {}
        }
    }

    /// The error, if the plan requires a successful warm-up and there was none.
    pub(crate) fn warm_up_error(&self) -> Option<Error> {
        let mut warm_up = self.warm_up.lock().unwrap_or_else(PoisonError::into_inner);
        if self.config.warm_ups == WarmUps::Tolerated || warm_up.answered > 0 {
            return None;
        }
        let why = warm_up.failure.take()?;
        Some(Error::WarmUps { count: self.config.limits.warmups, why })
    }

    pub(crate) fn fed(&self, flight: &Flight) {
        self.pending.fetch_add(1, Ordering::AcqRel);
        self.ahead_items.fetch_add(1, Ordering::Relaxed);
        self.ahead_bytes.fetch_add(flight.weight(), Ordering::Relaxed);
    }

    /// Removes a flight from the prepared ones: it is sent now, or never. A retry is none of them.
    pub(crate) fn taken(&self, flight: &Flight) {
        if flight.timeline.identity.attempt > 0 {
            return;
        }
        self.ahead_items.fetch_sub(1, Ordering::Relaxed);
        self.ahead_bytes.fetch_sub(flight.weight(), Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, count: u64) {
        self.pending.fetch_sub(count, Ordering::AcqRel);
    }

    /// Ends flights that were fed and never sent.
    pub(crate) fn dismiss(&self, flights: impl IntoIterator<Item = Box<Flight>>, now: Nanos) {
        for flight in flights {
            self.taken(&flight);
            self.note_unsent(&flight);
            self.turns.post(&flight.timeline, now);
            self.ended(1);
        }
    }

    /// Counts a measured request that is never sent, if it was due before the gate closed.
    pub(crate) fn note_unsent(&self, flight: &Flight) {
        let Timeline { identity, times, .. } = &flight.timeline;
        let is_due = times.intended.is_none_or(|intended| self.gate.is_open_at(intended));
        if is_due && identity.phase == Phase::Measure && identity.attempt == 0 {
            self.unsent.fetch_add(1, Ordering::Relaxed);
            self.unsent_turns.fetch_add(u64::from(identity.turn > 0), Ordering::Relaxed);
        }
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    pub(crate) fn unsent_turns(&self) -> u64 {
        self.unsent_turns.load(Ordering::Relaxed)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn is_all_sent(&self) -> bool {
        self.ahead_items.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn is_well_ahead(&self) -> bool {
        self.ahead_items.load(Ordering::Relaxed) >= AHEAD_ITEMS
            || self.ahead_bytes.load(Ordering::Relaxed) >= AHEAD_BYTES
    }

    pub(crate) fn next_connection_id(&self) -> u64 {
        self.connection_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a target accepted a connection or completed a response. A target that was lost
    /// stays lost.
    pub(crate) fn target_responded(&self, target: u16) {
        let failures = &self.connect_failures[usize::from(target)];
        if (1..LOST_AFTER).contains(&failures.load(Ordering::Relaxed)) {
            failures.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failed connection. The one that makes the target count as lost stops the run at
    /// once: refusals are so fast that hundreds of requests would fail before another thread checks.
    pub(crate) fn connection_failed(&self, target: u16, now: Nanos) {
        let before = self.connect_failures[usize::from(target)].fetch_add(1, Ordering::Relaxed);
        if before + 1 == LOST_AFTER {
            self.stop(now);
        }
    }

    pub(crate) fn is_target_lost(&self) -> bool {
        self.connect_failures.iter().any(|count| count.load(Ordering::Relaxed) >= LOST_AFTER)
    }

    /// Takes the end of a request. The one that shows that the server refuses everything stops the run.
    pub(crate) fn request_ended(&self, timeline: &Timeline, now: Nanos) {
        let identity = &timeline.identity;
        let number = identity.index / u64::from(self.config.share.count());
        if identity.phase == Phase::Measure
            && self.first_refusals.add(number, &timeline.outcome, self.config.refusals)
        {
            self.stop(now);
        }
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.first_refusals.are_enough()
    }

    /// Stops sending; requests in flight continue.
    pub(crate) fn stop(&self, now: Nanos) {
        self.gate.close_at(now);
        self.is_stopping.store(true, Ordering::Release);
        self.dismiss(self.gate.dismiss(now), now);
        self.wake_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(crate) fn abandon(&self) {
        self.is_abandoning.store(true, Ordering::Release);
        self.wake_all();
    }

    pub(crate) fn is_abandoning(&self) -> bool {
        self.is_abandoning.load(Ordering::Acquire)
    }

    pub(crate) fn finish(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wake_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn panicked(&self, panic: Error) {
        let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(panic);
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn take_panic(&self) -> Option<Error> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn notices_closed(&self) {
        self.are_notices_closed.store(true, Ordering::Release);
    }

    pub(crate) fn are_notices_closed(&self) -> bool {
        self.are_notices_closed.load(Ordering::Acquire)
    }

    /// Adds what is sent to the transcript of the first request, where one is wanted.
    pub(crate) fn transcribe(&self, flight: &mut Flight) {
        if self.is_transcript_wanted.load(Ordering::Relaxed)
            && self.is_transcript_wanted.swap(false, Ordering::AcqRel)
        {
            flight.transcript = Some(Box::default());
        }
        if let Some(transcript) = &mut flight.transcript {
            transcript.sent(&flight.request.bytes);
        }
    }

    pub(crate) fn wake_all(&self) {
        self.inboxes.iter().for_each(Inbox::wake);
    }

    pub(crate) fn inbox_of(&self, index: u64) -> &Inbox {
        let workers = self.inboxes.len() as u64;
        &self.inboxes[usize::try_from(index % workers).unwrap_or(0)]
    }

    pub(crate) fn admit(&self, flight: Box<Flight>, now: Nanos) -> Option<Box<Flight>> {
        let admitted = self.gate.admit(flight, now);
        if admitted.is_none() {
            self.cap_changed();
        }
        admitted
    }

    pub(crate) fn release(&self, now: Nanos) -> Option<Box<Flight>> {
        let next = self.gate.release(now);
        if next.is_none() {
            self.cap_changed();
        }
        next
    }

    /// Feeds a flight: for its intended time, or as soon as the gate admits it.
    pub(crate) fn feed(&self, flight: Box<Flight>, now: Nanos) {
        self.fed(&flight);
        let inbox = self.inbox_of(flight.timeline.identity.index);
        if flight.timeline.times.intended.is_some() {
            inbox.post(WorkerCommand::Pace(flight));
        } else if let Some(flight) = self.admit(flight, now) {
            inbox.post(WorkerCommand::Send(flight));
        } else if self.is_stopping() {
            // The queue was emptied just before this flight joined it, so it has to be emptied again.
            self.dismiss(self.gate.dismiss(now), now);
        }
    }

    /// Gives a flight of the first wave, which has a slot, to its worker.
    pub(crate) fn feed_ahead(&self, flight: Box<Flight>) {
        self.fed(&flight);
        self.arming.fetch_add(1, Ordering::AcqRel);
        self.inbox_of(flight.timeline.identity.index).post(WorkerCommand::Hold(flight));
    }

    /// A flight of the first wave has its connection, or has to open one when it is sent.
    pub(crate) fn armed(&self) {
        self.arming.fetch_sub(1, Ordering::AcqRel);
    }

    /// Flights of the first wave that are not ready yet.
    pub(crate) fn arming(&self) -> u64 {
        self.arming.load(Ordering::Acquire)
    }

    pub(crate) fn drop_field(&self, target: u16, field: &'static str) {
        let mut dropped = self.dropped_fields.lock().unwrap_or_else(PoisonError::into_inner);
        if !dropped.contains(&(target, field)) {
            dropped.push((target, field));
        }
        self.has_dropped_fields.store(true, Ordering::Release);
    }

    pub(crate) fn trim(&self, flight: &mut Flight) {
        if !self.has_dropped_fields.load(Ordering::Acquire) {
            return;
        }
        let dropped = self.dropped_fields.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = flight.target();
        for (_target, field) in dropped.iter().filter(|(target, _)| *target == own) {
            let _is_changed = flight.omit(field);
        }
    }

    /// The refused fields for the record, each once, with the name that was sent instead.
    pub(crate) fn dropped_fields(&self) -> Vec<String> {
        let dropped = self.dropped_fields.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = Vec::new();
        for (_target, field) in dropped.iter() {
            let name = match replacement(field) {
                Some(other) => format!("{field} (sent as {other})"),
                None => (*field).to_owned(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
