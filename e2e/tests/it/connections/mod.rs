//! Ways to a server: several addresses, Unix-domain sockets, proxies, TLS.

mod addresses;
mod proxies;
mod sockets;
pub(crate) mod tls;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{command, ended};

/// `bench` against `url` with a small load and further flags.
fn bench(folder: &Path, url: &str, flags: &str) -> Command {
    let line = format!(
        "bench --base-url {url} --num-prompts 12 --max-concurrency 4 --random-input-len 8 \
         --random-output-len 4 --tokenizer cl100k --run-dir run --format json {flags}"
    );
    command(folder, &line)
}

/// The summary of a command whose 12 requests must all succeed.
fn succeeded(command: &mut Command) -> Value {
    let page = ended(command).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 12, "{page:#}");
    page["summary"].clone()
}

/// The codes of a summary's notes.
fn notes(summary: &Value) -> Vec<&str> {
    let notes = summary["notes"].as_array().unwrap();
    notes.iter().map(|note| note["code"].as_str().unwrap()).collect()
}
