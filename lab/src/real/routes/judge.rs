//! Reads what a script left of each case, and says whether it is as the case demands.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokometer_record::{EventKind, RunReader};

use super::case::{AnswerRule, RouteCase, TokenRule};
use super::suite::RouteSuite;
use super::table::BENCH;
use crate::real::checks;
use crate::real::counters;
use crate::real::task::one_line;

/// The check of a route sends the smallest prompt, which a chat template may lengthen, and asks for one token.
const CHECK_INPUT: f64 = 32.0;
const CHECK_OUTPUT: f64 = 1.0;

pub(in crate::real) struct RouteRow {
    case: String,
    model: String,
    pub(in crate::real) seen: Result<RouteSeen>,
}

#[derive(Debug, Default)]
pub(in crate::real) struct RouteSeen {
    answers: String,
    /// Our tokens and those of the server's counters.
    tokens: String,
    more: String,
}

/// Tokens of a case. `None`: not known, or there are none of the kind.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TokenSums {
    input: Option<f64>,
    output: Option<f64>,
}

pub(super) fn rows(suite: &RouteSuite, cases: &[RouteCase], results: &Path) -> Vec<RouteRow> {
    let row = |case: &RouteCase| RouteRow {
        case: case.name.clone(),
        model: case.on.name(),
        seen: judge(suite, case, &results.join("cases").join(&case.name)),
    };
    cases.iter().map(row).collect()
}

fn judge(suite: &RouteSuite, case: &RouteCase, folder: &Path) -> Result<RouteSeen> {
    let read = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    if let Ok(why) = read("left-out") {
        bail!("not run: {}", why.trim());
    }
    let code: i32 = read("code").context("not run")?.trim().parse()?;
    let errors = read("err").unwrap_or_default();
    let last = errors.lines().rfind(|line| line.starts_with("error")).unwrap_or_default();
    if case.answers == AnswerRule::Refused {
        return refused(code, folder, last);
    }
    if code != 0 {
        bail!("exit code {code}: {last} {}", failures(folder));
    }
    if case.command != BENCH {
        let shown = read("out")?;
        let is_result = |line: &&str| line.starts_with("capacity:") || line.contains("knee:");
        let line = shown
            .lines()
            .find(is_result)
            .or_else(|| shown.lines().find(|line| line.contains("knee")));
        let line = line.context("no result is printed")?;
        return Ok(RouteSeen { more: line.to_owned(), ..RouteSeen::default() });
    }
    let summary = summary(folder)?;
    let count = |name: &str| summary["counts"][name].as_u64().unwrap_or(0);
    let (sent, succeeded) = (count("sent"), count("succeeded"));
    if sent == 0 || succeeded < sent {
        bail!("{succeeded} of {sent} succeeded: {}", failures(folder));
    }
    let figure = |name: &str| summary["figures"][name].as_f64();
    let ours =
        TokenSums { input: figure("total_prompt_tokens"), output: figure("total_output_tokens") };
    let pages = CounterPages { before: read("before")?, after: read("after")? };
    let tokens = compared(suite, case, ours, sent, &pages)?;
    let more = content(suite, case, folder, &summary)?;
    Ok(RouteSeen { answers: format!("{succeeded} of {sent}"), tokens, more })
}

