//! One fault, how it is brought about, and how the program must end.
//!
//! Cases are constants, so a table reads like the page that is made from it.

use std::path::Path;

use nix::sys::signal::Signal;

use crate::scripted::{AfterResponse, ScriptedRequest};

/// What answers one request.
pub(super) type Script = fn(ScriptedRequest<'_>) -> AfterResponse;

/// The server of a case.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// None: the command does not get that far.
    Nothing,
    /// A port on which nothing listens.
    Closed,
    /// A good server whose second request is answered by this.
    Second(Script),
    /// Every measured request is answered by this, control requests are answered well.
    Every(Script),
    /// Everything is answered by this, control requests too.
    Raw(Script),
    /// The simulated server with these flags.
    Sim(&'static [&'static str]),
}

#[derive(Clone, Copy)]
pub(super) enum Moment {
    /// Once this many requests reached the scripted server.
    Requests(u32),
    /// Once the record has the first start of a request.
    Recorded,
}

/// What a run's summary must say about its requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counted {
    /// There is no summary.
    Nothing,
    /// How many depends on the speed of the machine, but some succeeded and none failed.
    Some,
    /// Some succeeded. So many failed, or one more: the request that was under way as the server
    /// died has a result or not.
    OneMore { failed: u64 },
    /// So many succeeded and failed.
    Exactly(u64, u64),
}

/// A fault and what must follow from it.
pub(super) struct Case {
    /// The fault, in words. It is the row's name on the page.
    pub(super) fault: &'static str,
    pub(super) target: Target,
    /// Commands that come first and whose end does not matter.
    pub(super) before: &'static [&'static str],
    /// Prepares files in the folder of the case, after `before`.
    pub(super) prepare: fn(&Path),
    /// The command. `{url}` is the server's address, `{host}` the same without its scheme.
    pub(super) line: &'static str,
    /// Flags added to it.
    pub(super) flags: &'static str,
    /// Shell words before the command, such as a limit, with the same placeholders as the command.
    pub(super) shell: &'static str,
    pub(super) signals: &'static [(Moment, Signal)],
    /// A second command whose end is the one that counts.
    pub(super) then: Option<&'static str>,
    pub(super) counts: Counted,
    /// What the page says where the run has no summary.
    pub(super) outcome: &'static str,
    /// Tokens of all answers together.
    pub(super) tokens: Option<u64>,
    /// Parts that must be printed. The line with the first of them is the row's message.
    pub(super) says: &'static [&'static str],
    pub(super) exit: i32,
}

/// A small load, one request after the other.
const BENCH: &str = "bench --base-url {url} --num-prompts 3 --max-concurrency 1 \
     --random-input-len 8 --random-output-len 4 --tokenizer cl100k --no-scrape --run-dir r";

impl Case {
    const fn new(fault: &'static str, target: Target, line: &'static str) -> Self {
        Self {
            fault,
            target,
            before: &[],
            prepare: |_| {},
            line,
            flags: "",
            shell: "",
            signals: &[],
            then: None,
            counts: Counted::Nothing,
            outcome: "no run",
            tokens: None,
            says: &[],
            exit: 0,
        }
    }

    /// A small run whose second request hits the fault; the others must not be affected.
    pub(super) const fn second(fault: &'static str, script: Script) -> Self {
        Self::new(fault, Target::Second(script), BENCH).counts(2, 1)
    }

    /// A small run whose requests all meet the fault.
    pub(super) const fn every(fault: &'static str, script: Script) -> Self {
        Self::new(fault, Target::Every(script), BENCH).counts(0, 3).exit(7)
    }

    /// A small run that does not get to its first request, because of what this answers before.
    pub(super) const fn raw(fault: &'static str, script: Script) -> Self {
        Self::new(fault, Target::Raw(script), BENCH).exit(3)
    }

    /// A small run against the simulated server with these flags.
    pub(super) const fn sim(fault: &'static str, flags: &'static [&'static str]) -> Self {
        Self::new(fault, Target::Sim(flags), BENCH)
    }

    /// A small run against a port on which nothing listens.
    pub(super) const fn closed(fault: &'static str) -> Self {
        Self::new(fault, Target::Closed, BENCH).exit(3)
    }

    /// A command without a server that is refused.
    pub(super) const fn command(fault: &'static str, line: &'static str) -> Self {
        Self::new(fault, Target::Nothing, line).outcome("refused").exit(2)
    }

    pub(super) const fn counts(mut self, succeeded: u64, failed: u64) -> Self {
        self.counts = Counted::Exactly(succeeded, failed);
        self
    }

    pub(super) const fn any_counts(mut self) -> Self {
        self.counts = Counted::Some;
        self
    }

    pub(super) const fn one_more(mut self, failed: u64) -> Self {
        self.counts = Counted::OneMore { failed };
        self
    }

    /// There is no summary in `r`, and the page says this instead.
    pub(super) const fn outcome(mut self, words: &'static str) -> Self {
        self.counts = Counted::Nothing;
        self.outcome = words;
        self
    }

    pub(super) const fn no_figures(mut self) -> Self {
        self.counts = Counted::Nothing;
        self
    }

    pub(super) const fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    pub(super) const fn says(mut self, parts: &'static [&'static str]) -> Self {
        self.says = parts;
        self
    }

    pub(super) const fn exit(mut self, code: i32) -> Self {
        self.exit = code;
        self
    }

    pub(super) const fn flags(mut self, flags: &'static str) -> Self {
        self.flags = flags;
        self
    }

    pub(super) const fn line(mut self, line: &'static str) -> Self {
        self.line = line;
        self
    }

    pub(super) const fn before(mut self, lines: &'static [&'static str]) -> Self {
        self.before = lines;
        self
    }

    pub(super) const fn prepare(mut self, prepare: fn(&Path)) -> Self {
        self.prepare = prepare;
        self
    }

    pub(super) const fn shell(mut self, words: &'static str) -> Self {
        self.shell = words;
        self
    }

    pub(super) const fn signals(mut self, signals: &'static [(Moment, Signal)]) -> Self {
        self.signals = signals;
        self
    }

    pub(super) const fn then(mut self, line: &'static str) -> Self {
        self.then = Some(line);
        self
    }
}
