//! What other threads hand to a worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::flight::Flight;
use crate::platform::Wake;

/// One thing handed over.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The gate has let this one pass: send it now.
    Send(Box<Flight>),
    /// Send this one at its intended time, if the gate lets it pass then.
    Pace(Box<Flight>),
    /// Open so many connections to this target.
    Preopen { target: u16, count: u32 },
    /// The measured phase begins: start the account of this thread's health.
    Measure,
}

/// A worker's letter box, with what wakes the worker when mail comes.
#[derive(Debug)]
pub(crate) struct Inbox {
    mail: Mutex<Vec<Mail>>,
    has_mail: AtomicBool,
    bell: Arc<dyn Wake>,
}

impl Inbox {
    pub(crate) fn new(bell: Arc<dyn Wake>) -> Self {
        Self { mail: Mutex::new(Vec::new()), has_mail: AtomicBool::new(false), bell }
    }

    /// Hands over. The bell rings only for the first letter in an empty box.
    pub(crate) fn post(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        if !self.has_mail.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// Wakes the worker without mail.
    pub(crate) fn ring(&self) {
        self.bell.wake();
    }

    /// Empties the box into `mail`.
    pub(crate) fn take(&self, mail: &mut Vec<Mail>) {
        // A plain look first: the box is empty almost always, and a swap locks the cache line.
        if self.has_mail.load(Ordering::Relaxed) && self.has_mail.swap(false, Ordering::AcqRel) {
            mail.append(&mut self.mail.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}
