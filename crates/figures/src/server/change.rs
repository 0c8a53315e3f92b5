//! Computes changes over the measured phase from scrapes.

use std::collections::{BTreeMap, BTreeSet};

use tokometer_record::server::{SERVER_INFO_ACCEPT_LENGTH, Scrape};

use super::buckets::Buckets;
use super::engines::{Histogram, Metric};
use super::gpu::{self, GpuReading};
use super::{ServerFigures, ServerReading, Speculation, read};
use crate::rows::TimeSpan;

fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    above.zip(below).filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below)
}

type Values = BTreeMap<Metric, f64>;

type Endpoints<'a> = BTreeMap<u16, Vec<&'a ServerReading>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct Scrapes {
    readings: Vec<ServerReading>,
    devices: BTreeMap<u16, Vec<GpuReading>>,
    failed: u64,
    failing: BTreeSet<u16>,
    reported_accept_length: Option<f64>,
}

impl Scrapes {
    pub(crate) fn push(&mut self, scrape: &Scrape) {
        if let Some(length) = scrape.values.get(SERVER_INFO_ACCEPT_LENGTH) {
            self.reported_accept_length = Some(*length);
            return;
        }
        let (engine, devices) = (read(scrape), gpu::read(scrape));
        if engine.is_none() && devices.is_none() {
            self.failed += 1;
            self.failing.insert(scrape.endpoint);
        }
        self.readings.extend(engine);
        if let Some(devices) = devices {
            self.devices.entry(scrape.endpoint).or_default().push(devices);
        }
    }

    fn is_empty(&self) -> bool {
        self.readings.is_empty()
            && self.devices.is_empty()
            && self.failed == 0
            && self.reported_accept_length.is_none()
    }

    fn by_endpoint(&self) -> Endpoints<'_> {
        let mut endpoints = Endpoints::new();
        for reading in &self.readings {
            endpoints.entry(reading.endpoint).or_default().push(reading);
        }
        endpoints
    }

    /// Figures over `span`, the measured phase. `None` when nothing was scraped.
    pub(crate) fn figures(mut self, span: Option<TimeSpan>) -> Option<ServerFigures> {
        if self.is_empty() {
            return None;
        }
        self.readings.sort_by_key(|reading| reading.at);
        let endpoints = self.by_endpoint();
        let found: Vec<Ends<'_>> =
            endpoints.values().filter_map(|readings| ends(readings, span)).collect();
        let total = total_change(&found);
        let count = |counter: Metric| total.get(&counter).copied();
        let mean_ms = |of: Histogram| {
            let mean = ratio(count(Metric::Sum(of)), count(Metric::Count(of)));
            mean.map(|seconds| seconds * 1e3)
        };
        let is_read = |endpoint: &u16| {
            endpoints.contains_key(endpoint) || self.devices.contains_key(endpoint)
        };
        let is_whole = !found.is_empty()
            && found.iter().all(|ends| ends.is_whole)
            && self.failing.iter().all(is_read);
        let ttft = endpoints
            .values()
            .map(|readings| ttft_change(readings))
            .reduce(|one, other| one?.joined(&other?, |a, b| a + b))
            .flatten();
        let quantile = |share: f64| ttft.as_ref().and_then(|buckets| buckets.quantile(share));
        let during = within(&endpoints, span);
        let peak = |value: fn(&ServerReading) -> Option<f64>| peak_sum(&during, value);
        let present =
            |reading: &ServerReading| Some(reading.running? + reading.waiting.unwrap_or(0.0));
        let kv = during.values().flatten().filter_map(|reading| reading.kv_use);
        let devices: Vec<Vec<GpuReading>> = self.devices.values().cloned().collect();
        let mut ignored = Vec::new();
        let gpu = gpu::figures(&devices, span, &mut ignored);
        let mut figures = ServerFigures {
            engine: self.readings.first().map(|reading| reading.engine.to_owned()),
            scrapes: (self.readings.len() + devices.iter().map(Vec::len).sum::<usize>()) as u64,
            failed_scrapes: self.failed,
            running_max: peak(|reading| reading.running),
            waiting_max: peak(|reading| reading.waiting),
            present_max: peak(present),
            kv_use_max: kv.max_by(f64::total_cmp),
            preemptions: count(Metric::Preemptions),
            prompt_tokens: count(Metric::PromptTokens),
            generation_tokens: count(Metric::GenerationTokens),
            finished_requests: count(Metric::Finished),
            aborted_requests: count(Metric::Aborted),
            prefix_hit_share: ratio(count(Metric::PrefixHits), count(Metric::PrefixQueries)),
            is_whole,
            ttft_ms_mean: mean_ms(Histogram::Ttft),
            ttft_p50: quantile(0.5),
            ttft_p99: quantile(0.99),
            e2e_ms_mean: mean_ms(Histogram::E2e),
            e2e_requests: count(Metric::Count(Histogram::E2e)),
            queue_ms_mean: mean_ms(Histogram::Queue),
            prefill_ms_mean: mean_ms(Histogram::Prefill),
            accept_length: accept_length(&self.readings),
            reported_accept_length: self.reported_accept_length,
            gpu,
            speculation: speculation(&total),
            ignored,
        };
        figures.ignore_impossible();
        Some(figures)
    }
}

/// No request waits this long: a day, in milliseconds.
const LONGEST_MS: f64 = 86_400_000.0;

