//! Connections that are being made, each by a race between the addresses of its target.

use tokometer_base::{Clock, Nanos};
use tokometer_client::Exchange;
use tokometer_client::cause;
use tokometer_client::conn::{Link, Race, RaceStep, Segments, TransportInfo};
use tokometer_record::FailureKind;

use super::connection::{ConnectionSetup, ConnectionStage, OpenConnection};
use super::{WireOf, Worker};
use crate::config::Timeouts;
use crate::flight::Flight;
use crate::platform::{Interest, Links, Platform};
use crate::reads::{Lane, Pulse};

#[derive(Debug)]
pub(super) struct Dial<W> {
    id: u64,
    pub(super) target: u16,
    begin: Nanos,
    race: Race<W>,
    /// The flight that waits for it; `None` for a spare connection.
    pub(super) flight: Option<Box<Flight>>,
}

impl<P: Platform> Worker<P> {
    /// Begins to open a connection, for a flight or for whoever comes.
    pub(super) fn open(&mut self, target: u16, flight: Option<Box<Flight>>) {
        let begin = self.reader.now;
        let order = self.shared.rotations[usize::from(target)].next(begin);
        let id = self.shared.next_connection_id();
        let dial = Dial { id, target, begin, race: Race::new(order), flight };
        self.account.opened += 1;
        let key = self.connections.reserve();
        self.dial(key, dial);
    }

    /// Something happened to an attempt of a connection to be.
    pub(super) fn on_dial(&mut self, key: u64) {
        let Some(dial) = self.dials.remove(&key) else { return };
        self.reader.now = self.clock.now();
        self.dial(key, dial);
    }

    fn dial(&mut self, key: u64, mut dial: Dial<WireOf<P>>) {
        let (now, stamps) = (self.reader.now, self.shared.config.stamps);
        let addresses = &self.shared.config.targets[usize::from(dial.target)].endpoint.addresses;
        let links = &mut self.links;
        let step = dial.race.step(now, |address| links.connect(&addresses[address], stamps, key));
        let rotation = &self.shared.rotations[usize::from(dial.target)];
        match step {
            RaceStep::Pending => {
                if dial.race.is_crowded() {
                    self.crowded.push_back(key);
                }
                self.dials.insert(key, dial);
            }
            RaceStep::Won { address, wire } => {
                dial.race.failed().iter().for_each(|failed| rotation.failed(*failed, now));
                rotation.worked(address);
                self.connected(key, dial, address, wire);
            }
            RaceStep::Lost(error) => {
                dial.race.failed().iter().for_each(|failed| rotation.failed(*failed, now));
                let count = addresses.len();
                let why = match count {
                    0 | 1 => cause::describe(&error),
                    _ => format!("{} (the last of {count} addresses)", cause::describe(&error)),
                };
                let is_ours = cause::is_client_limit(&error);
                let kind = if is_ours { FailureKind::Client } else { FailureKind::Connect };
                self.undialled(key, dial, kind, &why);
            }
        }
    }

    fn connected(&mut self, key: u64, dial: Dial<WireOf<P>>, address: usize, wire: WireOf<P>) {
        let now = self.reader.now;
        self.shared.target_responded(dial.target);
        let config = &self.shared.config.targets[usize::from(dial.target)];
        let link = match Link::new(wire, config.endpoint.tls.as_ref()) {
            Ok(link) => link.through(config.endpoint.tunnel.as_ref()),
            Err(error) => {
                return self.undialled(key, dial, FailureKind::Tls, &cause::describe(&error));
            }
        };
        let mut connection = Box::new(OpenConnection {
            link,
            key,
            id: dial.id,
            target: dial.target,
            address,
            stage: ConnectionStage::Securing,
            setup: ConnectionSetup { begin: dial.begin, connected: Some(now), secured: None },
            uses: 0,
            is_preopened: dial.flight.as_ref().is_none_or(|flight| flight.is_held()),
            flight: dial.flight,
            exchange: Exchange::new(&config.dialect, &config.settings, config.keep_text),
            segments: Segments::default(),
            pulse: Pulse::default(),
            lane: Lane::Eager,
            interest: Interest::default(),
            was_lazy: false,
            last_activity: now,
            last_content: None,
            end_marker: None,
            account: TransportInfo::default(),
        });
        let fate = if connection.link.is_open() {
            self.on_open(&mut connection)
        } else {
            self.secure(&mut connection)
        };
        self.settle(connection, fate);
    }

    fn undialled(&mut self, key: u64, dial: Dial<WireOf<P>>, kind: FailureKind, why: &str) {
        self.connections.release(key);
        self.give_up(dial.target, dial.flight, kind, why);
    }

    /// What waited for a connection, or was carried by one, will not go on with it.
    pub(super) fn give_up(
        &mut self,
        target: u16,
        flight: Option<Box<Flight>>,
        kind: FailureKind,
        why: &str,
    ) {
        let is_held = flight.as_ref().is_some_and(|flight| flight.is_held());
        let is_unopened =
            matches!(kind, FailureKind::Connect | FailureKind::ConnectTimeout | FailureKind::Tls);
        // A limit of this machine says nothing about the target, and a request that is not due has not
        // failed.
        if is_unopened && !is_held {
            self.shared.connection_failed(target, self.reader.now);
        }
        match flight {
            Some(flight) if is_held => self.set_aside(flight),
            Some(flight) => self.fail(flight, kind, why),
            None => self.spare_is_open(target),
        }
    }

    /// Tries again those that a server had no room for, until one of them has to wait on.
    pub(super) fn retry_crowded(&mut self) {
        while let Some(key) = self.crowded.pop_front() {
            let waiting = self.crowded.len();
            self.on_dial(key);
            if self.crowded.len() > waiting {
                return;
            }
        }
    }

    /// Begins further attempts where the first ones are silent, and gives up what took too long.
    pub(super) fn sweep_dials(&mut self, timeouts: &Timeouts) {
        let keys: Vec<u64> = self.dials.keys().copied().collect();
        for key in keys {
            let Some(dial) = self.dials.get(&key) else { continue };
            let now = self.reader.now;
            if now - dial.begin <= timeouts.connect {
                let is_due = dial.race.next_at().is_some_and(|at| at <= now);
                if is_due && !dial.race.is_crowded() {
                    self.on_dial(key);
                }
                continue;
            }
            let Some(dial) = self.dials.remove(&key) else { continue };
            let rotation = &self.shared.rotations[usize::from(dial.target)];
            for address in dial.race.open().chain(dial.race.failed().iter().copied()) {
                rotation.failed(address, now);
            }
            let why = format!("timed out: no connection within {}", timeouts.connect);
            self.undialled(key, dial, FailureKind::ConnectTimeout, &why);
        }
    }

    pub(super) fn abandon_dials(&mut self) {
        let is_wanted = |dial: &Dial<WireOf<P>>| dial.flight.is_some();
        let wanted = self.dials.iter().filter(|(_, dial)| is_wanted(dial)).map(|(key, _)| *key);
        for key in wanted.collect::<Vec<u64>>() {
            let Some(dial) = self.dials.remove(&key) else { continue };
            self.connections.release(key);
            if let Some(flight) = dial.flight {
                let _next = self.shared.release(self.reader.now);
                self.abandon(flight);
            }
        }
    }
}
