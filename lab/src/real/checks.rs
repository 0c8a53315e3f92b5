//! What a server is put through, and what each must show.

use anyhow::{Result, bail};
use tokometer_record::{EventKind, Outcome, Timeline};

use super::counters::{self, Counted};
use super::recipe::{Recipe, Route};
use super::stage::{FinishedRun, Stage};
use crate::process::{announce, get};

/// Lengths and number of the requests of a plain run.
const PROMPT: u32 = 24;
const ANSWER: u32 = 16;
const REQUESTS: usize = 12;
/// Beyond every server's context of 2,048 tokens.
const TOO_LONG: u32 = 4_000;

pub(super) struct CheckRow {
    pub(super) check: String,
    /// What was seen, or why it is not right.
    pub(super) seen: Result<String>,
}

/// All checks, in order. One that fails does not keep the others from being made.
pub(super) fn all(stage: &Stage, recipe: &Recipe) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    let mut add = |check: &str, made: &dyn Fn() -> Result<String>| {
        announce(check);
        rows.push(CheckRow { check: check.to_owned(), seen: made() });
    };
    for route in recipe.routes {
        add(route.name, &|| plain(stage, recipe, route));
    }
    let Some(first) = recipe.routes.first() else { return rows };
    add("slots", &|| slots(stage, recipe, first));
    add("too long", &|| too_long(stage, recipe, first));
    add("unknown model", &|| unknown_model(stage, first));
    add("cancelled", &|| cancelled(stage, recipe, first));
    add("afterwards", &|| plain(stage, recipe, first));
    rows
}

/// A closed loop of more requests than slots. Everything that can be counted twice must agree.
fn plain(stage: &Stage, recipe: &Recipe, route: &Route) -> Result<String> {
    let before = count(stage, recipe)?;
    let flags =
        format!("{} {} --max-concurrency 6 --num-prompts {REQUESTS}", route.flags, lengths(route));
    let ended = stage.bench(&route.name.replace(' ', "-"), &flags)?;
    ended.exited(0)?;
    let rows = ended.rows()?;
    let after = count(stage, recipe)?;
    let told = Told::of(&rows)?;
    told.fits(route)?;
    let mut seen = told.to_string();
    if let (Some(before), Some(after)) = (before, after) {
        seen += &told.agrees(before, after, warmups(&ended)?)?;
    }
    let dropped = dropped(&ended)?;
    if !dropped.is_empty() {
        seen.push_str("; ");
        seen.push_str(&dropped);
    }
    Ok(seen)
}

fn lengths(route: &Route) -> String {
    let length = if route.is_forced { " --ignore-eos" } else { "" };
    // By the other family's rules a ratio of zero means any length up to the asked one.
    format!(
        "--conventions vllm --random-input-len {PROMPT} --random-output-len {ANSWER}{length} --temperature 1"
    )
}

fn count(stage: &Stage, recipe: &Recipe) -> Result<Option<Counted>> {
    let read = |names| counters::settled(&stage.counters_url, names);
    recipe.counters.as_ref().map(read).transpose()
}

/// Requests of the run that are not measured and that the server counts too.
fn warmups(ended: &FinishedRun) -> Result<u64> {
    Ok(ended.summary()?["counts"]["warmups"].as_u64().unwrap_or(0))
}

/// What the program says it left out.
fn dropped(ended: &FinishedRun) -> Result<String> {
    let summary = ended.summary()?;
    let notes = summary["notes"].as_array().cloned().unwrap_or_default();
    let found = notes.iter().find(|note| note["code"] == "dropped-fields");
    Ok(found.and_then(|note| note["message"].as_str()).unwrap_or_default().to_owned())
}

#[derive(Default)]
struct Told {
    requests: usize,
    prompt: u64,
    generated: u64,
    prompts: Vec<u32>,
    answers: Vec<u32>,
    events: usize,
    opening: usize,
}

