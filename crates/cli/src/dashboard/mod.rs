//! `bench --live`: the run as it happens, on the whole terminal.
//!
//! A thread of its own reads the counters a few times a second and draws. The terminal is restored
//! when the run ends, when it is interrupted, and on a panic.

mod board;
mod help;
mod keys;

use std::io::stderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokometer_base::{Clock, Nanos};
use tokometer_drive::{Interrupt, Live};

use tokometer_measure::{Goal, LiveNotes};

use crate::silence::{Silence, waiting_for_shards};
use board::{Board, BoardValues};
use keys::{BoardKey, Input, Keyboard};

/// Between two drawings.
const INTERVAL: Duration = Duration::from_millis(250);

/// A running dashboard. Dropping it restores the terminal.
pub(crate) struct Dashboard {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) struct DashboardSource {
    pub(crate) title: String,
    /// Requests per second that the plan asks for; `None` without a fixed rate.
    pub(crate) target_rate: Option<f64>,
    pub(crate) goal: Goal,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) live: Arc<Live>,
    pub(crate) interrupt: Arc<Interrupt>,
    pub(crate) notes: Arc<LiveNotes>,
}

fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stderr(), LeaveAlternateScreen);
}

impl Dashboard {
    /// Takes the terminal. Standard error is drawn on: standard output is the result.
    pub(crate) fn open(watched: DashboardSource) -> Result<Self> {
        enable_raw_mode().context("cannot switch the terminal to full screen for `--live`")?;
        execute!(stderr(), EnterAlternateScreen)
            .context("cannot switch the terminal to full screen for `--live`")?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("dashboard".into())
            .spawn(move || show(&watched, &stopped))
            .context("cannot start the dashboard thread")?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        give_back();
    }
}

fn show(watched: &DashboardSource, stop: &AtomicBool) {
    let mut board = Board::new(watched.title.clone(), watched.goal, watched.target_rate);
    let Ok(mut terminal) = Terminal::new(CrosstermBackend::new(stderr())) else { return };
    let mut silence = Silence::default();
    let keyboard = Keyboard::open();
    while !stop.load(Ordering::Relaxed) {
        let (began, now) = (watched.live.began(), watched.clock.now());
        let counts = watched.live.counts();
        let elapsed = began.map_or(Nanos::ZERO, |began| now - began);
        let all_sent = watched.live.all_sent().zip(began).map(|(at, began)| at - began);
        board.push(BoardValues {
            elapsed,
            sending: all_sent.unwrap_or(elapsed),
            is_stopping: watched.interrupt.is_raised(),
            silent: silence.span(&counts, now),
            counts,
            latencies: watched.notes.latencies(),
            gauges: watched.notes.gauges(),
            notes: watched.notes.notes(),
            waiting: waiting_for_shards(&watched.live),
        });
        // A terminal that cannot be drawn on is no reason to stop measuring.
        let _ = terminal.draw(|frame| board.render(frame));
        match keyboard.wait(INTERVAL) {
            Input::Nothing => {}
            Input::Key(BoardKey::Help) => board.toggle_help(),
            Input::Key(BoardKey::Stop) => stop_run(&watched.interrupt),
            // The run goes on or ends by the signal that comes with it.
            Input::Closed => return,
        }
    }
}

/// Stops as a signal from the terminal does, so that a sweep stops as well.
fn stop_run(interrupt: &Interrupt) {
    if signal_hook::low_level::raise(signal_hook::consts::SIGINT).is_err() {
        interrupt.raise();
    }
}
