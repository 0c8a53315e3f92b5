//! Two targets in A/B blocks: each request gets its target, prompt and intended time from its block.
//!
//! Both blocks of a pair request the same lengths at the same offsets from their start. The content
//! differs, so that neither side gets prefix-cache hits from the other's prompts.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokometer_base::{Clock, Nanos};
use tokometer_client::Control;
use tokometer_decide::AbBlocks;
use tokometer_drive::{Interrupt, Prepare, PrepareError, QueuedRequest};
use tokometer_plan::ShellCommand;
use tokometer_record::Phase;
use tokometer_schedule::{Offsets, Share};

use crate::preparer::RequestPreparer;
use crate::{Error, ErrorKind};

/// Waits until all processes have nothing in flight, and returns the common start of a block.
pub(crate) type AwaitBlock = Box<dyn Fn(u64) -> Result<Option<Nanos>, String> + Send>;

/// The requests for two targets, block by block.
pub(crate) struct Alternating {
    pub(crate) sides: [RequestPreparer; 2],
    pub(crate) blocks: AbBlocks,
    /// Warm-up requests; they go to both targets alternately.
    pub(crate) warmups: u64,
    /// Number of requests of all processes, in complete pairs. `None` when time ends the run.
    pub(crate) count: Option<u64>,
    pub(crate) share: Share,
    /// Waits for the other processes before a block; `None` where this one makes all of the run.
    pub(crate) await_block: Option<AwaitBlock>,
    pub(crate) times: BlockTimes,
    /// Switches one server between both configurations, where there is only one.
    pub(crate) switch: Option<Switch>,
    pub(crate) made: u64,
}

impl Prepare for Alternating {
    fn prepare(&mut self) -> Result<Option<QueuedRequest>, PrepareError> {
        let made = self.made;
        self.made += 1;
        if made < self.warmups {
            let target = u16::from(!made.is_multiple_of(2));
            let mut item = self.sides[usize::from(target)].warmup(made)?;
            item.identity.target = target;
            return Ok(Some(item));
        }
        let index = self.share.index(made - self.warmups);
        if self.count.is_some_and(|count| index >= count) {
            return Ok(None);
        }
        let target = self.blocks.target(index);
        let prompt = self.blocks.prompt(index);
        let Some(mut item) = self.sides[usize::from(target)].measured(prompt)? else {
            return Ok(None);
        };
        item.identity.index = index;
        item.identity.target = target;
        item.due = self.times.due(self.blocks, index, item.due);
        Ok(Some(item))
    }

    fn begins_block(&self, item: &QueuedRequest) -> bool {
        // Requests of a process are as far apart as there are processes, and no block is shorter.
        let index = item.identity.index % self.blocks.block;
        item.identity.phase == Phase::Measure && index < u64::from(self.share.count())
    }

    fn enter_block(&mut self, item: &QueuedRequest) -> Result<Option<Nanos>, PrepareError> {
        let index = item.identity.index;
        let block = index / self.blocks.block;
        if let Some(switch) = &mut self.switch {
            let is_new = block > 0 && self.blocks.begins_couple(block * self.blocks.block);
            let when = if is_new { SwitchWhen::Always } else { SwitchWhen::Changed };
            switch.to(item.identity.target, when)?;
        }
        self.await_block.as_ref().map_or(Ok(None), |wait| wait(block)).map_err(Into::into)
    }
}

/// Intended times within a block: drawn for the first block of a pair, repeated for the second.
#[derive(Debug)]
pub struct BlockTimes {
    offsets: Offsets,
    /// The last time drawn, from which the next block counts.
    drawn_until: Nanos,
    /// Pairs whose times were drawn.
    pairs: u64,
    /// Times of the current pair; empty at an infinite rate.
    of_pair: Vec<Nanos>,
    /// A trace's time of the first request in the current block.
    traced_from: Option<Nanos>,
}

impl BlockTimes {
    /// `offsets` are the arrivals of one side's requests.
    pub fn new(offsets: Offsets) -> Self {
        let (drawn_until, pairs) = (Nanos::ZERO, 0);
        Self { offsets, drawn_until, pairs, of_pair: Vec::new(), traced_from: None }
    }

