//! Runs the simulated server with the configuration in a JSON file, or with its defaults.
//!
//! `cargo run -p tokometer-sim --example serve -- [CONFIG.json]`

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokometer_base::MonotonicClock;
use tokometer_sim::{SimConfig, SimServer};

#[expect(clippy::print_stderr, reason = "an example has no other way to speak")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config: SimConfig = match std::env::args().nth(1) {
        Some(path) => serde_json::from_str(&std::fs::read_to_string(path)?)?,
        None => SimConfig { port: 8000, ..SimConfig::default() },
    };
    let server = SimServer::bind(config)?;
    eprintln!("listening on {:?}", server.local_addr());
    server.run(&Arc::new(AtomicBool::new(false)), &MonotonicClock)?;
    Ok(())
}
