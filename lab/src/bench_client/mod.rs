//! `cargo lab bench-client`: our client against the floor, in one pass.
//!
//! Flood (the server never waits; 1 and 64 events per write; 1, 64, 512 connections), whole (the same with
//! full requests of 1,024 tokens, weighed from start to exit with statistics and report), paced (64,
//! 512, 2,048 streams, 20 ms between tokens) and burst (512, 2,048, 10,000 requests at once). The server runs on one core, client or floor on the
//! other. Prints a table with CPU seconds per million events, events per second, peak memory and,
//! for the paced cases, the error against the server's truth log. Readers take turns in several
//! passes, and each is shown by its pass of median CPU: how often a flooded reader wakes up depends
//! on who is ahead of whom, and a single pass is off by half.

pub(crate) mod floor;
mod scene;
mod table;
pub(crate) mod weigh;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::process::{announce, cargo};
use floor::Pace;
use scene::{Scene, Server};
use table::TableRow;

const FLOOD_EVENTS: usize = 1_000_000;
const WHOLE_TOKENS: usize = 1_024;
const BURST_TOKENS: usize = 4;
const PACED_TOKENS: usize = 200;
const FLOOD_PASSES: usize = 5;
const PACED_PASSES: usize = 3;

/// The whole benchmark, or the scenes whose name contains the given word.
pub(crate) fn run(filter: Option<&str>) -> Result<()> {
    cargo("build --release --package tokometer")?;
    let mut lines = Vec::new();
    for scene in scenes() {
        if filter.is_some_and(|word| !scene.name().contains(word)) {
            continue;
        }
        announce(&scene.name());
        let passes = (0..scene.passes()).map(|_| measure(&scene)).collect::<Result<Vec<_>>>()?;
        lines.extend(table::medians(passes));
    }
    table::print(&lines);
    Ok(())
}

fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for events_per_write in [1, 64] {
        for streams in [1, 64, 512] {
            let tokens = FLOOD_EVENTS / streams;
            scenes.push(Scene::Flood { streams, tokens, events_per_write });
        }
    }
    for events_per_write in [1, 64] {
        for streams in [64, 512] {
            scenes.push(Scene::Whole { streams, events_per_write });
        }
    }
    scenes.extend([512, 2_048, 10_000].map(|requests| Scene::Burst { requests }));
    for streams in [64, 512, 2_048] {
        scenes.push(Scene::Paced { streams, tokens: PACED_TOKENS });
    }
    scenes
}

fn measure(scene: &Scene) -> Result<Vec<TableRow>> {
    let mut lines = Vec::new();
    for (name, pace) in [("floor, eager", Pace::Eager), ("floor, 1 ms lazy", Pace::Lazy)] {
        if pace == Pace::Lazy && !matches!(scene, Scene::Paced { .. }) {
            continue;
        }
        let server = Server::start(scene)?;
        lines.push(TableRow::floor(scene, name, &scene::floor_in_child(scene, &server, pace)?));
    }
    let harvests: &[&str] = match scene {
        Scene::Flood { .. } | Scene::Whole { .. } | Scene::Burst { .. } => &["adaptive"],
        Scene::Paced { .. } => &["adaptive", "eager"],
    };
    for harvest in harvests {
        let server = Server::start(scene)?;
        lines.push(scene::client(scene, server, harvest)?);
    }
    Ok(lines)
}

/// The child side of the floor: prints what it took as one line of JSON.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) fn run_floor(arguments: &[String]) -> Result<()> {
    let [address, streams, requests, tokens, mode] = arguments else {
        bail!("usage: cargo lab floor ADDRESS STREAMS REQUESTS TOKENS eager|lazy");
    };
    let address: SocketAddr = address.parse().context("the address is not host:port")?;
    let effort = floor::run(&floor::Floor {
        address,
        streams: streams.parse()?,
        requests: requests.parse()?,
        tokens: tokens.parse()?,
        pace: if mode == "lazy" { Pace::Lazy } else { Pace::Eager },
    })?;
    println!(
        "{}",
        serde_json::json!({
            "events": effort.events,
            "cpu_secs": effort.cpu_secs,
            "wall_secs": effort.wall_secs,
            "send_secs": effort.send_secs,
            "peak_bytes": effort.peak_bytes,
        })
    );
    Ok(())
}