impl Told {
    fn of(rows: &[Timeline]) -> Result<Self> {
        let mut told = Self { requests: rows.len(), ..Self::default() };
        for row in rows {
            if let Outcome::Failed(failure) = &row.outcome {
                bail!("request {} failed: {}", row.identity.index, failure.message);
            }
            let Some(usage) = row.usage else {
                bail!("request {} has no usage", row.identity.index)
            };
            let (Some(prompt), Some(answer)) = (usage.prompt_tokens, usage.completion_tokens)
            else {
                bail!("request {} has half a usage: {usage:?}", row.identity.index)
            };
            told.prompts.push(prompt);
            told.answers.push(answer);
            told.prompt += u64::from(prompt);
            told.generated += u64::from(answer);
            told.events += row.events.iter().filter(|event| event.kind == EventKind::Text).count();
            told.opening += row.events.iter().filter(|event| event.kind == EventKind::Role).count();
            order(row)?;
        }
        Ok(told)
    }

    /// Lengths are those asked for, as far as this route allows it.
    fn fits(&self, route: &Route) -> Result<()> {
        if self.requests != REQUESTS {
            bail!("{} of {REQUESTS} requests are in the record", self.requests);
        }
        if let Some(added) = route.added_tokens
            && let Some(other) = self.prompts.iter().find(|prompt| **prompt != PROMPT + added)
        {
            bail!("a prompt of {PROMPT} tokens counts as {other}");
        }
        if route.is_forced
            && let Some(other) = self.answers.iter().find(|answer| **answer != ANSWER)
        {
            bail!("an answer of {ANSWER} tokens counts as {other}");
        }
        if self.events as u64 > self.generated {
            bail!("{} events with text, {} tokens", self.events, self.generated);
        }
        Ok(())
    }

    /// The server's own counters rose by as much as its responses report.
    fn agrees(&self, before: Counted, after: Counted, warmups: u64) -> Result<String> {
        let (prompt, generated) =
            (after.prompt - before.prompt, after.generated - before.generated);
        let measured = |told: u64, counted: f64| (counted - told as f64).abs() < 0.5;
        let is_equal = measured(self.prompt, prompt) && measured(self.generated, generated);
        if !is_equal && warmups == 0 {
            bail!(
                "usage says {} in and {} out, the server counted {prompt} and {generated}",
                self.prompt,
                self.generated
            );
        }
        Ok(format!("; counters {prompt} and {generated}"))
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { requests, prompt, generated, events, opening, .. } = self;
        write!(
            formatter,
            "{requests} answers, {prompt} in, {generated} out, {events} events with text"
        )?;
        if *opening > 0 {
            write!(formatter, ", {opening} role events")?;
        }
        Ok(())
    }
}

/// Times of a request come in their order. An answer whose first token ends it has no content.
pub(super) fn order(row: &Timeline) -> Result<()> {
    let content = row.first_content().map(|event| event.at);
    let times = [row.times.first_byte_sent, content, row.times.end];
    if times[0].is_none() || times[2].is_none() || !times.iter().flatten().is_sorted() {
        bail!("request {} has its times out of order: {times:?}", row.identity.index);
    }
    Ok(())
}

/// Four times as many requests as slots: all succeed, and the server never runs more than it may.
fn slots(stage: &Stage, recipe: &Recipe, route: &Route) -> Result<String> {
    let asked = recipe.slots.map_or(16, |slots| 4 * slots);
    let requests = 3 * asked;
    let flags = format!(
        "{} {} --random-output-len 64 --max-concurrency {asked} --num-prompts {requests}",
        route.flags,
        lengths(route).replace(&format!("--random-output-len {ANSWER}"), "")
    );
    let ended = stage.bench("slots", &flags)?;
    ended.exited(0)?;
    let failed = ended.rows()?.iter().filter(|row| !row.is_success()).count();
    if failed > 0 {
        bail!("{failed} of {requests} failed");
    }
    let summary = ended.summary()?;
    let running = summary["server"]["running_max"].as_f64();
    let waiting = summary["server"]["waiting_max"].as_f64();
    if let (Some(running), Some(slots)) = (running, recipe.slots)
        && running > f64::from(slots)
    {
        bail!("the server says that {running} ran at once in {slots} slots");
    }
    let shown = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    Ok(format!(
        "{requests} answers, {asked} in flight; server: {} running, {} waiting at most",
        shown(running),
        shown(waiting)
    ))
}