    /// Intended time of request `index`, relative to the start of its block. `traced` is the time
    /// from a trace.
    pub fn due(&mut self, blocks: AbBlocks, index: u64, traced: Option<Nanos>) -> Option<Nanos> {
        if blocks.is_first(index) {
            self.traced_from = traced;
        }
        if let Some(traced) = traced {
            return Some(traced - self.traced_from.unwrap_or(traced));
        }
        while self.pairs <= blocks.pair(index) {
            self.draw(blocks.block);
            self.pairs += 1;
        }
        let within = usize::try_from(index % blocks.block).ok()?;
        self.of_pair.get(within).copied()
    }

    fn draw(&mut self, count: u64) {
        let from = self.drawn_until;
        let drawn: Vec<Nanos> = (0..count).map_while(|_| self.offsets.advance()).collect();
        self.drawn_until = drawn.last().copied().unwrap_or(from);
        self.of_pair = drawn.into_iter().map(|offset| offset - from).collect();
    }
}

/// One server that is reconfigured between blocks.
pub(crate) struct Switch {
    command: ShellCommand,
    control: Control,
    timeout: Nanos,
    interrupt: Arc<Interrupt>,
    clock: Arc<dyn Clock>,
    current: u16,
}

/// Whether a command runs for the configuration that the server has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwitchWhen {
    /// Only for the other configuration.
    Changed,
    /// Also to restart it, so that the next pairs share no server process with the last.
    Always,
}

/// Pause between attempts to reach a server that is being reconfigured.
const PAUSE: Nanos = Nanos::from_millis(250);
/// Pause between checks of a command that is still running.
const LOOK: Duration = Duration::from_millis(20);
/// Checks of a command that was asked to end, before it is killed.
const POLITE_LOOKS: u32 = 25;
/// The command may restart the server, which then has at least this long to become ready.
const MIN_TIMEOUT: Nanos = Nanos::from_secs(300);

impl Switch {
    /// A server that already has configuration A. An interrupt ends every wait.
    pub(crate) fn new(
        command: ShellCommand,
        control: Control,
        ready_timeout: Nanos,
        interrupt: &Arc<Interrupt>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let timeout = ready_timeout.max(MIN_TIMEOUT);
        let (interrupt, clock) = (Arc::clone(interrupt), Arc::clone(clock));
        Self { command, control, timeout, interrupt, clock, current: 0 }
    }

    /// Switches to `target` and waits until the server responds.
    fn to(&mut self, target: u16, when: SwitchWhen) -> Result<(), Error> {
        if self.current == target && when == SwitchWhen::Changed {
            return Ok(());
        }
        switch(&self.command, target, &self.interrupt)?;
        self.current = target;
        let deadline = self.clock.now() + self.timeout;
        while !self.control.get("/v1/models").is_ok_and(|answer| answer.status < 500) {
            if self.interrupt.is_raised() {
                return Ok(());
            }
            if self.clock.now() >= deadline {
                let message =
                    format!("the server did not respond after `{} {}`", self.command, word(target));
                return Err(Error::new(ErrorKind::Target, message));
            }
            self.clock.sleep(PAUSE);
        }
        Ok(())
    }
}

fn word(target: u16) -> &'static str {
    if target == 0 { "a" } else { "b" }
}

/// The variable in which the shell gets the command: arguments of a process are visible to all users.
const COMMAND_VARIABLE: &str = "TOKOMETER_SWITCH_COMMAND";

/// What the shell runs. The variable is unset before the command starts.
const SCRIPT: &str =
    "command=$TOKOMETER_SWITCH_COMMAND; unset TOKOMETER_SWITCH_COMMAND; eval \"$command $1\"";

