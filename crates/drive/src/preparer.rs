//! The thread that prepares requests ahead of their time and feeds them to the workers.
//!
//! Warm-up items are fed as they come. Measured items are held until the measured phase opens; then
//! each gets its intended time. The number and the bytes of prepared requests are limited: ten
//! thousand prompts of 128k tokens do not fit into memory. Where the source makes blocks, the items
//! of the next block are held until the current one has drained. A turn of a session is made as soon
//! as the responses that it waits for are known.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::{Clock, Nanos};
use tokometer_record::{AttemptId, Phase};
use tokometer_schedule::{Offsets, SendLimit, Upcoming};

use crate::error::Error;
use crate::flight::Flight;
use crate::item::{FollowUp, Prepare, QueuedRequest};
use crate::platform::Platform;
use crate::shared::Shared;

/// Measured items to prepare before the measured phase begins, so that its first sends are not
/// delayed.
const HEAD_START: usize = 1_024;
const HEAD_START_BYTES: u64 = 64 << 20;
/// The same for the requests that leave at the start.
const WAVE_BYTES: u64 = 256 << 20;

/// Time from entering a block to its start, for its first items to reach the workers.
const BLOCK_LEAD: Nanos = Nanos::from_millis(2);

const PAUSE: Nanos = Nanos::from_millis(2);

/// How far preparing has come; shared with the thread that owns the run.
#[derive(Debug, Default)]
pub(crate) struct PreparerProgress {
    are_warmups_fed: AtomicBool,
    is_head_start_made: AtomicBool,
    /// Whether the workers may get the first wave, and whether they have it.
    is_wave_wanted: AtomicBool,
    is_wave_fed: AtomicBool,
    start: AtomicU64,
    is_finished: AtomicBool,
    fed: AtomicU64,
    /// Those of them that a closed loop began, without a time of their own.
    fed_in_loops: AtomicU64,
    has_own_times: AtomicBool,
    error: Mutex<Option<Error>>,
    source: Returned,
}

/// The source of the items, once nothing more is made.
#[derive(Default)]
struct Returned(Mutex<Option<Box<dyn Prepare>>>);

impl fmt::Debug for Returned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Returned")
    }
}

impl PreparerProgress {
    pub(crate) fn are_warmups_fed(&self) -> bool {
        self.are_warmups_fed.load(Ordering::Acquire)
    }

    pub(crate) fn is_head_start_made(&self) -> bool {
        self.is_head_start_made.load(Ordering::Acquire)
    }

