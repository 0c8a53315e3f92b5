//! What limited a predicted run, in words and lines.

use std::fmt::Write as _;

use tokometer_report::Grid;
use tokometer_report::grid::GAP;
use tokometer_report::sparkline::sparkline;
use tokometer_sim::Profile;
use tokometer_twin::explain::{Steps, Window};
use tokometer_twin::{Explanation, InPlay, Limit, Prediction};

use super::views::LABEL;

/// Characters of a course over time.
const COURSE: usize = 50;

/// The account of a run.
pub(crate) fn text(prediction: &Prediction, profile: &Profile, in_play: &[InPlay]) -> String {
    let explanation = &prediction.explanation;
    let limit = Limit::of(prediction, profile, in_play);
    let mut text = format!("limited by        {}\n", sentence(limit));
    text.push_str(&steps(explanation));
    let _ = writeln!(
        text,
        "batch             {:.1} sequences on average, {} at most, limit {}",
        explanation.mean_when_busy(|window| window.running),
        explanation.peak_running,
        profile.scheduler.max_seqs
    );
    let _ = writeln!(
        text,
        "queue             {:.1} requests on average, {} at most",
        explanation.mean_when_busy(|window| window.waiting),
        explanation.peak_waiting
    );
    if let Some(peak) = explanation.peak_kv {
        let _ = writeln!(
            text,
            "KV cache          {:.0} % on average, {:.0} % at most; {} preemptions",
            100.0 * explanation.mean_when_busy(|window| window.kv),
            100.0 * peak,
            explanation.preemptions
        );
    }
    if let Some(share) = explanation.prefix_hit_share() {
        let _ = writeln!(
            text,
            "prefix cache      {} of {} prompt tokens hit ({:.0} %)",
            explanation.prefix_hits,
            explanation.prefix_queries,
            100.0 * share
        );
    }
    text.push_str(&first_token(explanation));
    text.push_str(&courses(explanation));
    text
}

/// One sentence on the narrowest place.
fn sentence(limit: Limit) -> String {
    match limit {
        Limit::Memory => "KV-cache memory: running requests were preempted".to_owned(),
        Limit::Load { busy_share } => {
            format!("the load: the engine was busy {:.0} % of the time", 100.0 * busy_share)
        }
        Limit::Sequences(most) => format!("the limit of {most} running sequences"),
        Limit::Prompts { share } => format!(
            "prefill: {:.0} % of the engine's time was in steps with prompt tokens",
            100.0 * share
        ),
        Limit::Decode => "the engine's decode steps".to_owned(),
    }
}

fn steps(explanation: &Explanation) -> String {
    let mut grid = Grid::new().left("steps").at_least(LABEL + 1 - GAP).left("kind");
    for head in ["count", "time", "decoded/step", "prompt/step"] {
        grid = grid.right(head);
    }
    let kinds = [
        ("prefill", &explanation.prefill),
        ("mixed", &explanation.mixed),
        ("decode", &explanation.decode),
    ];
    let total = explanation.steps_s();
    for (name, steps) in kinds.into_iter().filter(|(_, steps)| steps.count > 0) {
        let Steps { count, seconds, decode_tokens, prefill_tokens } = *steps;
        let per_step = |tokens: u64| tokens as f64 / count as f64;
        grid.push([
            String::new(),
            name.to_owned(),
            count.to_string(),
            format!("{:.1} %", 100.0 * seconds / total),
            format!("{:.1}", per_step(decode_tokens)),
            format!("{:.1}", per_step(prefill_tokens)),
        ]);
    }
    grid.text()
}

fn first_token(explanation: &Explanation) -> String {
    let share = explanation.first_token;
    let total = share.front_end_s + share.queue_s + share.prefill_s;
    if total <= 0.0 {
        return String::new();
    }
    let percent = |part: f64| 100.0 * part / total;
    format!(
        "TTFT              {:.1} % front end, {:.1} % queue, {:.1} % prefill\n",
        percent(share.front_end_s),
        percent(share.queue_s),
        percent(share.prefill_s)
    )
}

