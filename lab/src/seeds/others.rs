//! Seeds 000, 001 and 004: one to three reports each, too few to hold any out. Their profiles are described
//! in sample; only golang's report of 004 is predicted, by the engine that was fitted to Rust's.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::path::Path;

use tokometer_base::Seed;
use tokometer_sim::Profile;
use tokometer_twin::OldClient;
use tokometer_twin::fit::{
    Accuracy, Candidate, EngineModel, FIGURES, FitDescription, FitSettings, HeldOut, MeasuredRow,
    TemplateChoice, describe, errors, main_errors, predict_rows,
};

use super::table;

struct Seeded {
    profile: &'static str,
    file: &'static str,
    /// Reports of the file that are fitted.
    reports: &'static [usize],
    load: fn(&mut MeasuredRow),
    /// Widest spread of answer lengths that is tried.
    spread: f64,
    source: &'static str,
}

const SEEDED: [Seeded; 3] = [
    Seeded {
        profile: "vllm-percentiles",
        file: "000_659e43dd1329acd2.txt",
        reports: &[0],
        load: |row| (row.max_concurrency, row.output_limit) = (Some(128), Some(1024)),
        spread: 4.0,
        source: "a published report in vLLM's layout, taken for a closed loop of 128 (3,000 requests; server, model and hardware not stated)",
    },
    Seeded {
        profile: "vllm-prefill-decode",
        file: "001_64bb5876f73a2969.txt",
        reports: &[0, 1],
        load: |row| row.output_limit = Some(128),
        spread: 0.8,
        source: "two published vLLM reports (512 prompts of 8,191 tokens with one output token, and 512 of one token with 128; model and hardware not stated)",
    },
    Seeded {
        profile: "sglang-rust",
        file: "004_8163290e84c3957c.txt",
        reports: &[1],
        load: |row| {
            (row.max_concurrency, row.request_rate) = (Some(20), Some(20.0));
            row.output_limit = None;
        },
        spread: 1.5,
        source: "a published report of SGLang behind its Rust front end, a closed loop of 20 (model and hardware not stated)",
    },
];

/// What one report can say. What a sequence and its context cost is not among it, for the batch hardly
/// changes: that is kept from the shipped profile.
const FITTED: [&str; 6] = [
    "cost.base_ms",
    "cost.jitter",
    "front_end.arrival_ms",
    "spread of answer lengths",
    "cost.prefill.base_ms",
    "cost.prefill.token_ms",
];

/// Fits and prints all of them, and writes their profiles where a place is given.
pub(crate) fn describe_all(folder: &Path, searches: usize, (threads, out): (usize, Option<&Path>)) {
    for seeded in &SEEDED {
        let text = std::fs::read_to_string(folder.join(seeded.file)).expect("a seed file");
        let mut all = table::rows(&text);
        all.iter_mut().for_each(seeded.load);
        let rows: Vec<MeasuredRow> = seeded.reports.iter().map(|at| all[*at].clone()).collect();
        let mut profile = Profile::shipped(seeded.profile).expect("the profile is shipped");
        profile.front_end.eos_step = false;
        let template = Candidate { profile, client: OldClient::default(), spread: 0.25 };
        let mut model = EngineModel::new(template.clone());
        model.parameters.retain(|parameter| FITTED.contains(&parameter.name));
        for parameter in &mut model.parameters {
            if parameter.name == "spread of answer lengths" {
                parameter.high = seeded.spread;
            }
        }
        let choice = TemplateChoice::AsGiven;
        let settings = FitSettings { template, choice, searches, threads, seed: Seed(1) };
        let found = describe(&rows, &model, &settings).expect("the seeds fit");
        println!("== {} ({})", seeded.profile, seeded.source);
        for fitted in &found.parameters {
            let mark = if fitted.is_identified { "" } else { "not identified" };
            println!("{:45} {:.4e} {:?} {mark}", fitted.name, fitted.value, fitted.ends);
        }
        print_cells(&rows, &found.in_sample);
        let Some(out) = out else { continue };
        keep(out, seeded, &rows, &found);
        if seeded.profile == "sglang-rust" {
            let golang = predict_rows(&found.candidate, &all, &[2], 20).expect("the row fits");
            println!("== sglang-golang, predicted by the engine of sglang-rust");
            print_cells(&all, &golang);
        }
    }
}

fn print_cells(rows: &[MeasuredRow], predicted: &[HeldOut]) {
    for metric in FIGURES {
        let errors = errors(rows, predicted, metric);
        let errors: Vec<String> = errors.iter().map(|e| format!("{:+.1} %", 100.0 * e)).collect();
        println!("{:14} {}", metric.label(), errors.join("  "));
    }
    if let Some(accuracy) = Accuracy::of(&main_errors(rows, predicted)) {
        println!("seven main     {accuracy:?}");
    }
}

fn keep(out: &Path, seeded: &Seeded, rows: &[MeasuredRow], found: &FitDescription) {
    let mut profile = found.candidate.profile.clone();
    let accuracy = Accuracy::of(&main_errors(rows, &found.in_sample)).expect("cells");
    profile.provenance = format!(
        "Fitted to {}: a description, not a prediction, for nothing was held out. What sequences and context cost is an \
         earlier reading of the same report. In-sample error over {} cells of \
         throughput, TTFT, TPOT mean and median, and ITL mean: median {:.1} %, {:.0} % within 10 %. The answers' lengths \
         spread by {:.2} of their mean.",
        seeded.source,
        accuracy.cells,
        100.0 * accuracy.median,
        100.0 * accuracy.within_10,
        found.candidate.spread
    );
    if let Some(evidence) = &mut profile.evidence {
        let unsure = found.parameters.iter().filter(|fitted| !fitted.is_identified);
        evidence.not_identified = unsure.map(|fitted| fitted.name.to_owned()).collect();
    }
    let file = out.join(format!("{}.toml", seeded.profile));
    std::fs::write(file, profile.to_toml()).expect("the folder can be written");
}