fn summary(folder: &Path) -> Result<Value> {
    let file = folder.join("run/summary.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let mut page: Value = serde_json::from_str(&text)?;
    Ok(page["summary"].take())
}

/// The most frequent failure of a run.
fn failures(folder: &Path) -> String {
    let Ok(summary) = summary(folder) else { return String::new() };
    let first = &summary["failures"][0];
    if first.is_null() {
        return String::new();
    }
    let message: String = first["message"].as_str().unwrap_or_default().chars().take(160).collect();
    format!("{} × {} {message}", first["count"], first["kind"].as_str().unwrap_or_default())
}

/// A route that the server lacks: refused before the run, or every request fails.
fn refused(code: i32, folder: &Path, last: &str) -> Result<RouteSeen> {
    let succeeded =
        summary(folder).ok().and_then(|summary| summary["counts"]["succeeded"].as_u64());
    if !matches!(code, 3 | 7) || succeeded.is_some_and(|count| count > 0) {
        bail!("exit code {code} instead of 3 or 7, {} succeeded", succeeded.unwrap_or(0));
    }
    let more = format!("exit code {code}: {last} {}", failures(folder));
    Ok(RouteSeen { answers: "refused".to_owned(), more, ..RouteSeen::default() })
}

/// The server's metrics before and after the requests of a case.
struct CounterPages {
    before: String,
    after: String,
}

/// Our tokens beside the rise of the server's counters.
fn compared(
    suite: &RouteSuite,
    case: &RouteCase,
    ours: TokenSums,
    sent: u64,
    pages: &CounterPages,
) -> Result<String> {
    let CounterPages { before, after } = pages;
    let [begin, end] = [before, after].map(|page| counters::of_page(page, &suite.counters));
    let server = TokenSums {
        input: Some(end.prompt - begin.prompt),
        output: Some(end.generated - begin.generated),
    };
    let ended = |page: &str| suite.requests.map(|name| counters::sum(page, name).unwrap_or(0.0));
    let further = ended(after).zip(ended(before)).map(|(end, begin)| end - begin - sent as f64);
    let shown = format!("{}; server {}", pair(ours), pair(server));
    let is_check = agrees(case.tokens, ours, server, further).with_context(|| shown.clone())?;
    Ok(if is_check { format!("{shown} (with the check)") } else { shown })
}

fn pair(tokens: TokenSums) -> String {
    let shown = |count: Option<f64>| count.map_or("–".to_owned(), |count| format!("{count:.0}"));
    format!("{}, {}", shown(tokens.input), shown(tokens.output))
}

/// Whether both counts agree, and whether the check of the route is in the server's. `further` is the
/// number of requests that the server counted beyond the measured ones, where it counts them.
fn agrees(
    rule: TokenRule,
    ours: TokenSums,
    server: TokenSums,
    further: Option<f64>,
) -> Result<bool> {
    let checks = further.unwrap_or(1.0);
    let difference = |ours: Option<f64>, server: Option<f64>, of_check: f64, what: &str| {
        let (Some(ours), Some(server)) = (ours, server) else { return Ok(0.0) };
        let beyond = server - ours;
        if beyond < -0.5 || beyond > checks * of_check + 0.5 {
            bail!("the server counted {server} {what} tokens, we {ours}");
        }
        Ok(beyond)
    };
    let input = || difference(ours.input, server.input, CHECK_INPUT, "input");
    let output = || difference(ours.output, server.output, CHECK_OUTPUT, "output");
    let beyond = match rule {
        TokenRule::Shown => 0.0,
        TokenRule::Output => output()?,
        TokenRule::Equal => {
            ours.input.context("the prompts were not counted")?;
            input()? + output()?
        }
        TokenRule::QueryOnce => {
            let most = ours.input.context("the prompts were not counted")? + CHECK_INPUT;
            if server.input.is_some_and(|server| server > most) {
                bail!("the server read more than the usage says");
            }
            0.0
        }
    };
    Ok(beyond > 0.5)
}

fn content(suite: &RouteSuite, case: &RouteCase, folder: &Path, summary: &Value) -> Result<String> {
    let run = RunReader::open(&folder.join("run"))?;
    let mut reasoning = 0;
    for row in run.timelines()? {
        checks::order(&row)?;
        reasoning += row.events.iter().filter(|event| event.kind == EventKind::Reasoning).count();
    }
    let is_demanded = suite.constrains(case);
    match case.answers {
        AnswerRule::Fit | AnswerRule::Call => {
            let quality = &summary["quality"];
            let calls = &quality["tool_calls"];
            let judged = if calls.is_object() { calls } else { quality };
            let of = |name: &str| judged[name].as_u64().unwrap_or(0);
            let shown = format!("{} of {} valid", of("valid"), of("judged"));
            let is_short = of("judged") == 0 || of("valid") < of("judged");
            if case.answers == AnswerRule::Fit && is_demanded && is_short {
                bail!("{shown}: {judged}");
            }
            Ok(if is_demanded { shown } else { format!("{shown} (the server does not constrain)") })
        }
        AnswerRule::Reason => {
            let median = |key: &str| {
                let percentiles = summary["distributions"][key]["percentiles"].as_array()?;
                let found = percentiles.iter().find(|one| one["percent"] == 50.0)?;
                found["value"].as_f64()
            };
            let is_streamed = !case.words.iter().any(|word| word == "--disable-stream");
            if is_demanded && is_streamed && reasoning == 0 {
                bail!("no event has reasoning");
            }
            let shown =
                |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.0}"));
            Ok(format!(
                "TTFT p50 {} ms, first answer {} ms, {reasoning} events of reasoning",
                shown(median("ttft_ms")),
                shown(median("first_answer_ms"))
            ))
        }
        AnswerRule::Succeed | AnswerRule::Refused => Ok(String::new()),
    }
}

