//! Keys for the dashboard.

use std::fs::File;
use std::io::{IsTerminal as _, stdin};
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoardKey {
    Stop,
    Help,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Nothing,
    Key(BoardKey),
    /// There is no terminal any more.
    Closed,
}

pub(super) struct Keyboard {
    /// `None` where standard input is the terminal.
    other: Option<File>,
}

impl Keyboard {
    /// The terminal is standard input, or that of the process where something else is piped in: the
    /// library that reads keys makes the same choice.
    pub(super) fn open() -> Self {
        let is_piped = !stdin().is_terminal();
        Self { other: is_piped.then(|| File::open("/dev/tty").ok()).flatten() }
    }

    pub(super) fn wait(&self, longest: Duration) -> Input {
        // The library does not return from reading a terminal that is closed. So it is asked only about
        // one that is open.
        if !self.is_open_after(longest) {
            return Input::Closed;
        }
        pressed().map_or(Input::Nothing, Input::Key)
    }

    /// Waits for input, and says whether the terminal is still there.
    fn is_open_after(&self, longest: Duration) -> bool {
        let stdin = stdin();
        let terminal = self.other.as_ref().map_or_else(|| stdin.as_fd(), |other| other.as_fd());
        let mut watched = [PollFd::new(terminal, PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
        // An interrupted wait found nothing.
        let _ = poll(&mut watched, timeout);
        let closed = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        !watched[0].revents().unwrap_or(PollFlags::empty()).intersects(closed)
    }
}

/// A key that was pressed. In raw mode Ctrl-C is a key like any other.
fn pressed() -> Option<BoardKey> {
    let Ok(true) = event::poll(Duration::ZERO) else { return None };
    let Ok(Event::Key(key)) = event::read() else { return None };
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => Some(BoardKey::Stop),
        KeyCode::Char('q') => Some(BoardKey::Stop),
        KeyCode::Char('?' | 'h') => Some(BoardKey::Help),
        _ => None,
    }
}
