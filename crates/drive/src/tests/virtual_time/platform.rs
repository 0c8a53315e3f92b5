//! Runs one thread at a time, and advances the clock when all of them wait.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use tokometer_base::seed::{Generator, whole_between};
use tokometer_base::{Clock, ManualClock, Nanos, Seed, WallNanos};
use tokometer_client::conn::{ByteSource, Peer, ReadBuffer, Received, Stamps, TransportInfo, Wire};

use super::network::Network;
use super::server::{PANIC, Server};
use crate::error::Error;
use crate::platform::{BATCH, Interest, Kernel, Links, MaxWait, Platform, Ready, Task, Wake, Work};
use crate::reads::Lane;

/// The wall clock at virtual zero: kernel stamps are wall-clock times.
const WALL_ORIGIN: WallNanos = WallNanos(1_700_000_000_000_000_000);

/// Cost of a system call. Without it a worker that polls close to a send would poll for ever at one
/// moment.
pub(super) const CALL_COST: Nanos = Nanos::from_micros(1);

/// No run of these tests is this long: a thread waits for something that never happens.
const LONGEST_RUN: Nanos = Nanos::from_secs(600);

/// The clock of a virtual machine, whose wall clock may be set during a run.
#[derive(Debug)]
pub(crate) struct VirtualClock {
    monotonic: ManualClock,
    /// When the wall clock is set, and by how many nanoseconds.
    step: Option<(Nanos, i64)>,
}

impl VirtualClock {
    /// The wall clock at a monotonic time.
    fn wall_at(&self, time: Nanos) -> WallNanos {
        let by = self.step.map_or(0, |(at, by)| if time >= at { by } else { 0 });
        WallNanos((WALL_ORIGIN.0 + time.0).saturating_add_signed(by))
    }

    fn advance(&self, span: Nanos) {
        self.monotonic.advance(span);
    }

    fn advance_to(&self, time: Nanos) {
        self.monotonic.advance_to(time);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Nanos {
        self.monotonic.now()
    }

    fn wall(&self) -> WallNanos {
        self.wall_at(self.now())
    }

    fn sleep(&self, span: Nanos) {
        self.monotonic.sleep(span);
    }
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Nothing.
    Runnable,
    /// This time, or a wake-up.
    Paused(Nanos),
    /// This time.
    Sleeping(Nanos),
    /// This time, or something that these links report.
    Waiting {
        links: usize,
        until: Nanos,
    },
    /// The end of another thread.
    Joining(usize),
    Ended,
}

#[derive(Debug)]
struct VirtualThread {
    status: Status,
    is_woken: bool,
    turn: Arc<Condvar>,
}

impl VirtualThread {
    fn new() -> Self {
        Self { status: Status::Runnable, is_woken: false, turn: Arc::default() }
    }
}

#[derive(Debug)]
struct State {
    threads: Vec<VirtualThread>,
    running: usize,
    draws: Generator,
    network: Network,
}

#[derive(Debug)]
struct World {
    clock: Arc<VirtualClock>,
    state: Mutex<State>,
}

/// Virtual time, threads in a drawn order, and links to a server in memory.
#[derive(Debug, Clone)]
pub(crate) struct Virtual {
    world: Arc<World>,
}

impl State {
    fn can_go_on(&self, thread: &VirtualThread, now: Nanos) -> bool {
        match thread.status {
            Status::Runnable => true,
            Status::Paused(until) => until <= now || thread.is_woken,
            Status::Sleeping(until) => until <= now,
            Status::Waiting { links, until } => until <= now || self.network.has_news(links, now),
            Status::Joining(other) => self.threads[other].status == Status::Ended,
            Status::Ended => false,
        }
    }

