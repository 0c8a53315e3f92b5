//! Standard output and standard error.
//!
//! Stdout is the result, stderr everything else. A reader that has seen enough closes the pipe; that
//! is success, so nothing more is written and nobody is told.

use std::io::{IsTerminal, Write};

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
    let _written = writeln!(std::io::stderr().lock(), "{text}");
}

/// The look of our own summary on this stdout.
pub(crate) fn style(environment: &Environment) -> Style {
    let is_coloured = std::io::stdout().is_terminal() && !environment.is_colourless;
    Style { colours: if is_coloured { Colours::On } else { Colours::Off }, ..Style::default() }
}