#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
pub(in crate::real) fn print(suite: &RouteSuite, rows: &[RouteRow]) {
    println!("\n{}: routes", suite.server);
    println!(
        "| case | model | outcome | answers | tokens in, out | seen |\n|---|---|---|---|---|---|"
    );
    for RouteRow { case, model, seen } in rows {
        match seen {
            Ok(RouteSeen { answers, tokens, more }) => {
                println!("| {case} | {model} | pass | {answers} | {tokens} | {} |", one_line(more));
            }
            Err(why) => {
                println!("| {case} | {model} | FAIL | – | – | {} |", one_line(&format!("{why:#}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(input: f64, output: f64) -> TokenSums {
        TokenSums { input: Some(input), output: Some(output) }
    }

    #[test]
    fn counts_agree_but_for_one_check_of_the_route() {
        let equal = |server, further| agrees(TokenRule::Equal, sums(100.0, 16.0), server, further);
        assert!(!equal(sums(100.0, 16.0), Some(0.0)).unwrap());
        assert!(equal(sums(118.0, 17.0), Some(1.0)).unwrap());
        assert!(equal(sums(118.0, 17.0), None).unwrap());
        // No further request explains a difference, in either direction.
        for server in [sums(118.0, 16.0), sums(100.0, 17.0), sums(99.0, 16.0)] {
            equal(server, Some(0.0)).unwrap_err();
        }
        equal(sums(99.0, 17.0), Some(1.0)).unwrap_err();
        equal(sums(150.0, 17.0), Some(1.0)).unwrap_err();
    }

    #[test]
    fn vectors_have_no_output_and_sounds_only_that() {
        let vectors = TokenSums { input: Some(64.0), output: None };
        assert!(!agrees(TokenRule::Equal, vectors, sums(64.0, 3.0), Some(0.0)).unwrap());
        let uncounted = TokenSums { input: None, output: None };
        agrees(TokenRule::Equal, uncounted, sums(64.0, 0.0), Some(0.0)).unwrap_err();
        assert!(!agrees(TokenRule::Output, sums(447.0, 5.0), sums(4.0, 5.0), Some(0.0)).unwrap());
        agrees(TokenRule::Output, sums(447.0, 5.0), sums(4.0, 4.0), Some(0.0)).unwrap_err();
        assert!(!agrees(TokenRule::QueryOnce, vectors, sums(40.0, 0.0), Some(1.0)).unwrap());
        agrees(TokenRule::QueryOnce, vectors, sums(140.0, 0.0), Some(1.0)).unwrap_err();
    }
}