/// Runs the command of `--switch-command` for one side, and waits until it exits. An interrupt ends
/// the wait and the run, whatever state the command left.
pub(crate) fn switch(
    command: &ShellCommand,
    target: u16,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let side = word(target);
    let refused = |why: String| {
        Error::new(
            ErrorKind::Target,
            format!("cannot switch the server with `{command} {side}`: {why}"),
        )
    };
    // Stdout carries the result of the measurement, so the command's output is discarded.
    let child = Command::new("sh")
        .args(["-c", SCRIPT, "sh", side])
        .env(COMMAND_VARIABLE, &command.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // What it starts ends with it.
        .process_group(0)
        .spawn()
        .map_err(|why| refused(why.to_string()))?;
    match ended(child, interrupt).map_err(|why| refused(why.to_string()))? {
        Some(status) if !status.success() && !interrupt.is_raised() => {
            Err(refused(format!("it exited with {status}")))
        }
        _ => Ok(()),
    }
}

/// Waits until a command exits. On an interrupt it is killed, and the result is `None`.
fn ended(mut child: Child, interrupt: &Interrupt) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if interrupt.is_raised() {
            return end(&mut child).map(|()| None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a command and everything it has started: politely, and after a moment at once. What has just
/// ended cannot be signalled, and need not be.
fn end(child: &mut Child) -> std::io::Result<()> {
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = killpg(group, Signal::SIGTERM);
    for _ in 0..POLITE_LOOKS {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait().map(|_status| ())
}

#[cfg(test)]
mod tests {
    use tokometer_base::Seed;
    use tokometer_decide::compare::{BlockChange, BlockOrder};
    use tokometer_schedule::{Arrivals, First, Pace, SendLimit};

    use super::*;

    fn times(arrivals: &Arrivals) -> BlockTimes {
        let extent = SendLimit { count: Some(100), duration: None };
        BlockTimes::new(Offsets::new(arrivals, extent, Seed(1)).unwrap())
    }

    #[test]
    fn both_blocks_of_a_pair_keep_the_same_times() {
        let pace = Pace::flat(10.0, Some(1.0), First::Waits);
        let mut times = times(&Arrivals::Paced(pace));
        let blocks = AbBlocks { block: 3, order: BlockOrder::Abba, between: BlockChange::Nothing };
        let dues: Vec<_> = (0..12).map(|index| times.due(blocks, index, None).unwrap()).collect();
        assert_eq!(dues[0..3], dues[3..6]);
        assert_eq!(dues[6..9], dues[9..12]);
        assert_ne!(dues[0..3], dues[6..9]);
        assert!(dues[0..3].is_sorted() && dues[2] < Nanos::from_secs(5));
    }

    /// Of three processes each has one request in a block, and none of the first in some.
    #[test]
    fn processes_that_share_blocks_keep_the_times_of_one() {
        let pace = Pace::flat(10.0, Some(1.0), First::Waits);
        let blocks = AbBlocks { block: 4, order: BlockOrder::Abba, between: BlockChange::Nothing };
        let mut whole = times(&Arrivals::Paced(pace.clone()));
        let all: Vec<_> = (0..24).map(|index| whole.due(blocks, index, None)).collect();
        for rank in 0..3 {
            let mut own = times(&Arrivals::Paced(pace.clone()));
            for index in (rank..24).step_by(3) {
                let at = usize::try_from(index).unwrap();
                assert_eq!(own.due(blocks, index, None), all[at], "request {index}");
            }
        }
    }

    #[test]
    fn an_infinite_rate_has_no_times_and_a_trace_counts_from_its_block() {
        let mut times = times(&Arrivals::AtOnce);
        let blocks = AbBlocks { block: 2, order: BlockOrder::Abba, between: BlockChange::Nothing };
        assert_eq!(times.due(blocks, 0, None), None);
        let at = |seconds| Some(Nanos::from_secs(seconds));
        assert_eq!(times.due(blocks, 4, at(100)), at(0));
        assert_eq!(times.due(blocks, 5, at(103)), at(3));
    }

    #[test]
    fn a_switch_command_that_fails_is_named() {
        let quiet = Interrupt::default();
        let command = ShellCommand("test a =".to_owned());
        switch(&command, 0, &quiet).unwrap();
        let refusal = switch(&command, 1, &quiet).unwrap_err();
        assert!(refusal.to_string().contains("`test [redacted] = b`"), "{refusal}");
    }

    /// The command may hold a key, and `/proc/PID/cmdline` is readable by everybody.
    #[test]
    fn a_switch_command_is_no_argument_of_a_process() {
        let check = "! tr '\\0' ' ' </proc/$$/cmdline | grep -q hunter22 && \
                     test -z \"$TOKOMETER_SWITCH_COMMAND\" && \
                     test -n \"$KEY\" #";
        let command = ShellCommand(format!("KEY=hunter22; {check}"));
        switch(&command, 0, &Interrupt::default()).unwrap();
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_switch_command() {
        let raised = Interrupt::default();
        raised.raise();
        switch(&ShellCommand("exec sleep 600 #".to_owned()), 1, &raised).unwrap();
    }
}
