//! How fast virtual time runs: the run of `experiments/vllm-closed-loop.toml` (3,000 requests, 128 in
//! flight, 2.0 M tokens) with all its percentiles, and a fleet.
//!
//! `cargo lab speed [REPLICAS REQUESTS [ROUTER]]`

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::fmt::Write as _;
use std::sync::Arc;

use tokometer_base::seed::{unit_float, whole_between};
use tokometer_base::{Clock, MonotonicClock, Seed};
use tokometer_schedule::Arrivals;
use tokometer_sim::Profile;
use tokometer_twin::{Ask, PredictOptions, RequestLoad, RequestSource, predict};

/// Answers like those of that report: 57 % stop at the cap of 1,024 tokens, the others earlier.
struct Percentiles;

impl RequestSource for Percentiles {
    fn count(&self) -> u64 {
        3_000
    }

    fn ask(&self, index: u64) -> Ask {
        // The stream's name decides the drawn lengths, so it stays as it was when they were published.
        let mut generator = Seed(0).stream("seed-000").at(index);
        let is_capped = unit_float(&mut generator) < 0.57;
        let short = whole_between(&mut generator, 20, 374);
        let prompt = whole_between(&mut generator, 32, 432);
        let output_tokens = if is_capped { 1_024 } else { u32::try_from(short).unwrap_or(1) };
        Ask {
            prompt_tokens: u32::try_from(prompt).unwrap_or(1),
            output_tokens,
            output_limit: 1_024,
            ..Ask::default()
        }
    }
}

/// Chat traffic: prompts of 64 to 512 tokens, answers of 16 to 240.
struct Traffic(u64);

impl RequestSource for Traffic {
    fn count(&self) -> u64 {
        self.0
    }

    fn ask(&self, index: u64) -> Ask {
        let mut generator = Seed(0).stream("traffic").at(index);
        let prompt = whole_between(&mut generator, 64, 512);
        let output = whole_between(&mut generator, 16, 240);
        Ask::new(u32::try_from(prompt).unwrap_or(1), u32::try_from(output).unwrap_or(1))
    }
}

fn percentiles(figures: &tokometer_twin::PredictedFigures) -> String {
    let mut text = String::new();
    let named = [
        ("TTFT", &figures.ttft),
        ("TPOT", &figures.tpot),
        ("ITL", &figures.itl),
        ("E2EL", &figures.e2el),
    ];
    for (name, samples) in named {
        let values = samples.percentiles_ms(&[50.0, 75.0, 90.0, 95.0, 99.0]);
        let mean = samples.mean_ms().unwrap_or(0.0);
        let _ = writeln!(text, "  {name:5} mean {mean:10.2}  p50-99 {values:.2?}");
    }
    text
}

fn closed_loop() {
    let profile = Profile::shipped("vllm-percentiles").expect("the profile is shipped");
    let workload = RequestLoad::burst(Percentiles).capped(128);
    let mut best = u64::MAX;
    let mut shown = None;
    for _ in 0..10 {
        let begin = MonotonicClock.now();
        let prediction = predict(&profile, &workload, Seed(0), PredictOptions::default())
            .expect("the workload fits the engine");
        let text = percentiles(&prediction.figures);
        best = best.min((MonotonicClock.now() - begin).0);
        shown = Some((prediction, text));
    }
    let Some((prediction, text)) = shown else { return };
    let steps = &prediction.explanation;
    println!(
        "closed loop of 128: {:.1} ms for {:.0} s of virtual time, {} tokens, {} steps ({:.0} x real time)\n{text}",
        best as f64 / 1e6,
        prediction.figures.duration_s,
        prediction.figures.output_tokens,
        steps.prefill.count + steps.decode.count + steps.mixed.count,
        prediction.figures.duration_s * 1e9 / best as f64,
    );
}

fn fleet(replicas: usize, requests: u64, router: &str) {
    let profile = Profile::shipped("default").expect("the profile is shipped");
    let rate = replicas as f64 * 40.0;
    let mut workload = RequestLoad::burst(Traffic(requests)).arriving(Arrivals::poisson(rate));
    workload.asks = Arc::new(Traffic(requests));
    let options = PredictOptions {
        replicas,
        routing: router.parse().expect("a router's name"),
        threads: 2,
        ..PredictOptions::default()
    };
    let begin = MonotonicClock.now();
    let prediction =
        predict(&profile, &workload, Seed(0), options).expect("the workload fits the engines");
    let elapsed = MonotonicClock.now() - begin;
    println!(
        "fleet: {replicas} replicas, {requests} requests by {router}: {elapsed} for {:.0} s, {} tokens\n{}",
        prediction.figures.duration_s,
        prediction.figures.output_tokens,
        percentiles(&prediction.figures),
    );
}

/// Runs and prints both.
pub(crate) fn run(arguments: &[String]) {
    closed_loop();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    if let (Some(replicas), Some(requests)) = (number(0), number(1)) {
        let router = arguments.get(2).map_or("round-robin", String::as_str);
        fleet(usize::try_from(replicas).unwrap_or(1), requests, router);
    }
}
