//! The first line of `bench` and `capacity`: what will be measured, by whose defaults, and how long it takes.

use tokometer_base::redact::hide_in_url;
use tokometer_base::{Conventions, Nanos};
use tokometer_plan::{Address, Load, Plan, Timing};
use tokometer_report::wrapped;

use crate::args::{BenchCommand, CapacityArgs};
use crate::lower::{Bar, Lowered};
use crate::terminal::print_note;

/// Prints what `bench` will measure; a staircase ends with its budget.
pub(crate) fn say_intention(command: &BenchCommand, lowered: &Lowered, budget: Option<Nanos>) {
    let loads: Vec<&Load> = lowered.points.iter().map(|point| &point.plan.load).collect();
    let whose = whose(command, &lowered.plan);
    let what = match budget {
        Some(budget) => {
            format!("a staircase of {}", time(budget.as_secs_f64()))
        }
        None => loads_words(&lowered.plan, &loads),
    };
    say(lowered, whose, &what);
}

pub(crate) fn say_search(args: &CapacityArgs, lowered: &Lowered, budget: Option<Nanos>) {
    let whose = if args.at.url.is_some() { OURS } else { defaults_of(&lowered.plan) };
    let length = budget.map_or_else(
        || "as long as its points take".to_owned(),
        |budget| format!("at most {}", time(budget.as_secs_f64())),
    );
    say(lowered, whose, &format!("the highest load with {}, {length}", args.slo.join(", ")));
}

/// `measuring http://h:8000 by vLLM's defaults: 200 requests at 10 req/s, about 20 s`.
fn say(lowered: &Lowered, whose: &str, what: &str) {
    if lowered.bar != Bar::Silent {
        let line = format!("measuring {} by {whose}: {what}", targets(&lowered.plan));
        print_note(&wrapped(&line).join("\n"));
    }
}

fn loads_words(plan: &Plan, loads: &[&Load]) -> String {
    let what = match loads {
        [load] => load_words(
            load,
            if plan.prompts.turns.is_some() { "conversations" } else { "requests" },
        ),
        all => format!("{} runs", all.len()),
    };
    let seconds = loads.iter().map(|load| seconds(load)).sum::<Option<f64>>();
    let length = seconds.map_or_else(
        || "as long as the answers take".to_owned(),
        |one| format!("about {}", time(one)),
    );
    format!("{what}, {length}")
}

fn targets(plan: &Plan) -> String {
    let name = |address: &Address| match address {
        Address::Simulator(_) => "the embedded simulator".to_owned(),
        Address::Server(url) => hide_in_url(&url.to_string()),
    };
    let names: Vec<String> = plan.targets.iter().map(|target| name(&target.address)).collect();
    names.join(" against ")
}

/// Whose values stand where nobody gave one.
fn whose(command: &BenchCommand, plan: &Plan) -> &'static str {
    let is_demo = plan.targets.iter().all(|target| matches!(target.address, Address::Simulator(_)));
    match () {
        () if command.bench.plan.is_some() => "a plan file",
        () if command.at.url.is_some() || is_demo => OURS,
        () => defaults_of(plan),
    }
}

const OURS: &str = "our defaults";

fn defaults_of(plan: &Plan) -> &'static str {
    match plan.conventions {
        Conventions::Vllm => "vLLM's defaults",
        Conventions::Sglang => "SGLang's defaults",
    }
}

/// `noun`: what the plan counts, requests or conversations.
fn load_words(load: &Load, noun: &str) -> String {
    let count = load.num_prompts.filter(|count| *count > 0);
    let count = count.map(|count| format!("{count} {noun}"));
    let rate = if load.timing == Timing::Trace {
        "at the times of a trace".to_owned()
    } else if !load.stages.is_empty() {
        let stages: Vec<String> = load.stages.iter().map(ToString::to_string).collect();
        format!("in stages ({})", stages.join(", "))
    } else if load.request_rate.0.is_finite() {
        format!("at {} req/s", load.request_rate.0)
    } else if let Some(cap) = load.max_concurrency {
        format!("{cap} at a time")
    } else {
        "all at once".to_owned()
    };
    count.unwrap_or_else(|| noun.to_owned()) + " " + &rate
}

/// How long a run takes by its plan: until its time is over, or its last request is sent.
fn seconds(load: &Load) -> Option<f64> {
    let is_flat = load.timing == Timing::Rate && load.stages.is_empty();
    let rate = Some(load.request_rate.0).filter(|rate| is_flat && rate.is_finite());
    let by_rate = load.num_prompts.zip(rate).map(|(count, rate)| count as f64 / rate);
    match (load.duration_s, by_rate) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, runs: usize) -> String {
        let text = format!("[[targets]]\naddress = \"http://h:8000\"\n[load]\n{text}");
        let plan = crate::lower::complete_part(toml::from_str(&text).unwrap()).unwrap();
        loads_words(&plan, &vec![&plan.load; runs])
    }

    #[test]
    fn the_first_line_names_target_defaults_load_and_length() {
        let check = |text: &str, runs: usize, expected: &str| {
            assert_eq!(said(text, runs), expected, "{text}");
        };
        let paced = "num_prompts = 200\nrequest_rate = 10.0";
        check(paced, 1, "200 requests at 10 req/s, about 20 s");
        check(paced, 9, "9 runs, about 3 min");
        let burst = "num_prompts = 1000";
        check(burst, 1, "1000 requests all at once, as long as the answers take");
        let closed = "num_prompts = 80\nmax_concurrency = 8";
        check(closed, 1, "80 requests 8 at a time, as long as the answers take");
        let turns = "num_prompts = 12\nmax_concurrency = 4\n[prompts.turns]\nleast = 3\nmost = 3";
        check(turns, 1, "12 conversations 4 at a time, as long as the answers take");
        let timed = "duration_s = 60.0\nmax_concurrency = 8";
        assert!(said(timed, 1).ends_with(" 8 at a time, about 60 s"), "{}", said(timed, 1));
    }
}
