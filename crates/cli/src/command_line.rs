//! The command that started the program: its words, and the command as a record keeps it, quoted for a
//! shell, without secrets.

use std::ffi::OsString;

use tokometer_base::redact::Secrets;
use tokometer_report::quoted;

use crate::exit::Refusal;
use crate::lower::shown_words;

pub(crate) fn words() -> Result<Vec<String>, Refusal> {
    as_text(std::env::args_os().skip(1).collect())
}

/// Names of files may be any bytes; a plan and a record are text.
fn as_text(words: Vec<OsString>) -> Result<Vec<String>, Refusal> {
    let Some(bad) = words.iter().position(|word| word.to_str().is_none()) else {
        return Ok(words.into_iter().filter_map(|word| word.into_string().ok()).collect());
    };
    let lossy: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let shown = shown_words(&lossy).swap_remove(bad);
    Err(Refusal::usage(
        format!("cannot use the argument `{shown}`: it is not valid UTF-8"),
        "rename the file or folder, or use a link with another name",
    ))
}

/// This process's command. `known` are secrets besides those that its words show.
pub(crate) fn command_line(known: &Secrets) -> String {
    shown(&words().unwrap_or_default(), known)
}

fn shown(words: &[String], known: &Secrets) -> String {
    let words = shown_words(words).into_iter().map(|word| quoted(&known.redact(&word)));
    std::iter::once("tokometer".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    /// Such a word ended the program with an internal error, whatever the command.
    #[test]
    fn an_argument_that_is_no_text_is_refused_by_name_and_without_secrets() {
        let check = |words: &[&[u8]], expected: Result<&[&str], &str>| {
            let words = words.iter().map(|word| OsString::from_vec(word.to_vec())).collect();
            let found = as_text(words).map_err(|refusal| refusal.message);
            let message =
                |shown| format!("cannot use the argument `{shown}`: it is not valid UTF-8");
            let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
            assert_eq!(found, expected.map_err(message));
        };
        check(&[b"report", "ü.txt".as_bytes()], Ok(&["report", "ü.txt"]));
        check(&[b"report", b"a\xff.txt"], Err("a\u{fffd}.txt"));
        check(&[b"bench", b"--api-key", b"hunter\xff22"], Err("[redacted]"));
        check(&[b"bench", b"--api-key=hunter\xff22"], Err("--api-key=[redacted]"));
    }

    #[test]
    fn a_recorded_command_can_be_typed_again_and_has_no_secrets() {
        let check = |words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut known = Secrets::new();
            known.add("from-a-variable");
            assert_eq!(shown(&words, &known), expected);
        };
        check(&["bench", "--request-rate", "1,2"], "tokometer bench --request-rate 1,2");
        check(
            &["capacity", "--slo", "p99 ttft < 2s", "--name", "it's"],
            r"tokometer capacity --slo 'p99 ttft < 2s' --name 'it'\''s'",
        );
        check(&["bench", "--api-key", "hunter22"], "tokometer bench --api-key '[redacted]'");
        check(&["bench", "--name", "from-a-variable"], "tokometer bench --name '[redacted]'");
        check(
            &["bench", "--header", "x-team=hunter22"],
            "tokometer bench --header 'x-team=[redacted]'",
        );
        check(
            &["bench", "--switch-command", "restart --password hunter22"],
            "tokometer bench --switch-command 'restart --password [redacted]'",
        );
        check(
            &["bench", "--base-url=http://h?sig=hunter22", "--model", "m"],
            "tokometer bench '--base-url=http://h?sig=[redacted]' --model m",
        );
        check(&["bench", "--name", ""], "tokometer bench --name ''");
    }
}