    /// When the next event happens at the latest.
    fn next_moment(&self) -> Option<Nanos> {
        let waits = self.threads.iter().filter_map(|thread| match thread.status {
            Status::Paused(until) | Status::Sleeping(until) => Some(until),
            Status::Waiting { links, until } => {
                Some(self.network.armed(links).map_or(until, |armed| armed.min(until)))
            }
            Status::Runnable | Status::Joining(_) | Status::Ended => None,
        });
        waits.chain(self.network.next_moment()).min()
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Advances the clock by the cost of a system call, and executes network events up to it.
    fn spend(&self, state: &mut State) -> Nanos {
        self.clock.advance(CALL_COST);
        let now = self.clock.now();
        state.network.settle(now);
        now
    }

    /// Lets another thread run, or this one. Advances the clock when all of them wait.
    fn hand_over(&self, state: &mut State) {
        loop {
            let now = self.clock.now();
            state.network.settle(now);
            let ready: Vec<usize> = (0..state.threads.len())
                .filter(|thread| state.can_go_on(&state.threads[*thread], now))
                .collect();
            if let Some(last) = ready.len().checked_sub(1) {
                let draw = whole_between(&mut state.draws, 0, last as u64);
                state.running = ready[usize::try_from(draw).unwrap()];
                state.threads[state.running].turn.notify_all();
                return;
            }
            if state.threads.iter().all(|thread| thread.status == Status::Ended) {
                return;
            }
            let next = state.next_moment().filter(|next| *next <= LONGEST_RUN);
            let Some(next) = next else {
                let statuses: Vec<Status> =
                    state.threads.iter().map(|thread| thread.status).collect();
                state.threads.iter().for_each(|thread| thread.turn.notify_all());
                panic!("nothing more happens at {now}: {statuses:?}");
            };
            self.clock.advance_to(next);
        }
    }

    /// Waits for what `status` says.
    fn give_way<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        status: Status,
    ) -> MutexGuard<'a, State> {
        let me = CURRENT.get();
        state.threads[me].status = status;
        self.hand_over(&mut state);
        state = await_turn(state, me);
        state.threads[me].status = Status::Runnable;
        state
    }
}

fn await_turn(state: MutexGuard<'_, State>, me: usize) -> MutexGuard<'_, State> {
    let turn = Arc::clone(&state.threads[me].turn);
    // A poisoned lock means that another thread found the run stuck.
    turn.wait_while(state, |state| state.running != me).unwrap()
}

impl Virtual {
    /// A platform whose first thread is the calling one. `step` sets its wall clock at a time by so many
    /// nanoseconds.
    pub(crate) fn new(seed: Seed, server: Server, step: Option<(Nanos, i64)>) -> Self {
        CURRENT.set(0);
        let monotonic = ManualClock::new(WALL_ORIGIN);
        let clock = Arc::new(VirtualClock { monotonic, step });
        // The record uses zero for an absent time in a few columns; no real clock starts there.
        clock.advance_to(Nanos::from_millis(1));
        let state = State {
            threads: vec![VirtualThread::new()],
            running: 0,
            draws: seed.stream("threads").at(0),
            network: Network::new(server),
        };
        Self { world: Arc::new(World { clock, state: Mutex::new(state) }) }
    }

    /// Reads the server's state after the run.
    pub(crate) fn with_server<T>(&self, look: impl FnOnce(&Server) -> T) -> T {
        look(self.world.state().network.server())
    }
}

/// Nothing is known about a virtual machine.
impl Kernel for Virtual {
    fn text(&self, _path: &str) -> Option<String> {
        None
    }

    fn cores(&self) -> Option<usize> {
        Some(2)
    }
}

impl Platform for Virtual {
    type Clock = Arc<VirtualClock>;
    type Links = VirtualLinks;

    fn clock(&self) -> Arc<VirtualClock> {
        Arc::clone(&self.world.clock)
    }

    fn links(&self) -> Result<(VirtualLinks, Arc<dyn Wake>), Error> {
        let number = self.world.state().network.add_links();
        let links = VirtualLinks { world: Arc::clone(&self.world), number, found: Vec::new() };
        Ok((links, Arc::new(LinksWaker { world: Arc::clone(&self.world), links: number })))
    }

    fn spawn(&self, _name: &'static str, work: Work) -> io::Result<Box<dyn Task>> {
        let mut state = self.world.state();
        let number = state.threads.len();
        state.threads.push(VirtualThread::new());
        drop(state);
        let world = Arc::clone(&self.world);
        let thread = std::thread::spawn(move || {
            CURRENT.set(number);
            drop(await_turn(world.state(), number));
            work();
            let mut state = world.state();
            state.threads[number].status = Status::Ended;
            world.hand_over(&mut state);
        });
        Ok(Box::new(VirtualTask { world: Arc::clone(&self.world), number, thread }))
    }

    fn pause(&self, longest: Nanos) {
        let until = self.world.clock.now() + longest;
        let mut state = self.world.give_way(self.world.state(), Status::Paused(until));
        state.threads[CURRENT.get()].is_woken = false;
    }

    fn sleep_until(&self, at: Nanos) {
        drop(self.world.give_way(self.world.state(), Status::Sleeping(at)));
    }
}

#[derive(Debug)]
struct VirtualTask {
    world: Arc<World>,
    number: usize,
    thread: JoinHandle<()>,
}

impl Task for VirtualTask {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(Waker { world: Arc::clone(&self.world), thread: self.number })
    }

    fn join(self: Box<Self>) {
        drop(self.world.give_way(self.world.state(), Status::Joining(self.number)));
        self.thread.join().unwrap();
    }
}

