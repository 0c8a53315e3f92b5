//! What other threads hand to a worker.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::Error;
use crate::flight::Flight;

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

/// A worker's letter box. Its descriptor becomes readable (edge-triggered) when mail comes.
#[derive(Debug)]
pub(crate) struct Inbox {
    mail: Mutex<Vec<Mail>>,
    has_mail: AtomicBool,
    bell: EventFd,
}

impl Inbox {
    pub(crate) fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let bell = EventFd::from_flags(flags).map_err(Error::system("make an event descriptor"))?;
        Ok(Self { mail: Mutex::new(Vec::new()), has_mail: AtomicBool::new(false), bell })
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
        // The only refusal is a counter at its end, and then the bell has rung anyway.
        let _refused = self.bell.write(1);
    }

    /// Empties the box into `mail`.
    pub(crate) fn take(&self, mail: &mut Vec<Mail>) {
        // A plain look first: the box is empty almost always, and a swap locks the cache line.
        if self.has_mail.load(Ordering::Relaxed) && self.has_mail.swap(false, Ordering::AcqRel) {
            mail.append(&mut self.mail.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
