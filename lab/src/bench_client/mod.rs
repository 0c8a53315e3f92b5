//! `cargo lab bench-client`: our client against the floor, in one pass.
//!
//! Flood (the server never waits; 1 and 64 events per write; 1, 64, 512 connections), whole (the same with
//! full requests of 1,024 tokens, weighed from start to exit with statistics and report), paced (64,
//! 512, 2,048 streams, 20 ms between tokens) and burst (512, 2,048, 10,000 requests at once). The server
//! runs on one core, client or floor on the other. Prints a table with CPU seconds per million events, events per second, peak memory and,
//! for the paced cases, the error against the server's truth log. Readers take turns in several
//! passes, and each is shown by its pass of median CPU: how often a flooded reader wakes up depends
//! on who is ahead of whom, and a single pass is off by half.

pub(crate) mod floor;
mod scene;
mod table;
pub(crate) mod weigh;

use anyhow::{Context, Result, bail};

use crate::process::{announce, cargo};
use scene::{Kind, Scene, Server};
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
        if filter.is_some_and(|word| !scene.name.contains(word)) {
            continue;
        }
        announce(&scene.name);
        let passes = if scene.kind == Kind::Paced { PACED_PASSES } else { FLOOD_PASSES };
        let passes = (0..passes).map(|_| measure(&scene)).collect::<Result<Vec<_>>>()?;
        lines.extend(table::medians(passes));
    }
    table::print(&lines);
    Ok(())
}

fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for events in [1, 64] {
        for streams in [1, 64, 512] {
            scenes.push(Scene {
                name: format!("flood, {events} per write, {streams} streams"),
                kind: Kind::Read,
                streams,
                requests: streams,
                tokens: FLOOD_EVENTS / streams,
                flags: format!("--flood {events}"),
            });
        }
    }
    for events in [1, 64] {
        for streams in [64, 512] {
            scenes.push(Scene {
                name: format!("whole, {events} per write, {streams} streams"),
                kind: Kind::Whole,
                streams,
                requests: FLOOD_EVENTS / WHOLE_TOKENS,
                tokens: WHOLE_TOKENS,
                flags: format!("--flood {events}"),
            });
        }
    }
    // Short answers that begin after all requests were sent.
    scenes.extend([512, 2_048, 10_000].map(|streams| Scene {
        name: format!("burst of {streams}"),
        kind: Kind::Read,
        streams,
        requests: streams,
        tokens: BURST_TOKENS,
        flags: "--ttft 1s --itl 20ms".to_owned(),
    }));
    scenes.extend([64, 512, 2_048].map(|streams| Scene {
        name: format!("paced 20 ms, {streams} streams"),
        kind: Kind::Paced,
        streams,
        requests: streams,
        tokens: PACED_TOKENS,
        flags: "--ttft 50ms --itl 20ms".to_owned(),
    }));
    scenes
}

fn measure(scene: &Scene) -> Result<Vec<TableRow>> {
    let is_paced = scene.kind == Kind::Paced;
    let floors: &[_] = &[("floor, eager", "eager"), ("floor, 1 ms lazy", "lazy")];
    let ways: &[_] = &["adaptive", "eager"];
    let mut lines = Vec::new();
    for (name, pace) in &floors[..if is_paced { 2 } else { 1 }] {
        let server = Server::start(scene)?;
        lines.push(TableRow::floor(scene, name, &scene::floor_in_child(scene, &server, pace)?));
    }
    for reads in &ways[..if is_paced { 2 } else { 1 }] {
        lines.push(scene::client(scene, Server::start(scene)?, reads)?);
    }
    Ok(lines)
}

/// The child side of the floor: prints what it took as one line of JSON.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) fn run_floor(arguments: &[String]) -> Result<()> {
    let [address, streams, requests, tokens, mode] = arguments else {
        bail!("usage: cargo lab floor ADDRESS STREAMS REQUESTS TOKENS eager|lazy");
    };
    let effort = floor::run(&floor::Floor {
        address: address.parse().context("the address is not host:port")?,
        streams: streams.parse()?,
        requests: requests.parse()?,
        tokens: tokens.parse()?,
        is_lazy: mode == "lazy",
    })?;
    println!("{effort}");
    Ok(())
}
