//! Fits the engine model to the seed tables and prints measured against predicted.
//!
//! `cargo run --release -p tokometer-twin --example seeds -- DIR [generations] [population] [vllm|tgi] [OUT]`

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::path::Path;

use tokometer_base::Seed;
use tokometer_sim::Profile;
use tokometer_sim::profile::Policy;
use tokometer_twin::OldClient;
use tokometer_twin::fit::{
    Calibration, Candidate, Cells, Effort, Metric, Row, Settings, calibrate,
};
use tokometer_twin::markdown::{FittedTable, twin_markdown};

/// The printed label of each metric, in the order of [`Metric::ALL`].
const LABELS: [&str; 10] = [
    "Output token throughput (tok/s):",
    "Mean TTFT (ms):",
    "Median TTFT (ms):",
    "P99 TTFT (ms):",
    "Mean TPOT (ms):",
    "Median TPOT (ms):",
    "P99 TPOT (ms):",
    "Mean ITL (ms):",
    "Median ITL (ms):",
    "P99 ITL (ms):",
];

fn value(block: &str, label: &str) -> Option<f64> {
    let line = block.lines().find(|line| line.starts_with(label))?;
    line[label.len()..].trim().parse().ok()
}

fn count(block: &str, label: &str) -> u64 {
    let line = block.lines().find(|line| line.starts_with(label));
    line.and_then(|line| line[label.len()..].trim().parse().ok()).unwrap_or(0)
}

fn rows(text: &str) -> Vec<Row> {
    let blocks = text.split("Serving Benchmark Result").skip(1);
    blocks
        .map(|block| {
            let requests = count(block, "Successful requests:");
            let input_tokens = count(block, "Total input tokens:");
            let mut cells = Cells::default();
            for (metric, label) in Metric::ALL.into_iter().zip(LABELS) {
                cells.set(metric, value(block, label));
            }
            Row {
                label: format!("{requests} x {}", input_tokens / requests.max(1)),
                requests,
                input_tokens,
                output_tokens: count(block, "Total generated tokens:"),
                duration_s: value(block, "Benchmark duration (s):").unwrap_or(0.0),
                output_limit: Some(150),
                cells,
                ..Row::default()
            }
        })
        .collect()
}

fn errors(rows: &[Row], calibration: &Calibration, metric: Metric) -> Vec<f64> {
    let held_out = calibration.held_out.iter();
    held_out
        .filter_map(|held| {
            let measured = rows[held.row].cells.get(metric)?;
            Some(held.predicted.get(metric)? / measured - 1.0)
        })
        .collect()
}

fn share(errors: &[f64], limit: f64) -> f64 {
    let within = errors.iter().filter(|error| error.abs() <= limit).count();
    100.0 * within as f64 / errors.len().max(1) as f64
}

fn median(errors: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0) * 100.0
}

fn print(name: &str, rows: &[Row], calibration: &Calibration) {
    println!("== {name}: loss {:.4}", calibration.loss);
    for left in &calibration.left_out {
        println!("left out {}: {}", rows[left.row].label, left.reason);
    }
    println!("quantum {}", calibration.candidate.profile.cost.quantum_ms);
    for fitted in &calibration.parameters {
        let ends: Vec<String> = fitted.ends.iter().map(|end| format!("{end:.4e}")).collect();
        let mark = if fitted.is_identified { "" } else { "not identified" };
        println!("{:45} {:.4e}  [{}] {mark}", fitted.name, fitted.value, ends.join(" "));
    }
    let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
    println!("{:>14} {}", "row", names.join(" "));
    for held in &calibration.held_out {
        let row = &rows[held.row];
        let cells: Vec<String> = Metric::ALL
            .iter()
            .map(|metric| {
                let ratio = held.predicted.get(*metric).zip(row.cells.get(*metric));
                ratio.map_or("-".into(), |(p, m)| format!("{:+10.1}", 100.0 * (p / m - 1.0)))
            })
            .collect();
        println!("{:>14} {}", row.label, cells.join(" "));
    }
    let mut pooled = Vec::new();
    for metric in Metric::ALL {
        let errors = errors(rows, calibration, metric);
        println!(
            "{:14} median {:5.1}  <5 {:4.0}  <10 {:4.0}  <15 {:4.0}  <25 {:4.0}  x1.5 {:4.0}",
            metric.name(),
            median(&errors),
            share(&errors, 0.05),
            share(&errors, 0.10),
            share(&errors, 0.15),
            share(&errors, 0.25),
            100.0
                * errors.iter().filter(|e| (1.0 / 1.5..=1.5).contains(&(1.0 + **e))).count() as f64
                / errors.len() as f64,
        );
        if metric.is_main() {
            pooled.extend(errors);
        }
    }
    println!(
        "pooled main: median {:.2}  <10 {:.1}  <25 {:.1}",
        median(&pooled),
        share(&pooled, 0.10),
        share(&pooled, 0.25)
    );
}

fn template(name: &str) -> Candidate {
    let mut profile = Profile::shipped(name).expect("the profile is shipped");
    profile.cost.quantum_ms = 0.0;
    profile.cost.quantum_tail_ms = 0.0;
    profile.front_end.gather_ms = 0.0;
    profile.front_end.eos_step = true;
    profile.kv = None;
    if let Policy::Tgi { waiting_served_ratio, max_waiting_tokens, .. } =
        &mut profile.scheduler.policy
    {
        (*waiting_served_ratio, *max_waiting_tokens) = (0.3, 20);
    }
    Candidate { profile, client: OldClient::default(), spread: 0.25 }
}

/// A seed table, and the name of the profile that is fitted to it.
struct Table {
    heading: &'static str,
    file: &'static str,
    profile: &'static str,
    source: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        heading: "vLLM, a 405B model (seed 002)",
        file: "002_902df92d1b3a4732.txt",
        profile: "vllm-405b",
        source: "the vLLM tables of a 405B model (seed 002)",
    },
    Table {
        heading: "TGI, Llama-3.1-405B (seed 003)",
        file: "003_8b5b9f497242493f.txt",
        profile: "tgi-405b",
        source: "the TGI table of a 405B model (seed 003)",
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = Path::new(&arguments[1]);
    let number = |at: usize, default: usize| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let effort = Effort { generations: number(2, 100), population: number(3, 14), sigma: 0.2 };
    let only = arguments.get(4).map(String::as_str);
    let out = arguments.get(5).map(Path::new);
    for table in
        TABLES.iter().filter(|table| only.is_none_or(|only| table.profile.starts_with(only)))
    {
        let text = std::fs::read_to_string(folder.join(table.file)).expect("a seed file");
        let rows = rows(&text);
        let template = template(table.profile);
        let settings = Settings { template, effort, threads: 2, seed: Seed(1) };
        let calibration = calibrate(&rows, &settings, &|_| {}).expect("the seeds fit");
        print(table.heading, &rows, &calibration);
        let Some(out) = out else { continue };
        let fitted = FittedTable { name: table.heading, rows: &rows, calibration: &calibration };
        let page = out.join(format!("{}.md", table.profile));
        std::fs::write(page, twin_markdown(&[fitted])).expect("the folder can be written");
        let profile = calibration.profile(&rows, table.profile, table.source);
        let file = out.join(format!("{}.toml", table.profile));
        std::fs::write(file, profile.to_toml()).expect("the folder can be written");
    }
}
