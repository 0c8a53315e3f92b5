//! Standard output and standard error.
//!
//! Stdout is the result, stderr everything else. When the reader closes the pipe early, writing stops
//! without an error, and the exit code is that of success.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;

use tokometer_report::style::{Colours, Style};

use crate::exit::{Exit, Refusal};
use crate::lower::Environment;

/// Writes a piece of the result.
pub(crate) fn print(text: &str) -> Result<(), Refusal> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Refusal::new(Exit::Write, format!("cannot write to stdout: {why}")))
        }
        _ => Ok(()),
    }
}

/// Writes a message to stderr. A closed stderr is ignored.
pub(crate) fn print_message(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The same for a message that applies to all runs of a sweep or a search: written once.
pub(crate) fn print_message_once(text: &str) {
    static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = WRITTEN.lock().is_ok_and(|mut written| written.insert(text.to_owned()));
    if is_new {
        print_message(text);
    }
}

/// The look of our own summary on this stdout.
pub(crate) fn style(environment: &Environment) -> Style {
    let is_coloured = std::io::stdout().is_terminal() && !environment.is_colourless;
    Style { colours: if is_coloured { Colours::On } else { Colours::Off }, ..Style::default() }
}
