//! The steady-state window of vLLM's Rust client.
//!
//! From the first time at which enough requests are in flight to the last time; dips in between are
//! included. Only for a closed loop: a limit on requests in flight and an infinite rate.

use tokometer_base::Nanos;
use tokometer_record::RecordedLoad;

use super::aggregate::ToolRow;
use tokometer_figures::family::SteadyWindow;
use tokometer_figures::rows::changes;
use tokometer_figures::sample::Sample;
use tokometer_figures::ticks::Ticks;

/// Share of the limit that counts as full load.
const THRESHOLD: f64 = 0.95;
/// A window shorter than this, or than a tenth of the run, is marked as short.
const SHORT_WINDOW_S: f64 = 10.0;

struct Crossing {
    begin: Nanos,
    end: Nanos,
    peak: u64,
}

fn crossing(rows: &[&ToolRow], threshold: u64) -> Option<Crossing> {
    let (mut in_flight, mut peak) = (0_i64, 0_i64);
    let (mut begin, mut end) = (None, None);
    let threshold = i64::try_from(threshold).unwrap_or(i64::MAX);
    for (at, step) in changes(rows.iter().map(|row| (row.start, row.end()))) {
        let was_full = in_flight >= threshold;
        in_flight += step;
        peak = peak.max(in_flight);
        let is_full = in_flight >= threshold;
        if is_full && begin.is_none() {
            begin = Some(at);
        }
        if was_full && !is_full {
            end = Some(at);
        }
    }
    let peak = u64::try_from(peak).unwrap_or(0);
    begin.zip(end).map(|(begin, end)| Crossing { begin, end, peak })
}

/// The window and its figures. `None` outside a closed loop, or where full load was never reached.
pub(super) fn window(
    load: &RecordedLoad,
    rows: &[&ToolRow],
    chunks: &Ticks,
    percentiles: &[f64],
) -> Option<SteadyWindow> {
    let cap =
        load.max_concurrency.filter(|_| load.request_rate.is_none() && load.stages.is_empty())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the cap")]
    let threshold = ((THRESHOLD * f64::from(cap)).ceil() as u32).max(1);
    let Crossing { begin, end, peak } = crossing(rows, u64::from(threshold))?;
    let first = rows.iter().map(|row| row.start).min()?;
    let last = rows.iter().map(|row| row.end()).max()?;
    let length = (end - begin).as_secs_f64();
    if length <= 0.0 {
        return None;
    }
    let is_inside = |at: Nanos| begin <= at && at < end;
    let started: Vec<&&ToolRow> = rows.iter().filter(|row| is_inside(row.start)).collect();
    let completed = rows.iter().filter(|row| is_inside(row.end())).count() as u64;
    let mut chunk_count = 0;
    chunks.for_each(|at, count| chunk_count += if is_inside(at) { count } else { 0 });
    let prompt_tokens: u64 = started.iter().map(|row| u64::from(row.input_tokens)).sum();
    let stats = |values: Sample, percentiles: &[f64]| values.into_ordered().stats(percentiles, 1e6);
    let (output, input) = (chunk_count as f64 / length, prompt_tokens as f64 / length);
    Some(SteadyWindow {
        threshold: THRESHOLD,
        max_concurrency: cap,
        threshold_requests: threshold,
        begin_s: (begin - first).as_secs_f64(),
        end_s: (end - first).as_secs_f64(),
        is_short: length < SHORT_WINDOW_S.max((last - first).as_secs_f64() / 10.0),
        observed_peak: peak,
        started: started.len() as u64,
        total: rows.len() as u64,
        completed,
        request_throughput: completed as f64 / length,
        output_throughput: output,
        input_throughput: input,
        total_throughput: output + input,
        ttft: stats(started.iter().map(|row| row.ttft.0 as f64).collect(), percentiles),
        tpot: stats(started.iter().filter_map(|row| row.tpot()).collect(), &[90.0, 99.0]),
    })
}