/// A prompt beyond the context: the server's own words are in the record, and nothing succeeded.
fn too_long(stage: &Stage, recipe: &Recipe, route: &Route) -> Result<String> {
    let flags = format!(
        "{} --conventions vllm --random-input-len {TOO_LONG} --random-output-len 4 --num-prompts 2",
        route.flags
    );
    let ended = stage.bench("too-long", &flags)?;
    let rows = ended.rows()?;
    let Some(status) = recipe.too_long else {
        return Ok(format!("exit code {}: {}", ended.code.unwrap_or(-1), outcome(&rows)));
    };
    ended.exited(7)?;
    for row in &rows {
        let Outcome::Failed(failure) = &row.outcome else { bail!("an answer: {:?}", row.outcome) };
        if failure.status != Some(status) || failure.message.is_empty() {
            bail!("{:?} {:?}: {}", failure.kind, failure.status, failure.message);
        }
    }
    Ok(outcome(&rows))
}

/// The first outcome in one line.
fn outcome(rows: &[Timeline]) -> String {
    match rows.first().map(|row| &row.outcome) {
        Some(Outcome::Failed(failure)) => {
            let status = failure.status.map_or(String::new(), |status| format!(" {status}"));
            let words: String = failure.message.chars().take(100).collect();
            format!("{}{status}: {words}", failure.kind.name())
        }
        Some(Outcome::Success) => "the prompt was taken".to_owned(),
        Some(Outcome::Abandoned) => "given up".to_owned(),
        Some(Outcome::Cancelled) => "the request was cancelled".to_owned(),
        None => "no request in the record".to_owned(),
    }
}

/// A model that the server does not have is refused before the load or by every request.
fn unknown_model(stage: &Stage, route: &Route) -> Result<String> {
    let words: Vec<&str> = route.flags.split_whitespace().collect();
    let Some(at) = words.iter().position(|word| *word == "--model") else {
        return Ok("the server takes any name".to_owned());
    };
    let mut words = words;
    words[at + 1] = "no-such-model";
    let flags = format!("{} {} --num-prompts 2", words.join(" "), lengths(route));
    let ended = stage.bench("unknown-model", &flags)?;
    match ended.code {
        Some(3) => Ok(ended.last_words()),
        Some(7) => Ok(outcome(&ended.rows()?)),
        other => bail!("exit code {other:?}: {}", ended.last_words()),
    }
}

/// An interrupted run is partial, and the server drops what was under way and lives on.
fn cancelled(stage: &Stage, recipe: &Recipe, route: &Route) -> Result<String> {
    let flags = format!(
        "{} --conventions vllm --random-input-len {PROMPT} --random-output-len 200 --num-prompts 500 --max-concurrency 4",
        route.flags
    );
    let ended = stage.interrupted("cancelled", &flags)?;
    ended.exited(130)?;
    let summary = ended.summary()?;
    if summary["ended"]["early"] != "interrupted" {
        bail!("the summary says {}", summary["ended"]);
    }
    let (status, _) = get(&format!("{}{}", stage.url, recipe.health))?;
    if status != 200 {
        bail!("the server answers {status} afterwards");
    }
    let rest = match count(stage, recipe)? {
        Some(_) => ", nothing runs",
        None => "",
    };
    let rows = ended.rows()?;
    let done = rows.iter().filter(|row| row.is_success()).count();
    if done == 0 {
        bail!("no answer came: {}", outcome(&rows));
    }
    Ok(format!("{done} answers of 500, {} given up; the server lives on{rest}", rows.len() - done))
}