#[derive(Debug)]
struct Waker {
    world: Arc<World>,
    thread: usize,
}

impl Wake for Waker {
    fn wake(&self) {
        self.world.state().threads[self.thread].is_woken = true;
    }
}

#[derive(Debug)]
struct LinksWaker {
    world: Arc<World>,
    links: usize,
}

impl Wake for LinksWaker {
    fn wake(&self) {
        self.world.state().network.ring(self.links);
    }
}

#[derive(Debug)]
pub(crate) struct VirtualLinks {
    world: Arc<World>,
    number: usize,
    found: Vec<Ready>,
}

impl Links for VirtualLinks {
    type Wire = VirtualWire;

    fn connect(&mut self, to: &Peer, stamps: Stamps, key: u64) -> io::Result<VirtualWire> {
        let mut state = self.world.state();
        let now = self.world.spend(&mut state);
        let number = state.network.connect(self.number, (to, key), stamps, now);
        Ok(VirtualWire { world: Arc::clone(&self.world), number })
    }

    fn shift(&mut self, wire: &VirtualWire, _key: u64, to: Lane) -> io::Result<()> {
        let mut state = self.world.state();
        let _now = self.world.spend(&mut state);
        state.network.shift(wire.number, to);
        Ok(())
    }

    /// Only changes are reported here.
    fn watch(
        &mut self,
        _wire: &VirtualWire,
        _key: u64,
        _lane: Lane,
        _interest: Interest,
    ) -> io::Result<()> {
        Ok(())
    }

    fn arm(&mut self, at: Nanos) {
        self.world.state().network.arm(self.number, at);
    }

    fn disarmed(&mut self) {}

    fn has_clock_stepped(&self) -> bool {
        false
    }

    fn wait(&mut self, max_wait: MaxWait) -> usize {
        let mut state = self.world.state();
        let now = self.world.spend(&mut state);
        let until = match max_wait {
            MaxWait::None => now,
            MaxWait::Interval => now + Nanos::from_millis(1),
            MaxWait::Long => now + MaxWait::LONGEST,
        };
        let mut state = self.world.give_way(state, Status::Waiting { links: self.number, until });
        let now = self.world.clock.now();
        self.found = state.network.news(self.number, now, BATCH);
        self.found.len()
    }

    fn poll_lazy(&mut self) -> usize {
        let mut state = self.world.state();
        let _now = self.world.spend(&mut state);
        self.found = state.network.lazy_news(self.number, BATCH);
        self.found.len()
    }

    fn ready(&self, index: usize) -> Ready {
        self.found[index]
    }
}

#[derive(Debug)]
pub(crate) struct VirtualWire {
    world: Arc<World>,
    number: usize,
}

impl ByteSource for VirtualWire {
    fn receive(&mut self, buffer: &mut ReadBuffer) -> io::Result<Received> {
        let mut state = self.world.state();
        let _now = self.world.spend(&mut state);
        let received = state.network.receive(self.number, buffer.wire_mut());
        // The lock is released before a scripted panic, which must not look like a stuck run.
        drop(state);
        let is_panic = |error: &io::Error| error.kind() == io::ErrorKind::Other;
        assert!(!received.as_ref().is_err_and(is_panic), "{PANIC}");
        let (bytes, is_full, at) = received?;
        let stamp = at.map(|at| self.world.clock.wall_at(at));
        Ok(Received { bytes, is_full, stamp })
    }

    fn transmit(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.world.state();
        let now = self.world.spend(&mut state);
        state.network.transmit(self.number, bytes, now)
    }
}

impl Wire for VirtualWire {
    fn connected(&self) -> io::Result<()> {
        self.world.state().network.connected(self.number)
    }

    fn info(&self) -> Option<TransportInfo> {
        Some(self.world.state().network.info(self.number))
    }

    fn acknowledge_quickly(&self) {}
}

impl Drop for VirtualWire {
    fn drop(&mut self) {
        // While a stuck run unwinds, the lock is poisoned and nothing has to be closed.
        if let Ok(mut state) = self.world.state.lock() {
            state.network.close(self.number);
        }
    }
}
