//! `cargo lab referee`: a packet capture judges the client's times.
//!
//! The server lives in a network namespace joined to the client's by a pair of interfaces; tcpdump writes
//! down what reached the client's interface; a reader that shares no code with the client finds the moment at
//! which the last byte of every event arrived and compares it with the run's record. Plain and TLS,
//! quiet and with the client's core loaded. Needs root, `ip` and `tcpdump`.

mod capture;
mod judge;
mod network;

use anyhow::Result;

use crate::process::{announce, cargo};
use judge::Finding;
use network::{Case, Network};

pub(crate) fn run() -> Result<()> {
    cargo("build --release --package tokometer")?;
    network::install()?;
    let network = Network::set_up()?;
    let mut findings = Vec::new();
    for is_tls in [false, true] {
        for is_loaded in [false, true] {
            let case = Case { is_tls, is_loaded, streams: 64, tokens: 200 };
            announce(&case.name());
            let recording = network.record(&case)?;
            findings.push((case.name(), judge::compare(&recording)?));
        }
    }
    print(&findings);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is the result")]
fn print(findings: &[(String, Finding)]) {
    println!(
        "| case | events compared | not found | record − capture p50 µs | p99 of size µs | max µs |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, finding) in findings {
        let micros = |nanos: i64| nanos as f64 / 1e3;
        println!(
            "| {name} | {} | {} | {:.1} | {:.1} | {:.1} |",
            finding.compared,
            finding.not_found,
            micros(finding.p50),
            micros(finding.p99),
            micros(finding.max),
        );
    }
}
