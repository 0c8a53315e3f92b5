//! Commands from other threads to a worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::Nanos;

use crate::flight::Flight;
use crate::platform::Wake;

#[derive(Debug)]
pub(crate) enum WorkerCommand {
    /// Send this flight now; the gate has admitted it.
    Send(Box<Flight>),
    /// Send this flight at its intended time, if the gate admits it then.
    Pace(Box<Flight>),
    /// Keep this flight, with a connection, until the first wave begins.
    Hold(Box<Flight>),
    Begin(Nanos),
    Preopen {
        target: u16,
        count: u32,
    },
    /// The measured phase begins: start measuring this thread's health.
    Measure,
}

/// A worker's queue of commands. Wakes the worker when one arrives.
#[derive(Debug)]
pub(crate) struct Inbox {
    commands: Mutex<Vec<WorkerCommand>>,
    has_commands: AtomicBool,
    waker: Arc<dyn Wake>,
}

impl Inbox {
    pub(crate) fn new(waker: Arc<dyn Wake>) -> Self {
        Self { commands: Mutex::new(Vec::new()), has_commands: AtomicBool::new(false), waker }
    }

    /// Queues a command. Only the first one in an empty queue wakes the worker.
    pub(crate) fn post(&self, command: WorkerCommand) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        if !self.has_commands.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn take(&self, commands: &mut Vec<WorkerCommand>) {
        // A plain load first: the queue is usually empty, and a swap locks the cache line.
        if self.has_commands.load(Ordering::Relaxed)
            && self.has_commands.swap(false, Ordering::AcqRel)
        {
            commands.append(&mut self.commands.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
