//! What limited a predicted run, in words and lines.

use std::fmt::Write as _;

use tokometer_sim::Profile;
use tokometer_twin::{Bottleneck, Explanation, InPlay, Prediction};

use super::page::LABEL;
use crate::Grid;
use crate::grid::GAP;
use crate::sparkline::sparkline;

/// Characters of a course over time.
const COURSE: usize = 50;

/// The account of a run.
pub(super) fn text(prediction: &Prediction, profile: &Profile, in_play: &[InPlay]) -> String {
    let explanation = &prediction.explanation;
    let limit = Bottleneck::of(prediction, profile, in_play);
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
            explanation.memory.preemptions
        );
    }
    if let Some(share) = explanation.memory.hit_share() {
        let _ = writeln!(
            text,
            "prefix cache      {} of {} prompt tokens hit ({:.0} %)",
            explanation.memory.prefix_hits,
            explanation.memory.prefix_queries,
            100.0 * share
        );
    }
    text.push_str(&first_token(explanation));
    text.push_str(&courses(explanation));
    text
}

/// One sentence about the bottleneck.
fn sentence(limit: Bottleneck) -> String {
    match limit {
        Bottleneck::Memory => "KV-cache memory: running requests were preempted".to_owned(),
        Bottleneck::Load { busy_share } => {
            format!("the load: the engine was busy {:.0} % of the time", 100.0 * busy_share)
        }
        Bottleneck::Sequences(most) => format!("the limit of {most} running sequences"),
        Bottleneck::Prompts { share } => format!(
            "prefill: {:.0} % of the engine's time was in steps with prompt tokens",
            100.0 * share
        ),
        Bottleneck::Decode => "the engine's decode steps".to_owned(),
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
    for (name, steps) in kinds.into_iter().filter(|(_, steps)| steps.count > 0) {
        grid.push([
            String::new(),
            name.to_owned(),
            steps.count.to_string(),
            format!("{:.1} %", 100.0 * explanation.time_share(steps)),
            format!("{:.1}", steps.decoded_per_step()),
            format!("{:.1}", steps.prefilled_per_step()),
        ]);
    }
    grid.text()
}

fn first_token(explanation: &Explanation) -> String {
    let Some(shares) = explanation.first_token.shares() else { return String::new() };
    let [front_end, queue, prefill] = shares.map(|share| format!("{:.1} %", 100.0 * share));
    format!("TTFT              {front_end} front end, {queue} queue, {prefill} prefill\n")
}

/// A name, a series over the time of the run, and how its largest value is written.
type Course = (&'static str, Vec<f64>, fn(f64) -> String);

/// The run over time, each line from zero to its largest value. What never happened has no line.
fn courses(explanation: &Explanation) -> String {
    let count = |most: f64| format!("{most:.0}");
    let percent = |most: f64| format!("{:.0} %", 100.0 * most);
    let memory = explanation.windows.iter().map(|window| window.memory);
    let rows: [Course; 5] = [
        ("running", explanation.course(|window| window.running), count),
        ("waiting", explanation.course(|window| window.waiting), count),
        ("KV cache", explanation.kv_course(), percent),
        ("preemptions", memory.clone().map(|one| one.preemptions as f64).collect(), count),
        ("prefix hits", memory.map(|one| one.hit_share().unwrap_or(0.0)).collect(), percent),
    ];
    let mut text = String::new();
    for (name, series, shown) in rows {
        let largest = series.iter().copied().fold(0.0, f64::max);
        if largest > 0.0 {
            let course = sparkline(&series, COURSE);
            let _ = writeln!(text, "{name:<LABEL$} {course} up to {}", shown(largest));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokometer_base::Seed;
    use tokometer_schedule::Arrivals;
    use tokometer_twin::{Ask, PredictOptions, RequestLoad, in_play, predict};

    fn explained(asks: Vec<Ask>, change: impl Fn(&mut Profile)) -> String {
        let mut profile = Profile::default();
        change(&mut profile);
        let run = predict(&profile, &RequestLoad::burst(asks), Seed(1), PredictOptions::default())
            .unwrap();
        text(&run, &profile, &[])
    }

    #[test]
    fn the_bottleneck_is_named() {
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
        let workload = RequestLoad::burst(asks).arriving(Arrivals::poisson(20.0));
        let run = predict(&profile, &workload, Seed(1), PredictOptions::default()).unwrap();
        let in_play = in_play(&profile, &workload, &run.explanation);
        let text = text(&run, &profile, &in_play);
        assert!(text.starts_with("limited by        the load: the engine was busy"), "{text}");
    }
}