impl ServerFigures {
    fn ignore_impossible(&mut self) {
        let ignored = &mut self.ignored;
        let mut check = |name: &str, value: &mut Option<f64>, most: f64, unit: (f64, &str)| {
            if let Some(odd) = value.take_if(|value| !(0.0..=most).contains(value)) {
                ignored.push(format!("{name} of {:.3e} {}", odd * unit.0, unit.1));
            }
        };
        check("prefix hits", &mut self.prefix_hit_share, 1.0, (100.0, "%"));
        check("mean queue time", &mut self.queue_ms_mean, LONGEST_MS, (1.0, "ms"));
        check("mean prefill time", &mut self.prefill_ms_mean, LONGEST_MS, (1.0, "ms"));
        check("mean first-token time", &mut self.ttft_ms_mean, LONGEST_MS, (1.0, "ms"));
        check("mean E2E", &mut self.e2e_ms_mean, LONGEST_MS, (1.0, "ms"));
    }
}

fn total_change(found: &[Ends<'_>]) -> Values {
    found
        .iter()
        .map(|ends| combined(&ends.last.values, &ends.first.values, change))
        .reduce(|one, other| combined(&one, &other, |a, b| a + b))
        .unwrap_or_default()
}

/// The readings during `span`. A gauge that was scraped only before and after the run would show an idle
/// server.
fn within<'a>(endpoints: &Endpoints<'a>, span: Option<TimeSpan>) -> Endpoints<'a> {
    let is_during = |reading: &ServerReading| {
        span.is_none_or(|span| (span.begin..=span.end).contains(&reading.at))
    };
    let mut during = endpoints.clone();
    for readings in during.values_mut() {
        readings.retain(|reading| is_during(reading));
    }
    during
}

fn accept_length(readings: &[ServerReading]) -> Option<f64> {
    let lengths = readings.iter().filter_map(|reading| reading.values.get(&Metric::AcceptLength));
    let lengths: Vec<f64> = lengths.copied().filter(|length| *length > 0.0).collect();
    crate::statistics::mean(&lengths)
}

/// Sum over replicas of each one's peak: their scrapes are not simultaneous, so this is an upper
/// bound of the peak of the sum.
fn peak_sum(endpoints: &Endpoints<'_>, value: fn(&ServerReading) -> Option<f64>) -> Option<f64> {
    let peaks = endpoints.values().filter_map(|readings| {
        readings.iter().filter_map(|reading| value(reading)).max_by(f64::total_cmp)
    });
    peaks.reduce(|sum, peak| sum + peak)
}

/// The last scrape before the measured phase, or the first of all; and the first after it, or the
/// last of all. A counter may lag behind by a few requests, but never runs ahead.
struct Ends<'a> {
    first: &'a ServerReading,
    last: &'a ServerReading,
    is_whole: bool,
}

fn ends<'a>(readings: &[&'a ServerReading], span: Option<TimeSpan>) -> Option<Ends<'a>> {
    let before = span.and_then(|span| readings.iter().rev().find(|r| r.at <= span.begin));
    let after = span.and_then(|span| readings.iter().find(|r| r.at >= span.end));
    let (first, last) = (before.or(readings.first())?, after.or(readings.last())?);
    let tokens = |reading: &ServerReading| reading.values.get(&Metric::GenerationTokens).copied();
    let fell = readings.windows(2).any(|pair| tokens(pair[1]) < tokens(pair[0]));
    Some(Ends { first, last, is_whole: before.is_some() && after.is_some() && !fell })
}

fn change(last: f64, first: f64) -> f64 {
    // A counter that decreased was reset by a restart: its current value counts from there.
    if last >= first { last - first } else { last }
}

/// The TTFT histogram of the time between the first and the last scrape that have one.
fn ttft_change(readings: &[&ServerReading]) -> Option<Buckets> {
    let mut held = readings.iter().filter(|reading| !reading.ttft.is_empty());
    let (first, last) = (held.next()?, held.next_back()?);
    last.ttft.joined(&first.ttft, change)
}

/// Values that both have. A position of drafts that one of them does not have was never reached.
fn combined(a: &Values, b: &Values, join: fn(f64, f64) -> f64) -> Values {
    let value = |of: &Values, counter: &Metric| match counter {
        Metric::AcceptedAt(_) => Some(of.get(counter).copied().unwrap_or(0.0)),
        _ => of.get(counter).copied(),
    };
    let both = |counter: &Metric| Some((*counter, join(value(a, counter)?, value(b, counter)?)));
    a.keys().chain(b.keys()).filter_map(both).collect()
}

fn speculation(change: &Values) -> Option<Speculation> {
    let count = |counter: Metric| change.get(&counter).copied();
    let draft_tokens = count(Metric::DraftTokens).filter(|tokens| *tokens > 0.0)?;
    let (drafts, accepted) = (count(Metric::Drafts)?, count(Metric::AcceptedTokens)?);
    let per_draft = |amount: f64| if drafts > 0.0 { amount / drafts } else { 0.0 };
    let at_each = change.range(Metric::AcceptedAt(0)..=Metric::AcceptedAt(u32::MAX));
    Some(Speculation {
        drafts,
        draft_tokens,
        accepted_tokens: accepted,
        acceptance_rate_percent: accepted / draft_tokens * 100.0,
        acceptance_length: 1.0 + per_draft(accepted),
        per_position: at_each.map(|(_, accepted)| per_draft(*accepted)).collect(),
    })
}
