//! The cases of a suite as one shell script.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::case::RouteCase;
use super::suite::{ModelServer, RouteSuite};

/// What every script shares. Lines that begin with `# @` are replaced.
const DRIVER: &str = include_str!("../../../../e2e/real/routes.sh");

/// A script for `cases`, which are in the order of their servers. `port` gives a port for the nth server.
pub(super) fn render(
    suite: &RouteSuite,
    cases: &[RouteCase],
    port: impl Fn(u16) -> u16,
) -> Result<String> {
    let needed: Vec<&ModelServer> = suite
        .servers
        .iter()
        .filter(|server| cases.iter().any(|case| case.on == server.model))
        .collect();
    let mut servers = preamble(suite)?;
    let mut commands = String::new();
    for (nth, server) in (0..).zip(needed) {
        let (name, port) = (server.model.name(), port(nth));
        let command =
            server.command.replace("{common}", suite.common).replace("{port}", &port.to_string());
        writeln!(servers, "serve_{name}() {{ exec {command} \"$@\"; }}")?;
        writeln!(servers, "server {name} {port} {}", quoted(server.further))?;
        writeln!(commands, "\nopen_server {name}")?;
        for case in cases.iter().filter(|case| case.on == server.model) {
            let words: Vec<String> =
                words(suite, case, port).iter().map(|word| quoted(word)).collect();
            writeln!(commands, "try_case {name} {} {}", case.name, words.join(" "))?;
        }
        writeln!(commands, "close_server {name}")?;
    }
    let line = |mark: &str| format!("# @{mark}\n");
    DRIVER.find(&line("cases")).context("the driver has no line for the cases")?;
    Ok(DRIVER.replace(&line("servers"), &servers).replace(&line("cases"), &commands))
}

fn preamble(suite: &RouteSuite) -> Result<String> {
    let mut lines = String::new();
    let names = suite.counters.prompt.iter().chain(suite.counters.generated);
    let pattern = names.copied().chain([suite.counters.running]).collect::<Vec<_>>().join("|");
    writeln!(
        lines,
        "HEALTH={} COUNTERS={}",
        quoted(suite.health),
        quoted(&format!("^({pattern})"))
    )?;
    for (name, value) in suite.variables {
        writeln!(lines, "export {name}=\"${{{name}:-{value}}}\"")?;
    }
    Ok(lines)
}

/// The words behind `tokometer`.
fn words(suite: &RouteSuite, case: &RouteCase, port: u16) -> Vec<String> {
    let url = format!("http://127.0.0.1:{port}");
    let before = case.command.split_whitespace();
    let mut words: Vec<String> =
        before.chain([url.as_str(), "--model", "tiny"]).map(str::to_owned).collect();
    words.extend(case.words.iter().cloned());
    if suite.has_model_files {
        words.extend(["--tokenizer".to_owned(), format!("{{models}}/{}", case.on.folder())]);
    }
    words
}

/// A word as the shell reads it unchanged, but for the folder of the models.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\'', r"'\''");
    format!("'{}'", escaped.replace("{models}", "'\"$MODELS\"'"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::super::recipe::Device;
    use super::super::suite::suite_of;
    use super::super::table;
    use super::*;

    #[test]
    fn words_reach_the_program_as_they_are() {
        let words =
            ["{\"a\":{\"8\":3.5}}", "it's", "{(256,256,1):0.5}", "{models}/tools.json", "a b"];
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let script = format!("printf '%s\\n' {}", line.join(" "));
        let shown =
            Command::new("bash").env("MODELS", "/m m").args(["-c", &script]).output().unwrap();
        let expected = words.map(|word| word.replace("{models}", "/m m")).join("\n") + "\n";
        assert_eq!(String::from_utf8(shown.stdout).unwrap(), expected);
    }

    #[test]
    fn every_suite_gives_a_script_that_bash_can_read() {
        for server in ["vllm", "sim", "llamacpp"] {
            let suite = suite_of(server, Device::Gpu).unwrap();
            let mut cases = table::cases();
            cases.retain(|case| suite.drives(case));
            cases.sort_by_key(|case| case.on);
            let script = render(suite, &cases, |nth| 8101 + nth).unwrap();
            let checked = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
            assert_eq!(script.matches("\ntry_case ").count(), cases.len(), "{server}");
            assert!(!script.contains("# @") && !script.contains("{port}"), "{server}");
        }
    }
}
