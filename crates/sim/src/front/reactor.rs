//! The server's one loop: wait, send what is due, read what came.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Clock, Nanos, Seed, Slab};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokometer_base as base;

use super::connection::{ClientConnection, Flushed};
use super::incoming::Incoming;
use super::listener::Error;
use super::stream::ResponseStream;
use super::timers::{Alarm, Timers};
use crate::config::{SimConfig, TokenTiming};
use crate::engine::Engine;
use crate::faults::PacketFault;
use crate::truth::{Fact, Log, StreamEnd};
use crate::vocabulary::Vocabulary;
use crate::wire::{EventBuffer, Snapshot};

/// How long the loop sleeps at most: a stop is noticed this often.
const NAP_MS: u16 = 50;

/// How often the truth log's writer gets what has come together.
const TRUTH_INTERVAL: Nanos = Nanos::from_millis(40);

/// Poller keys of what is not a connection. Connections use the keys of their slab, whose upper
/// half counts how often an entry was used and never comes near these.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

const READ_BYTES: usize = 256 * 1024;

/// How long accepting pauses when there are no descriptors left.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(50);

pub(super) struct Reactor<'a> {
    pub(super) config: SimConfig,
    listener: Incoming,
    tls: Option<Arc<rustls::ServerConfig>>,
    epoll: Epoll,
    timer: TimerFd,
    timer_set_to: Option<Nanos>,
    pub(super) timers: Timers,
    pub(super) connections: Slab<ClientConnection>,
    pub(super) streams: Slab<ResponseStream>,
    /// Streams that may send more without waiting.
    pub(super) ready: Vec<u64>,
    pub(super) engine: Option<Engine>,
    pub(super) is_stepping: bool,
    pub(super) vocabulary: Vocabulary,
    pub(super) truth: Option<Log>,
    truth_handed_over: Nanos,
    pub(super) snapshot: Snapshot,
    pub(super) buffer: EventBuffer,
    pub(super) requests: u64,
    pub(super) last_arrival: Nanos,
    pub(super) is_dying: bool,
    accepted: u64,
    scratch: Vec<u8>,
    /// The kernel's monotonic clock, or one that runs with it: the timer is the kernel's.
    pub(super) clock: &'a dyn Clock,
}

