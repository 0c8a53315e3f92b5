//! Standard output and standard error.
//!
//! Stdout is the result, stderr everything else. A reader that has seen enough closes the pipe; that
//! is success, so nothing more is written and nobody is told.

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

/// Tells the user something about the process. A closed stderr is nobody listening.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Tells the user something that holds for all runs of a sweep or a search: the first time only.
pub(crate) fn tell_once(text: &str) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = TOLD.lock().is_ok_and(|mut told| told.insert(text.to_owned()));
    if is_new {
        tell(text);
    }
}

/// The look of our own summary on this stdout.
pub(crate) fn style(environment: &Environment) -> Style {
    let is_coloured = std::io::stdout().is_terminal() && !environment.is_colourless;
    Style { colours: if is_coloured { Colours::On } else { Colours::Off }, ..Style::default() }
}
