//! An address among the words of a command line: `tokometer http://HOST:PORT`.
//!
//! In: the words as typed. Out: the same words with the command that an address alone stands for, and
//! with the address in front, where no flag with several values can take it for one of them.

use super::command::is_command;

/// The words with `bench` in front of an address that stands without a command.
pub(crate) fn with_command(words: &[String]) -> Vec<String> {
    let Some(first) = words.first() else { return Vec::new() };
    let is_flag = first.starts_with("--") && !matches!(first.as_str(), "--help" | "--version");
    let has_address = || words.iter().any(|word| has_scheme(word));
    let is_meant = is_address(first) || (is_flag && has_address());
    let command = is_meant.then(|| "bench".to_owned());
    command.into_iter().chain(words.iter().cloned()).collect()
}

/// The words after a command, with an address that follows no flag in front.
pub(crate) fn in_front(words: &[String]) -> Vec<String> {
    let is_free = |at: usize| {
        let follows = at.checked_sub(1).and_then(|before| words.get(before));
        let is_value = follows.is_some_and(|before| takes_address(before));
        has_scheme(&words[at]) && !is_value
    };
    let Some(at) = (0..words.len()).find(|at| is_free(*at)) else { return words.to_vec() };
    let others = words.iter().enumerate().filter(|(other, _)| *other != at);
    std::iter::once(&words[at]).chain(others.map(|(_, word)| word)).cloned().collect()
}

/// Whether the word after this one may be an address that belongs to it.
fn takes_address(flag: &str) -> bool {
    let name = flag.replace('_', "-");
    let ends =
        ["url", "against", "host", "path", "model", "tokenizer", "name", "server", "address"];
    flag.starts_with("--") && ends.iter().any(|end| name.ends_with(end))
}

fn has_scheme(word: &str) -> bool {
    ["http://", "https://", "unix:/", "http+unix://"].iter().any(|scheme| {
        word.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Whether a word is an address, with its scheme or as `HOST:PORT`.
fn is_address(word: &str) -> bool {
    let has_port = || {
        let host_and_port = word.split('/').next().unwrap_or_default();
        let (host, port) = host_and_port.rsplit_once(':').unwrap_or_default();
        !host.is_empty() && port.parse::<u16>().is_ok()
    };
    has_scheme(word) || (!is_command(word) && has_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_an_address_stands_for_bench() {
        let check = |line: &str, expected: &str| {
            assert_eq!(with_command(&words(line)).join(" "), expected, "{line}");
        };
        check("http://h:8000 --quiet", "bench http://h:8000 --quiet");
        check("HTTPS://h/v1", "bench HTTPS://h/v1");
        check("unix:/run/llm.sock", "bench unix:/run/llm.sock");
        check("10.0.0.1:8000/v1", "bench 10.0.0.1:8000/v1");
        check("--quiet http://h", "bench --quiet http://h");
        for unchanged in ["", "bench http://h", "report r", "--help", "--version", "h", "a:b", "x:"]
        {
            check(unchanged, unchanged);
        }
    }

    #[test]
    fn an_address_that_is_no_flag_s_value_goes_in_front() {
        let check = |line: &str, expected: &str| {
            assert_eq!(in_front(&words(line)).join(" "), expected, "{line}");
        };
        check("--slo x http://h", "http://h --slo x");
        check("--header a=b http://h --quiet", "http://h --header a=b --quiet");
        check("--insecure http://h", "http://h --insecure");
        check("--base_url http://h", "--base_url http://h");
        check("--against http://b http://a", "http://a --against http://b");
        check("--base-url=http://h", "--base-url=http://h");
    }
}
