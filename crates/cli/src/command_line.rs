//! The command that started the program, as a record keeps it: quoted for a shell, without secrets.

use tokometer_base::redact::Secrets;

use crate::lower::shown_words;

/// This process's command. `known` are secrets besides those that its words show.
pub(crate) fn command_line(known: &Secrets) -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    shown(&words, known)
}

fn shown(words: &[String], known: &Secrets) -> String {
    let words = shown_words(words).into_iter().map(|word| quoted(&known.redact(&word)));
    std::iter::once("tokometer".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
