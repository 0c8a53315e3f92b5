//! Standard output and standard error.
//!
//! Stdout is the result, stderr everything else. When the reader closes the pipe early, writing stops
//! without an error, and the exit code is that of success.
//!
//! What is written here contains none of the process's secrets, and no control characters other than
//! line ends and the program's own colours: it may contain a server's message.

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use tokometer_base::printable;
use tokometer_base::redact::Secrets;
use tokometer_report::wrapped;

use crate::exit::{Refusal, RefusalKind};

/// Secrets of the process. There is one terminal, and a panic or a word that cannot be parsed is
/// reported on it as well, where nothing can be passed in.
static SECRETS: RwLock<Option<Secrets>> = RwLock::new(None);

pub(crate) fn hide(secrets: &Secrets) {
    let mut hidden = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    hidden.get_or_insert_with(Secrets::new).extend(secrets);
}

pub(crate) fn without_secrets(text: &str) -> String {
    let hidden = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    hidden.as_ref().map_or_else(|| text.to_owned(), |secrets| secrets.redact_output(text))
}

/// The longest line on stderr. Lines of ours are shorter; one that holds a server's words may not be.
const LINE_CHARS: usize = 4_000;

/// A message without secrets and control characters, in lines of bounded length.
fn cleaned(text: &str) -> String {
    let clean = printable::lines(&without_secrets(text), printable::ColourCodes::Dropped);
    let clean = without_error_numbers(&clean);
    let short = |line: &str| match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    clean.split('\n').map(short).collect::<Vec<_>>().join("\n")
}

/// The system's words without ` (os error 2)`: the number says what the words say.
fn without_error_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                clean.push_str(rest);
            }
            _ => clean.extend([" (os error ", part]),
        }
    }
    clean
}

/// Whether a line of progress stands on stderr.
static LINE: Mutex<bool> = Mutex::new(false);

/// Shows a line of progress on a terminal, instead of the one before; an empty one removes it.
pub(crate) fn draw_line(text: &str) {
    let mut is_drawn = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if *is_drawn || !text.is_empty() {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\u{1b}[2K{}", cleaned(text)).and_then(|()| stderr.flush());
    }
    *is_drawn = !text.is_empty();
}

pub(crate) fn print(text: &str) -> Result<(), Refusal> {
    draw_line("");
    let text = printable::lines(&without_secrets(text), printable::ColourCodes::Kept);
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Refusal::new(RefusalKind::Write, format!("cannot write to stdout: {why}")))
        }
        _ => Ok(()),
    }
}

/// Whether `--quiet` was given. There is one terminal, and notes come from every command.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Writes no notes from now on; errors are still written.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Writes a note or a line of progress to stderr; nothing with `--quiet`.
pub(crate) fn print_note(text: &str) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        print_message(text);
    }
}

/// Writes a message to stderr. A closed stderr is ignored.
pub(crate) fn print_message(text: &str) {
    draw_line("");
    let mut text = cleaned(text);
    // A terminal breaks long lines inside words; programs search for whole ones.
    if std::io::stderr().is_terminal() {
        text = text.lines().flat_map(wrapped).collect::<Vec<_>>().join("\n");
    }
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The same for a note that applies to all runs of a sweep or a search: written once.
pub(crate) fn print_note_once(text: &str) {
    static WRITTEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = WRITTEN.lock().is_ok_and(|mut written| written.insert(text.to_owned()));
    if is_new {
        print_note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_secrets_no_codes_and_no_endless_lines() {
        let mut secrets = Secrets::new();
        secrets.add("terminal-hunter22");
        hide(&secrets);
        assert_eq!(cleaned("a terminal-hunter22\n  \u{1b}[2Jb"), "a [redacted]\n  \u{fffd}[2Jb");
        assert_eq!(cleaned(&"x".repeat(5_000)).chars().count(), LINE_CHARS + 1);
        let system = "cannot read `a`: No such file or directory (os error 2)\n  try (os error b)";
        assert_eq!(
            cleaned(system),
            "cannot read `a`: No such file or directory\n  try (os error b)"
        );
    }
}