/// A name and what is read of each window for it.
type Course = (&'static str, fn(&Window) -> f64);

/// Running, waiting and memory over the time of the run, each from zero to its largest value.
fn courses(explanation: &Explanation) -> String {
    let mut text = String::new();
    let replicas = explanation.replicas.max(1) as f64;
    // A step counts in the window in which it begins, and may be longer than that window.
    let width = |window: &Window| (window.busy_s / replicas).max(explanation.window_s);
    let rows: [Course; 3] = [
        ("running", |window| window.running),
        ("waiting", |window| window.waiting),
        ("KV cache", |window| window.kv),
    ];
    for (name, of) in rows {
        let series: Vec<f64> = explanation.windows.iter().map(|one| of(one) / width(one)).collect();
        let largest = series.iter().copied().fold(0.0, f64::max);
        if largest <= 0.0 {
            continue;
        }
        let shown = if name == "KV cache" {
            format!("{:.0} %", 100.0 * largest / replicas)
        } else {
            format!("{largest:.0}")
        };
        let _ = writeln!(text, "{name:<LABEL$} {} up to {shown}", sparkline(&series, COURSE));
    }
    text.push_str(&memory_courses(explanation));
    text
}

/// What the memory did over the time of the run, where it did something.
fn memory_courses(explanation: &Explanation) -> String {
    let mut text = String::new();
    let mut line = |name: &str, series: &[f64], shown: &dyn Fn(f64) -> String| {
        let largest = series.iter().copied().fold(0.0, f64::max);
        if largest > 0.0 {
            let course = sparkline(series, COURSE);
            let _ = writeln!(text, "{name:<LABEL$} {course} up to {}", shown(largest));
        }
    };
    let windows = explanation.windows.iter().map(|window| window.memory);
    let preempted: Vec<f64> = windows.clone().map(|memory| memory.preemptions as f64).collect();
    line("preemptions", &preempted, &|most| format!("{most:.0}"));
    let hits: Vec<f64> = windows
        .map(|memory| memory.prefix_hits as f64 / memory.prefix_queries.max(1) as f64)
        .collect();
    line("prefix hits", &hits, &|most| format!("{:.0} %", 100.0 * most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Seed;
    use tokometer_schedule::Arrivals;
    use tokometer_twin::{Ask, Options, Workload, in_play, predict};

    fn explained(asks: Vec<Ask>, change: impl Fn(&mut Profile)) -> String {
        let mut profile = Profile::default();
        change(&mut profile);
        let run = predict(&profile, &Workload::burst(asks), Seed(1), Options::default()).unwrap();
        text(&run, &profile, &[])
    }

    #[test]
    fn the_narrowest_place_is_named() {
        let crowd = || vec![Ask::new(40, 60); 400];
        let sequences = explained(crowd(), |_| {});
        assert!(sequences.starts_with("limited by        the limit of 256 running"), "{sequences}");
        let memory = explained(crowd(), |profile| {
            profile.kv.as_mut().unwrap().tokens = 4_096;
        });
        assert!(memory.starts_with("limited by        KV-cache memory"), "{memory}");
        assert!(memory.contains("\npreemptions "), "{memory}");
        let mut alike = Ask::new(160, 4);
        alike.block_hashes = (1..=10).collect();
        let prefixes = explained(vec![alike; 600], |_| {});
        assert!(prefixes.contains("\nprefix hits "), "{prefixes}");
        let prompts = explained(vec![Ask::new(8_000, 2); 30], |_| {});
        assert!(prompts.starts_with("limited by        prefill:"), "{prompts}");
        for part in ["steps ", "batch ", "queue ", "KV cache ", "TTFT ", "running "] {
            assert!(prompts.contains(part), "{part}: {prompts}");
        }
    }

    #[test]
    fn an_engine_that_keeps_up_with_its_rate_is_not_what_limits_it() {
        let profile = Profile::default();
        let asks = vec![Ask::new(40, 60); 200];
        let workload = Workload::burst(asks).arriving(Arrivals::poisson(20.0));
        let run = predict(&profile, &workload, Seed(1), Options::default()).unwrap();
        let in_play = in_play(&profile, &workload, &run.explanation);
        let text = text(&run, &profile, &in_play);
        assert!(text.starts_with("limited by        the load: the engine was busy"), "{text}");
    }
}
