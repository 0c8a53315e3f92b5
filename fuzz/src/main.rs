//! One fuzzer for all targets: libFuzzer mutates the input, `TOKOMETER_FUZZ_TARGET` names the property.
//!
//! Executions and bytes are written to the file `TOKOMETER_FUZZ_STATS` as the run goes on, because
//! libFuzzer counts no bytes and leaves without running destructors.

#![no_main]

mod properties;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libfuzzer_sys::fuzz_target;

/// Executions between two writes of the statistics.
const STATS_EVERY: u64 = 256;

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The property that the environment names.
fn property() -> fn(&[u8]) {
    static PROPERTY: OnceLock<fn(&[u8])> = OnceLock::new();
    *PROPERTY.get_or_init(|| {
        let name = std::env::var("TOKOMETER_FUZZ_TARGET").unwrap_or_default();
        let found = properties::PROPERTIES.iter().find(|(has, _)| *has == name);
        found.map(|(_, check)| *check).unwrap_or_else(|| panic!("no target is called `{name}`"))
    })
}

fuzz_target!(|data: &[u8]| {
    let bytes = BYTES.fetch_add(data.len() as u64, Ordering::Relaxed) + data.len() as u64;
    let executions = EXECUTIONS.fetch_add(1, Ordering::Relaxed) + 1;
    if executions % STATS_EVERY == 0
        && let Some(path) = std::env::var_os("TOKOMETER_FUZZ_STATS")
    {
        let _ = std::fs::write(path, format!("{executions} {bytes}"));
    }
    property()(data);
});
