//! The table that the benchmark prints.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use tokometer_figures::instrument::{self, Emission, InstrumentError};
use tokometer_record::{RunReader, Timeline};
use tokometer_sim::truth;

use super::scene::{Kind, Scene};
use super::weigh::Weight;

pub(crate) struct TableRow {
    scene: String,
    reader: String,
    events: f64,
    cpu_secs: f64,
    wall_secs: f64,
    peak_bytes: f64,
    error: Option<InstrumentError>,
    /// Seconds from the first to the last of the requests that are sent at the start.
    send_secs: f64,
    /// Requests among them.
    sends: f64,
    /// CPU seconds per million events in the cheapest and the dearest pass.
    spread: (f64, f64),
}

/// One line per reader: its pass of median CPU, with the range of all passes.
pub(crate) fn medians(passes: Vec<Vec<TableRow>>) -> Vec<TableRow> {
    let mut readers: Vec<Vec<TableRow>> = Vec::new();
    for pass in passes {
        readers.resize_with(pass.len(), Vec::new);
        for (reader, line) in readers.iter_mut().zip(pass) {
            reader.push(line);
        }
    }
    let median = |mut lines: Vec<TableRow>| {
        lines.sort_by(|a, b| a.cpu_per_million().total_cmp(&b.cpu_per_million()));
        let least = lines.first()?.cpu_per_million();
        let most = lines.last()?.cpu_per_million();
        let line = lines.swap_remove(lines.len() / 2);
        Some(TableRow { spread: (least, most), ..line })
    };
    readers.into_iter().filter_map(median).collect()
}

fn emission(request: &truth::TrueRequest) -> Option<Emission> {
    Some(Emission { index: request.index()?, sent: request.texts_sent() })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

impl TableRow {
    pub(crate) fn floor(scene: &Scene, reader: &str, effort: &Value) -> Self {
        Self {
            scene: scene.name.clone(),
            reader: reader.to_owned(),
            events: number(&effort["events"]),
            cpu_secs: number(&effort["cpu_secs"]),
            wall_secs: number(&effort["wall_secs"]),
            peak_bytes: number(&effort["peak_bytes"]),
            send_secs: number(&effort["send_secs"]),
            sends: scene.streams as f64,
            error: None,
            spread: (f64::NAN, f64::NAN),
        }
    }

    pub(crate) fn client(
        scene: &Scene,
        reads: &str,
        end: &Value,
        folder: &Path,
        log: &Path,
    ) -> Result<Self> {
        let timelines: Vec<Timeline> = RunReader::open(folder)?.timelines()?.collect();
        let emitted: Vec<Emission> = truth::read(log)?.iter().filter_map(emission).collect();
        let is_paced = scene.kind == Kind::Paced;
        let error = is_paced.then(|| instrument::error(&timelines, &emitted));
        let mut sends: Vec<u64> =
            timelines.iter().filter_map(|one| Some(one.times.first_byte_sent?.0)).collect();
        sends.sort_unstable();
        sends.truncate(scene.streams);
        let send_nanos = sends.last().zip(sends.first()).map_or(0, |(last, first)| last - first);
        let wall = number(&end["measure_end"]) - number(&end["measure_begin"]);
        Ok(Self {
            scene: scene.name.clone(),
            reader: format!("tokometer, {reads}"),
            events: timelines.iter().map(|timeline| timeline.events.len() as f64).sum(),
            cpu_secs: number(&end["health"]["cpu_time"]) / 1e9,
            wall_secs: wall / 1e9,
            peak_bytes: number(&end["health"]["peak_memory_bytes"]),
            send_secs: send_nanos as f64 / 1e9,
            sends: sends.len() as f64,
            error,
            spread: (f64::NAN, f64::NAN),
        })
    }

    /// The same row with what the whole program took.
    pub(crate) fn weighing(self, Weight { cpu_secs, peak_bytes }: Weight) -> Self {
        Self { cpu_secs, peak_bytes: peak_bytes as f64, ..self }
    }

    fn send_micros(&self) -> f64 {
        self.send_secs / self.sends * 1e6
    }

    fn cpu_per_million(&self) -> f64 {
        self.cpu_secs / self.events * 1e6
    }
}

/// Prints all lines as a Markdown table, each with its ratio to the cheapest floor of its scene.
#[expect(clippy::print_stdout, reason = "the table is the result")]
pub(crate) fn print(lines: &[TableRow]) {
    println!(
        "| scene | reader | CPU s per M events (range) | ratio to floor | events/s | peak MiB | sent within ms (µs each) | TTFT error mean / p99 µs | gap error p99 µs | marked |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for line in lines {
        let floors = lines
            .iter()
            .filter(|other| other.scene == line.scene && other.reader.starts_with("floor"));
        let floor = floors.map(TableRow::cpu_per_million).fold(f64::INFINITY, f64::min);
        let error = line.error.as_ref().map_or_else(
            || "– | – | –".to_owned(),
            |error| {
                format!(
                    "{:.1} / {:.1} | {:.1} | {:.2} %",
                    error.ttft.mean.unwrap_or(f64::NAN) / 1e3,
                    error.ttft.p99.unwrap_or(f64::NAN) / 1e3,
                    error.gap.p99.unwrap_or(f64::NAN) / 1e3,
                    error.marked_share.unwrap_or(f64::NAN) * 100.0,
                )
            },
        );
        println!(
            "| {} | {} | {:.3} ({:.3} to {:.3}) | {:.2} | {:.0} | {:.1} | {:.1} ({:.1}) | {error} |",
            line.scene,
            line.reader,
            line.cpu_per_million(),
            line.spread.0,
            line.spread.1,
            line.cpu_per_million() / floor,
            line.events / line.wall_secs,
            line.peak_bytes / f64::from(1 << 20),
            line.send_secs * 1e3,
            line.send_micros(),
        );
    }
}
