//! The first line of `bench`: what will be measured, by whose defaults, and how long it takes.

use tokometer_base::Conventions;
use tokometer_base::redact::hide_in_url;
use tokometer_plan::{Address, Load, Plan, Timing};

use crate::args::BenchCommand;
use crate::lower::Lowered;

pub(crate) fn intention(command: &BenchCommand, lowered: &Lowered) -> String {
    let loads: Vec<&Load> = lowered.points.iter().map(|point| &point.plan.load).collect();
    sentence(&lowered.plan, &loads, whose(command, &lowered.plan))
}

/// `measuring http://h:8000 by vLLM's defaults: 200 requests at 10 req/s, about 20 s`.
fn sentence(plan: &Plan, loads: &[&Load], whose: &str) -> String {
    let what = match loads {
        [load] => load_words(load),
        all => format!("{} runs", all.len()),
    };
    let seconds = loads.iter().map(|load| seconds(load)).sum::<Option<f64>>();
    let length = seconds.map_or_else(|| "as long as the answers take".to_owned(), time);
    format!("measuring {} by {whose}: {what}, {length}", targets(plan))
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
    match plan.conventions {
        _ if command.bench.plan.is_some() => "a plan file",
        _ if command.at.url.is_some() || is_demo => "our defaults",
        Conventions::Vllm => "vLLM's defaults",
        Conventions::Sglang => "SGLang's defaults",
    }
}

fn load_words(load: &Load) -> String {
    let count = load.num_prompts.filter(|count| *count > 0);
    let count = count.map(|count| format!("{count} requests"));
    let rate = if load.timing == Timing::Trace {
        "at the times of a trace".to_owned()
    } else if let Some(ramp) = load.ramp {
        format!("at {} to {} req/s", ramp.from, ramp.to)
    } else if load.request_rate.0.is_finite() {
        format!("at {} req/s", load.request_rate.0)
    } else if let Some(cap) = load.max_concurrency {
        format!("{cap} at a time")
    } else {
        "all at once".to_owned()
    };
    count.unwrap_or_else(|| "requests".to_owned()) + " " + &rate
}

/// How long a run takes by its plan: until its time is over, or its last request is sent.
fn seconds(load: &Load) -> Option<f64> {
    let is_flat = load.timing == Timing::Rate && load.ramp.is_none();
    let rate = Some(load.request_rate.0).filter(|rate| is_flat && rate.is_finite());
    let by_rate = load.num_prompts.zip(rate).map(|(count, rate)| count as f64 / rate);
    match (load.duration_s, by_rate) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn time(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("about {seconds:.0} s")
    } else {
        format!("about {:.0} min", seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, runs: usize) -> String {
        let text = format!("[[targets]]\naddress = \"http://h:8000\"\n[load]\n{text}");
        let plan = crate::lower::complete_part(toml::from_str(&text).unwrap()).unwrap();
        sentence(&plan, &vec![&plan.load; runs], "vLLM's defaults")
    }

    #[test]
    fn the_first_line_names_target_defaults_load_and_length() {
        let check = |text: &str, runs: usize, expected: &str| {
            let expected = format!("measuring http://h:8000 by vLLM's defaults: {expected}");
            assert_eq!(said(text, runs), expected, "{text}");
        };
        let paced = "num_prompts = 200\nrequest_rate = 10.0";
        check(paced, 1, "200 requests at 10 req/s, about 20 s");
        check(paced, 9, "9 runs, about 3 min");
        let burst = "num_prompts = 1000";
        check(burst, 1, "1000 requests all at once, as long as the answers take");
        let closed = "num_prompts = 80\nmax_concurrency = 8";
        check(closed, 1, "80 requests 8 at a time, as long as the answers take");
        let timed = "duration_s = 60.0\nmax_concurrency = 8";
        assert!(said(timed, 1).ends_with(" 8 at a time, about 60 s"), "{}", said(timed, 1));
    }
}
