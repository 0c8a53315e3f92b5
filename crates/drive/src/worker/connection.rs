//! A worker's connections, and the table that holds them.

use tokometer_base::Nanos;
use tokometer_client::Exchange;
use tokometer_client::conn::{Link, Segments, TransportInfo, Wire};

use crate::flight::Flight;
use crate::platform::Interest;
use crate::reads::{Lane, Pulse};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    /// A proxy's tunnel or TLS is being set up.
    Securing,
    Idle,
    /// Open, with a request of the first wave that has not begun.
    Armed,
    Writing,
    Reading,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionSetup {
    pub(crate) begin: Nanos,
    pub(crate) connected: Option<Nanos>,
    pub(crate) secured: Option<Nanos>,
}

#[derive(Debug)]
pub(crate) struct OpenConnection<W> {
    pub(crate) link: Link<W>,
    pub(crate) key: u64,
    pub(crate) id: u64,
    pub(crate) target: u16,
    /// Index of its address among the target's.
    pub(crate) address: usize,
    pub(crate) stage: ConnectionStage,
    pub(crate) setup: ConnectionSetup,
    pub(crate) uses: u32,
    pub(crate) flight: Option<Box<Flight>>,
    pub(crate) exchange: Exchange,
    pub(crate) segments: Segments,
    pub(crate) pulse: Pulse,
    pub(crate) lane: Lane,
    pub(crate) interest: Interest,
    pub(crate) was_lazy: bool,
    /// Whether it was opened before any request needed it.
    pub(crate) is_preopened: bool,
    pub(crate) last_activity: Nanos,
    /// Time of the last content of the present response. `None` before the first.
    pub(crate) last_content: Option<Nanos>,
    /// Time of the end marker of the present response, while its body has not ended.
    pub(crate) end_marker: Option<Nanos>,
    /// Kernel statistics right before the current request.
    pub(crate) account: TransportInfo,
}

/// A connection's kernel statistics at two times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accounts {
    pub(crate) before: TransportInfo,
    pub(crate) now: TransportInfo,
}

impl<W: Wire> OpenConnection<W> {
    pub(crate) fn clear(&mut self) {
        self.exchange.reset();
        self.pulse = Pulse::default();
        self.was_lazy = false;
        self.last_content = None;
        self.end_marker = None;
    }

    /// Whether the user of its request cancels it for the tokens that have come. A response that the server has
    /// finished is complete, whatever is still to be read.
    pub(crate) fn is_given_up(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.is_cancelled_by_tokens())
            && self.is_unfinished()
    }

    /// Whether the server has neither finished nor failed the response.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.end_marker.is_none() && !self.exchange.is_finished() && !self.exchange.has_failed()
    }

    /// Whether it was open before its current request: the server may have closed it in the meantime.
    pub(crate) fn was_kept(&self) -> bool {
        self.uses > 0 || self.is_preopened
    }

    /// Takes note of the kernel's statistics. Returns what they were at the last call.
    pub(crate) fn update_account(&mut self) -> Option<Accounts> {
        let now = self.link.source().info()?;
        let before = std::mem::replace(&mut self.account, now);
        Some(Accounts { before, now })
    }

    /// Whether a kept connection has ended although that was not read yet.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.was_kept() && self.update_account().is_some_and(|accounts| accounts.now.is_closed)
    }

    /// Whether nothing of the current request has reached the server. Without the kernel's statistics that is
    /// certain only if nothing of it could be written.
    pub(crate) fn is_unheard(&self, flight: &Flight) -> bool {
        match self.link.source().info() {
            Some(now) => now.bytes_acknowledged == self.account.bytes_acknowledged,
            None => flight.written == 0 && flight.timeline.times.last_byte_sent.is_none(),
        }
    }
}