impl<'a> Reactor<'a> {
    pub(super) fn new(
        config: SimConfig,
        listener: Incoming,
        tls: Option<Arc<rustls::ServerConfig>>,
        clock: &'a dyn Clock,
    ) -> Result<Self, Error> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        // An expired timer stays readable until it is set again. Without EPOLLET an idle server would spin.
        let once = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(timer.as_fd(), EpollEvent::new(once, TIMER))?;
        let truth = config.truth.as_deref().map(Log::create).transpose()?;
        let engine = match &config.pace {
            TokenTiming::Engine(profile) => {
                Some(Engine::new((**profile).clone(), Seed(config.seed)))
            }
            TokenTiming::Fixed { .. } | TokenTiming::Flood { .. } => None,
        };
        Ok(Self {
            config,
            listener,
            tls,
            epoll,
            timer,
            timer_set_to: None,
            timers: Timers::default(),
            connections: Slab::default(),
            streams: Slab::default(),
            ready: Vec::new(),
            engine,
            is_stepping: false,
            vocabulary: Vocabulary::new(),
            truth,
            truth_handed_over: Nanos::ZERO,
            snapshot: Snapshot::default(),
            buffer: EventBuffer::default(),
            requests: 0,
            last_arrival: Nanos::ZERO,
            is_dying: false,
            accepted: 0,
            scratch: vec![0; READ_BYTES],
            clock,
        })
    }

    pub(super) fn run(mut self, stop: &Arc<AtomicBool>) -> Result<(), Error> {
        let mut events = vec![EpollEvent::empty(); 1024];
        while !stop.load(Ordering::Relaxed) && !self.is_dying {
            let nap = if self.ready.is_empty() { NAP_MS } else { 0 };
            self.set_timer()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(nap)) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            // Tokens first: what is due must not wait for requests that are still being read.
            self.ring_alarms();
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept()?,
                    TIMER => self.timer_set_to = None,
                    key => self.attend(key, event.events()),
                }
            }
            self.pump_ready();
            self.hand_over_truth();
        }
        match self.truth.take() {
            Some(log) => Ok(log.close()?),
            None => Ok(()),
        }
    }

    /// Gives the truth log's writer what has come together, now and then.
    fn hand_over_truth(&mut self) {
        let Some(log) = &mut self.truth else { return };
        let now = self.clock.now();
        if now - self.truth_handed_over > TRUTH_INTERVAL {
            self.truth_handed_over = now;
            log.hand_over();
        }
    }

    fn set_timer(&mut self) -> Result<(), Error> {
        let next = self.timers.next();
        if next == self.timer_set_to {
            return Ok(());
        }
        if let Some(at) = next {
            // Zero would switch the timer off.
            let at = TimeSpec::from_duration(at.max(Nanos(1)).to_duration());
            self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
        } else {
            self.timer.unset()?;
        }
        self.timer_set_to = next;
        Ok(())
    }

    fn ring_alarms(&mut self) {
        loop {
            let now = self.clock.now();
            let Some((at, alarm)) = self.timers.due(now) else { break };
            match alarm {
                Alarm::Step => self.end_step(at, now),
                Alarm::Arrival(stream) => self.arrive(stream, at),
                Alarm::Token(stream) => self.pace(stream, at, now),
                Alarm::Comment(stream) => self.comment(stream, now),
                Alarm::Release(connection) => {
                    if let Some(held) = self.connections.get_mut(connection) {
                        held.held_until = None;
                        self.flush(connection);
                    }
                }
                Alarm::Idle(connection) => self.close_if_idle(connection, now),
                Alarm::Accept => {
                    let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENER);
                    let _ = self.epoll.add(&self.listener, event);
                }
            }
        }
    }

    fn accept(&mut self) -> Result<(), Error> {
        loop {
            let socket = match self.listener.accept() {
                Ok(socket) => socket,
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EMFILE | Errno::ENFILE) => {
                        // The poller would report the waiting client at once, again and again.
                        self.epoll.delete(&self.listener)?;
                        self.timers.set(self.clock.now() + ACCEPT_PAUSE, Alarm::Accept);
                        return Ok(());
                    }
                    Some(Errno::EINTR | Errno::ECONNABORTED) => continue,
                    _ => return Ok(()),
                },
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let has_nagle = self.config.faults.packets == PacketFault::Nagle;
            let _ = setsockopt(&socket, sockopt::TcpNoDelay, &!has_nagle);
            let tls = self.tls.clone().map(rustls::ServerConnection::new);
            let Ok(tls) = tls.transpose() else { continue };
            self.accepted += 1;
            let now = self.clock.now();
            let connection = ClientConnection::new(socket, tls.map(Box::new), self.accepted, now);
            let key = self.connections.insert(connection);
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
            if let Some(connection) = self.connections.get_mut(key) {
                self.epoll.add(&connection.socket, EpollEvent::new(flags, key))?;
            }
            self.watch_idleness(key, now);
        }
    }

    fn attend(&mut self, key: u64, flags: EpollFlags) {
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.flush(key);
            let is_flood = matches!(self.config.pace, TokenTiming::Flood { .. });
            let roomy = self.connections.get_mut(key).filter(|one| is_flood && !one.waits_for_room);
            self.ready.extend(roomy.and_then(|connection| connection.stream));
        }
        let gone = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | gone) {
            let now = self.clock.now();
            let Some(connection) = self.connections.get_mut(key) else { return };
            let is_alive = connection.read(&mut self.scratch);
            if !is_alive || flags.intersects(gone) {
                self.close(key, StreamEnd::Cancelled);
                return;
            }
            if connection.first_byte.is_none() && !connection.reader.is_empty() {
                connection.first_byte = Some(now);
            }
            if connection.has_output() {
                self.flush(key);
            }
            self.read_requests(key);
        }
    }

    /// Sends what is queued; asks the poller for room if the socket is full, closes if that is due.
    pub(super) fn flush(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let flushed = connection.flush(self.clock, self.truth.as_mut());
        let wants_room = flushed == Flushed::Blocked;
        if flushed == Flushed::Gone {
            self.close(key, StreamEnd::Cancelled);
            return;
        }
        if wants_room != connection.waits_for_room {
            connection.waits_for_room = wants_room;
            let mut flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
            flags.set(EpollFlags::EPOLLOUT, wants_room);
            let mut event = EpollEvent::new(flags, key);
            let _ = self.epoll.modify(&connection.socket, &mut event);
        }
        if connection.is_done() {
            self.close(key, StreamEnd::Complete);
        }
    }

    fn watch_idleness(&mut self, key: u64, now: Nanos) {
        if let Some(limit) = self.config.faults.idle_close {
            self.timers.set(now + limit, Alarm::Idle(key));
        }
    }

    fn close_if_idle(&mut self, key: u64, now: Nanos) {
        let Some(limit) = self.config.faults.idle_close else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        // A held answer is still being given, though all of it is known. Before its first request a
        // client has as long as it wants, as under the keep-alive limits of real servers.
        let is_busy = connection.stream.is_some()
            || !connection.reader.is_empty()
            || connection.has_output()
            || connection.served == 0;
        if !is_busy && connection.idle_since + limit <= now {
            self.close(key, StreamEnd::Complete);
        } else {
            let since = if is_busy { now } else { connection.idle_since };
            self.watch_idleness(key, since);
        }
    }

    /// Closes a connection and drops its unfinished answer.
    pub(super) fn close(&mut self, key: u64, outcome: StreamEnd) {
        let Some(connection) = self.connections.remove(key) else { return };
        for stream in connection.unsent_ends() {
            self.log_end(stream, outcome);
        }
        if let Some(stream) = connection.stream {
            self.abandon(stream, outcome);
        }
        // Closing the socket also takes it out of the poller.
        drop(connection);
    }

    /// Drops an answer that will not be finished.
    pub(super) fn abandon(&mut self, key: u64, outcome: StreamEnd) {
        let Some(stream) = self.streams.remove(key) else { return };
        if let Some(engine) = &mut self.engine {
            engine.cancel(key);
        }
        self.log_end(stream.opening.number, outcome);
    }

    pub(super) fn log_end(&mut self, stream: u64, outcome: StreamEnd) {
        if let Some(log) = &mut self.truth {
            log.push(Fact::End { stream, at: self.clock.now(), outcome });
        }
    }
}