    pub(crate) fn want_wave(&self) {
        self.is_wave_wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wave_fed(&self) -> bool {
        self.is_wave_fed.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self, start: Nanos) {
        self.start.store(start.0.max(1), Ordering::Release);
    }

    fn start(&self) -> Option<Nanos> {
        Some(Nanos(self.start.load(Ordering::Acquire))).filter(|start| *start != Nanos::ZERO)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    /// Whether the items have intended times of their own, as those of a trace.
    pub(crate) fn has_own_times(&self) -> bool {
        self.has_own_times.load(Ordering::Acquire)
    }

    pub(crate) fn fed(&self) -> u64 {
        self.fed.load(Ordering::Acquire)
    }

    pub(crate) fn fed_in_loops(&self) -> u64 {
        self.fed_in_loops.load(Ordering::Acquire)
    }

    /// Items that are due before `end` by times of their own, made or not. Zero while some are still
    /// being made.
    pub(crate) fn due_before(&self, end: Nanos, most: u64) -> u64 {
        let source = self.source.0.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map_or(0, |source| source.due_before(end, most))
    }

    /// Turns that were planned and never made. Zero while some are still being made.
    pub(crate) fn lost_turns(&self) -> u64 {
        let source = self.source.0.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map_or(0, |source| source.lost_turns())
    }

    pub(crate) fn overflows(&self) -> u64 {
        let source = self.source.0.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map_or(0, |source| source.overflows())
    }

    pub(crate) fn fail(&self, error: Error) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn take_error(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Preparer<P: Platform> {
    pub(crate) platform: P,
    pub(crate) clock: P::Clock,
    pub(crate) shared: Arc<Shared>,
    pub(crate) progress: Arc<PreparerProgress>,
    pub(crate) source: Box<dyn Prepare>,
    pub(crate) offsets: Offsets,
    /// Start of the current block, relative to the start of the measured phase.
    pub(crate) block_begin: Nanos,
    /// Requests of each session that have been fed and have not ended.
    pub(crate) sessions: BTreeMap<u64, u32>,
    /// Requests without a session that have been fed and have not ended, where that is counted.
    pub(crate) single: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feed {
    GoesOn,
    /// A block has to drain, or a session to end, before the next item.
    Waits,
    Ends,
}

enum StageStep {
    Request(Option<Nanos>),
    Waits,
    Ends,
}

impl<P: Platform> Preparer<P> {
    /// Prepares and feeds until the source or the plan ends, or the run stops.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.prepare_all() {
            self.progress.fail(error);
        }
        let progress = self.progress;
        *progress.source.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.source);
        progress.are_warmups_fed.store(true, Ordering::Release);
        progress.is_head_start_made.store(true, Ordering::Release);
        progress.is_wave_fed.store(true, Ordering::Release);
        progress.is_finished.store(true, Ordering::Release);
    }

    fn prepare_all(&mut self) -> Result<(), Error> {
        let mut held = VecDeque::new();
        self.prepare_ahead(&mut held)?;
        self.await_start(&mut held);
        while !self.shared.is_stopping() {
            let feed = self.feed_held(&mut held)?;
            self.follow_up()?;
            if feed != Feed::Waits && self.sessions.is_empty() {
                break;
            }
            self.platform.pause(PAUSE);
        }
        Ok(())
    }

    /// Prepares items until there are no more, and feeds those that may be fed by then.
    fn prepare_ahead(&mut self, held: &mut VecDeque<QueuedRequest>) -> Result<(), Error> {
        let mut prepared = 0;
        while !self.shared.is_stopping() {
            self.follow_up()?;
            if self.progress.start().is_some() && self.feed_held(held)? == Feed::Ends {
                break;
            }
            if self.is_head_start(held) {
                self.feed_wave(held);
                self.progress.is_head_start_made.store(true, Ordering::Release);
                self.platform.pause(PAUSE);
                continue;
            }
            let made = self.source.prepare();
            let item = made.map_err(|source| Error::Prepare { index: prepared, source })?;
            let Some(item) = item else { break };
            prepared += 1;
            self.check(&item)?;
            if item.identity.phase == Phase::Warmup {
                self.feed(Flight::new(item, None, &self.shared.config))?;
            } else {
                self.progress.are_warmups_fed.store(true, Ordering::Release);
                held.push_back(item);
            }
        }
        Ok(())
    }

    /// Feeds the turns whose predecessors have ended. The limit on prepared requests does not apply:
    /// the session waits for them.
    fn follow_up(&mut self) -> Result<(), Error> {
        let start = self.progress.start().unwrap_or_default();
        for end in self.shared.turns.take() {
            let index = end.identity.index;
            let next = self.source.follow(&end);
            for FollowUp { mut item, due } in
                next.map_err(|source| Error::Prepare { index, source })?
            {
                self.check(&item)?;
                let intended = due.max(item.due.map(|due| start + due));
                // Nothing is sent after the end of the run.
                if self.shared.gate.is_open_at(intended.unwrap_or_else(|| self.clock.now())) {
                    self.count_in(&item);
                    item.recorded = item.recorded.map(|at| start + at);
                    let flight = Flight::new(item, intended, &self.shared.config);
                    self.shared.feed(flight, self.clock.now());
                    self.progress.fed.fetch_add(1, Ordering::AcqRel);
                }
            }
            self.count_out(&end.identity);
        }
        Ok(())
    }

    fn count_in(&mut self, item: &QueuedRequest) {
        match item.identity.session {
            Some(session) => *self.sessions.entry(session).or_default() += 1,
            None => self.single = self.single.saturating_add(1),
        }
    }

    /// A session without a request that was fed is over, or has not begun.
    fn count_out(&mut self, ended: &AttemptId) {
        let Some(session) = ended.session else {
            self.single = self.single.saturating_sub(u32::from(ended.phase == Phase::Measure));
            return;
        };
        let left = self.sessions.get(&session).map_or(0, |left| left.saturating_sub(1));
        if left == 0 {
            self.sessions.remove(&session);
        } else {
            self.sessions.insert(session, left);
        }
    }

    fn check(&self, item: &QueuedRequest) -> Result<(), Error> {
        let (target, targets) = (item.identity.target, self.shared.config.targets.len());
        if usize::from(target) < targets {
            return Ok(());
        }
        Err(Error::Target { index: item.identity.index, target, targets })
    }

    fn await_start(&mut self, held: &mut VecDeque<QueuedRequest>) {
        self.progress.are_warmups_fed.store(true, Ordering::Release);
        self.progress.is_head_start_made.store(true, Ordering::Release);
        while self.progress.start().is_none() && !self.shared.is_stopping() {
            self.feed_wave(held);
            self.platform.pause(PAUSE);
        }
    }

    /// Gives the requests that leave together to the workers, once they may get them.
    fn feed_wave(&mut self, held: &mut VecDeque<QueuedRequest>) {
        let is_wanted = self.progress.is_wave_wanted.load(Ordering::Acquire);
        if !is_wanted || self.progress.is_wave_fed() {
            return;
        }
        let config = &self.shared.config;
        let (extent, most) = (config.limits.extent, config.wave_size());
        while let Some(item) = held.pop_front_if(|item| {
            let fed = self.progress.fed();
            fed < most
                && item.due.is_none()
                && extent.admits(fed, Nanos::ZERO)
                && !self.is_full_of(item)
                && !self.source.begins_block(item)
                && !self.shared.is_stopping()
                && self.shared.gate.reserve()
        }) {
            self.count_in(&item);
            self.shared.feed_ahead(Flight::new(item, None, &self.shared.config));
            self.progress.fed.fetch_add(1, Ordering::AcqRel);
        }
        self.progress.is_wave_fed.store(true, Ordering::Release);
    }

    /// Whether enough items are held to begin: all that leave at the start, and some of the others.
    fn is_head_start(&self, held: &VecDeque<QueuedRequest>) -> bool {
        let is_wave =
            !self.progress.is_wave_fed() && held.front().is_some_and(|item| item.due.is_none());
        let wave = if is_wave { self.shared.config.wave_size() } else { 0 };
        let items = usize::try_from(wave).unwrap_or(HEAD_START).max(HEAD_START);
        let most = if is_wave { WAVE_BYTES } else { HEAD_START_BYTES };
        let bytes = || held.iter().map(|item| item.request.bytes.len() as u64).sum::<u64>();
        held.len() >= items || bytes() >= most
    }

    /// Feeds held items up to the next block, once the measured phase is open.
    fn feed_held(&mut self, held: &mut VecDeque<QueuedRequest>) -> Result<Feed, Error> {
        let Some(start) = self.progress.start() else { return Ok(Feed::GoesOn) };
        // Requests behind the first wave are not sent before it.
        if self.shared.config.wave_size() > 0 && self.clock.now() < start {
            return Ok(Feed::Waits);
        }
        let extent = self.shared.config.limits.extent;
        while let Some(item) = held.front() {
            if self.is_full_of(item) {
                return Ok(Feed::Waits);
            }
            if self.source.begins_block(item) {
                if self.shared.pending() > 0 {
                    return Ok(Feed::Waits);
                }
                let index = item.identity.index;
                let entered = self.source.enter_block(item);
                let begin = entered.map_err(|source| Error::Prepare { index, source })?;
                let begin = begin.unwrap_or_else(|| self.clock.now() + BLOCK_LEAD);
                self.block_begin = begin - start;
            }
            let mut offset = item.due;
            if offset.is_none() {
                offset = match self.next_in_stage(start) {
                    StageStep::Request(offset) => offset,
                    StageStep::Waits => return Ok(Feed::Waits),
                    StageStep::Ends => return Ok(Feed::Ends),
                };
            }
            let Some(mut item) = held.pop_front() else { break };
            item.recorded = item.recorded.map(|at| start + at);
            if item.due.is_some() {
                self.progress.has_own_times.store(true, Ordering::Release);
            }
            let offset = offset.map(|offset| self.block_begin + offset);
            if self.shared.is_stopping() || !self.admits(extent, start, offset) {
                return Ok(Feed::Ends);
            }
            let intended = offset.map(|offset| start + offset);
            self.count_in(&item);
            self.feed(Flight::new(item, intended, &self.shared.config))?;
            self.progress.fed.fetch_add(1, Ordering::AcqRel);
        }
        let is_last = extent.count.is_some_and(|count| self.progress.fed() >= count);
        Ok(if is_last { Feed::Ends } else { Feed::GoesOn })
    }

    /// What the stages say of the next request: its time, if it has one.
    fn next_in_stage(&mut self, start: Nanos) -> StageStep {
        while let Upcoming::ClosedLoop { begin, end, sessions } = self.offsets.upcoming() {
            let now = self.clock.now() - start;
            // The first requests of the next stage need this time to reach the workers.
            if now + PAUSE + BLOCK_LEAD >= end {
                self.offsets.leave_stage();
                continue;
            }
            let in_progress = self.sessions.len() + self.single as usize;
            if now < begin || in_progress >= sessions as usize {
                return StageStep::Waits;
            }
            self.progress.fed_in_loops.fetch_add(1, Ordering::AcqRel);
            return StageStep::Request(None);
        }
        match self.offsets.upcoming() {
            Upcoming::End => StageStep::Ends,
            _ => StageStep::Request(self.offsets.advance()),
        }
    }

    /// Whether the next item is still part of the run. Without an intended time it would start now.
    fn admits(&self, extent: SendLimit, start: Nanos, offset: Option<Nanos>) -> bool {
        let offset = offset.unwrap_or_else(|| self.clock.now() - start);
        extent.admits(self.progress.fed(), offset)
    }

    /// Whether the item begins a session while the maximum number is in progress.
    fn is_full_of(&self, item: &QueuedRequest) -> bool {
        let begins = |session| !self.sessions.contains_key(&session);
        let limit = self.shared.config.max_sessions;
        limit.is_some_and(|limit| self.sessions.len() >= limit as usize)
            && item.identity.session.is_some_and(begins)
    }

    fn feed(&mut self, flight: Box<Flight>) -> Result<(), Error> {
        while self.shared.is_well_ahead() && !self.shared.is_stopping() {
            self.platform.pause(PAUSE);
            self.follow_up()?;
        }
        self.shared.feed(flight, self.clock.now());
        Ok(())
    }
}
