//! What the server's own metrics say.
//!
//! In: Prometheus text or [`Scrape`]s of it, of one or several replicas. Out: gauges and counters
//! under one name each, whatever the engine calls them (`ENGINES`), and their change over the
//! measured phase. A name that an engine does not have stays `None`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokometer_base::Nanos;
use tokometer_record::server::Scrape;

use crate::rows::Part;

/// One engine's names. Of several names for one thing the first present one is read.
struct Engine {
    name: &'static str,
    prefix: &'static str,
    running: &'static [&'static str],
    waiting: &'static [&'static str],
    kv_use: &'static [&'static str],
    preemptions: &'static [&'static str],
    prompt_tokens: &'static [&'static str],
    /// Prompt tokens that the counter above leaves out.
    uncounted_prompt_tokens: &'static [&'static str],
    generation_tokens: &'static [&'static str],
    finished: &'static [&'static str],
    prefix_queries: &'static [&'static str],
    prefix_hits: &'static [&'static str],
    ttft_sum: &'static [&'static str],
    ttft_count: &'static [&'static str],
    drafts: &'static [&'static str],
    draft_tokens: &'static [&'static str],
    accepted_tokens: &'static [&'static str],
    accepted_per_position: &'static [&'static str],
}

const ENGINES: [Engine; 4] = [
    Engine {
        name: "vllm",
        prefix: "vllm:",
        running: &["vllm:num_requests_running"],
        waiting: &["vllm:num_requests_waiting"],
        kv_use: &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
        preemptions: &["vllm:num_preemptions_total"],
        prompt_tokens: &["vllm:prompt_tokens_total"],
        uncounted_prompt_tokens: &[],
        generation_tokens: &["vllm:generation_tokens_total"],
        finished: &["vllm:request_success_total"],
        prefix_queries: &["vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"],
        prefix_hits: &["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"],
        ttft_sum: &["vllm:time_to_first_token_seconds_sum"],
        ttft_count: &["vllm:time_to_first_token_seconds_count"],
        drafts: &["vllm:spec_decode_num_drafts_total"],
        draft_tokens: &["vllm:spec_decode_num_draft_tokens_total"],
        accepted_tokens: &["vllm:spec_decode_num_accepted_tokens_total"],
        accepted_per_position: &["vllm:spec_decode_num_accepted_tokens_per_pos_total"],
    },
    Engine {
        name: "sglang",
        prefix: "sglang:",
        running: &["sglang:num_running_reqs"],
        waiting: &["sglang:num_queue_reqs"],
        kv_use: &["sglang:token_usage"],
        preemptions: &["sglang:num_retracted_reqs_total"],
        prompt_tokens: &["sglang:prompt_tokens_total"],
        uncounted_prompt_tokens: &[],
        generation_tokens: &["sglang:generation_tokens_total"],
        finished: &["sglang:num_requests_total"],
        prefix_queries: &["sglang:prompt_tokens_total"],
        prefix_hits: &["sglang:cached_tokens_total"],
        ttft_sum: &["sglang:time_to_first_token_seconds_sum"],
        ttft_count: &["sglang:time_to_first_token_seconds_count"],
        drafts: &[],
        draft_tokens: &[],
        accepted_tokens: &[],
        accepted_per_position: &[],
    },
    Engine {
        name: "tgi",
        prefix: "tgi_",
        running: &["tgi_batch_current_size"],
        waiting: &["tgi_queue_size"],
        kv_use: &[],
        preemptions: &[],
        prompt_tokens: &["tgi_request_input_length_sum"],
        uncounted_prompt_tokens: &[],
        generation_tokens: &["tgi_request_generated_tokens_sum"],
        finished: &["tgi_request_success"],
        prefix_queries: &[],
        prefix_hits: &[],
        ttft_sum: &[],
        ttft_count: &[],
        drafts: &[],
        draft_tokens: &[],
        accepted_tokens: &[],
        accepted_per_position: &[],
    },
    Engine {
        name: "llamacpp",
        prefix: "llamacpp:",
        running: &["llamacpp:requests_processing"],
        waiting: &["llamacpp:requests_deferred"],
        kv_use: &["llamacpp:kv_cache_usage_ratio"],
        preemptions: &[],
        prompt_tokens: &["llamacpp:prompt_tokens_total"],
        uncounted_prompt_tokens: &["llamacpp:prompt_tokens_cached_total"],
        generation_tokens: &["llamacpp:tokens_predicted_total"],
        finished: &[],
        prefix_queries: &[],
        prefix_hits: &["llamacpp:prompt_tokens_cached_total"],
        ttft_sum: &[],
        ttft_count: &[],
        drafts: &["llamacpp:spec_decode_num_drafts_total"],
        draft_tokens: &["llamacpp:spec_decode_num_draft_tokens_total"],
        accepted_tokens: &["llamacpp:spec_decode_num_accepted_tokens_total"],
        accepted_per_position: &[],
    },
];

/// Changes of the server's counters over the measured phase, and peaks of its gauges, summed over
/// replicas.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Engine whose names were recognised: `vllm`, `sglang`, `tgi`, `llamacpp`.
    pub engine: Option<String>,
    /// Scrapes that succeeded.
    pub scrapes: u64,
    /// Scrapes that failed.
    pub failed_scrapes: u64,
    /// Most requests running at once.
    pub running_max: Option<f64>,
    /// Most requests waiting at once.
    pub waiting_max: Option<f64>,
    /// Most requests running and waiting at once.
    pub present_max: Option<f64>,
    /// Largest share of the KV cache in use, from 0 to 1.
    pub kv_use_max: Option<f64>,
    /// Preemptions.
    pub preemptions: Option<f64>,
    /// Prompt tokens read.
    pub prompt_tokens: Option<f64>,
    /// Tokens written.
    pub generation_tokens: Option<f64>,
    /// Requests finished.
    pub finished_requests: Option<f64>,
    /// Share of prompt tokens found in the prefix cache, from 0 to 1.
    pub prefix_hit_share: Option<f64>,
    /// The server's own mean time to first token in milliseconds.
    pub ttft_ms_mean: Option<f64>,
    /// Speculative decoding, where the server drafts.
    pub speculation: Option<Speculation>,
}

/// Speculative decoding over the measured phase.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Speculation {
    /// Drafts made.
    pub drafts: f64,
    /// Tokens drafted.
    pub draft_tokens: f64,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: f64,
    /// Accepted share of drafted tokens in percent.
    pub acceptance_rate_percent: f64,
    /// Tokens per step: one plus accepted tokens per draft.
    pub acceptance_length: f64,
    /// Share of drafts whose token at this place was accepted, from the first place on.
    pub per_position: Vec<f64>,
}

/// Values of one scrape under one name each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// When it arrived.
    pub at: Nanos,
    /// Which endpoint.
    pub endpoint: u16,
    /// The engine whose names were found.
    pub engine: &'static str,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use.
    pub kv_use: Option<f64>,
    counters: Counters,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Counters {
    preemptions: Option<f64>,
    prompt_tokens: Option<f64>,
    generation_tokens: Option<f64>,
    finished: Option<f64>,
    prefix_queries: Option<f64>,
    prefix_hits: Option<f64>,
    ttft_sum: Option<f64>,
    ttft_count: Option<f64>,
    drafts: Option<f64>,
    draft_tokens: Option<f64>,
    accepted_tokens: Option<f64>,
    per_position: BTreeMap<u32, f64>,
}

/// Reads Prometheus text into name (with labels as printed) and value. Comments and lines that
/// cannot be read are passed over; only metrics of known engines are kept, and of histograms only
/// sums and counts, so that a scrape per second stays small on disk.
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    text.lines().filter_map(parse_line).filter(|(name, _)| is_kept(name)).collect()
}

fn is_kept(name: &str) -> bool {
    let bare = bare_name(name);
    let is_known = ENGINES.iter().any(|engine| bare.starts_with(engine.prefix));
    is_known && !bare.ends_with("_created") && !bare.ends_with("_bucket")
}

fn bare_name(name: &str) -> &str {
    name.split('{').next().unwrap_or(name)
}

fn parse_line(line: &str) -> Option<(String, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    // A label may hold blanks and braces; its closing brace is the last one of the line.
    let (name, rest) = match line.rfind('}') {
        Some(brace) => line.split_at(brace + 1),
        None => line.split_at(line.find(char::is_whitespace)?),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.trim().to_owned(), value))
}

/// The values of a scrape under one name each. `None` for a failed one or an unknown engine.
pub fn read(scrape: &Scrape) -> Option<Reading> {
    let has = |engine: &&Engine| scrape.values.keys().any(|name| name.starts_with(engine.prefix));
    let engine = ENGINES.iter().find(has)?;
    let labelled = |wanted: &'static str| {
        let from = scrape.values.range(wanted.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(wanted))
            .filter(move |(name, _)| bare_name(name) == wanted)
    };
    let sum = |names: &[&'static str]| {
        names.iter().find_map(|name| {
            let mut values = labelled(name).map(|(_, value)| *value).peekable();
            values.peek().is_some().then(|| values.sum::<f64>())
        })
    };
    let mut per_position = BTreeMap::new();
    for (name, value) in engine.accepted_per_position.iter().flat_map(|name| labelled(name)) {
        if let Some(position) = position(name) {
            *per_position.entry(position).or_default() += value;
        }
    }
    let uncounted = sum(engine.uncounted_prompt_tokens).unwrap_or(0.0);
    let prompt_tokens = sum(engine.prompt_tokens).map(|tokens| tokens + uncounted);
    let has_hits = !engine.prefix_hits.is_empty();
    let counters = Counters {
        preemptions: sum(engine.preemptions),
        prompt_tokens,
        generation_tokens: sum(engine.generation_tokens),
        finished: sum(engine.finished),
        prefix_queries: sum(engine.prefix_queries).or(prompt_tokens.filter(|_| has_hits)),
        prefix_hits: sum(engine.prefix_hits),
        ttft_sum: sum(engine.ttft_sum),
        ttft_count: sum(engine.ttft_count),
        drafts: sum(engine.drafts),
        draft_tokens: sum(engine.draft_tokens),
        accepted_tokens: sum(engine.accepted_tokens),
        per_position,
    };
    Some(Reading {
        at: scrape.at,
        endpoint: scrape.endpoint,
        engine: engine.name,
        running: sum(engine.running),
        waiting: sum(engine.waiting),
        kv_use: sum(engine.kv_use),
        counters,
    })
}

fn position(name: &str) -> Option<u32> {
    let (_, rest) = name.split_once("position=\"")?;
    rest.split('"').next()?.parse().ok()
}

/// All readings of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scrapes {
    readings: Vec<Reading>,
    failed: u64,
}

impl Scrapes {
    pub(crate) fn push(&mut self, scrape: &Scrape) {
        match read(scrape) {
            Some(reading) => self.readings.push(reading),
            None => self.failed += 1,
        }
    }

    /// Figures over `span`, the measured phase. `None` when nothing was scraped.
    pub(crate) fn figures(mut self, span: Option<Part>) -> Option<ServerFigures> {
        if self.readings.is_empty() && self.failed == 0 {
            return None;
        }
        self.readings.sort_by_key(|reading| reading.at);
        let mut endpoints: BTreeMap<u16, Vec<&Reading>> = BTreeMap::new();
        for reading in &self.readings {
            endpoints.entry(reading.endpoint).or_default().push(reading);
        }
        let changes: Vec<Counters> =
            endpoints.values().map(|readings| change_over(readings, span)).collect();
        let total = changes
            .into_iter()
            .reduce(|one, other| combined(&one, &other, |a, b| a + b))
            .unwrap_or_default();
        let peak = |value: fn(&Reading) -> Option<f64>| peak_sum(&endpoints, value);
        let present = |reading: &Reading| Some(reading.running? + reading.waiting.unwrap_or(0.0));
        let ratio = |above: Option<f64>, below: Option<f64>| {
            above.zip(below).filter(|(_, below)| *below > 0.0).map(|(above, below)| above / below)
        };
        let kv = self.readings.iter().filter_map(|reading| reading.kv_use).max_by(f64::total_cmp);
        Some(ServerFigures {
            engine: self.readings.first().map(|reading| reading.engine.to_owned()),
            scrapes: self.readings.len() as u64,
            failed_scrapes: self.failed,
            running_max: peak(|reading| reading.running),
            waiting_max: peak(|reading| reading.waiting),
            present_max: peak(present),
            kv_use_max: kv,
            preemptions: total.preemptions,
            prompt_tokens: total.prompt_tokens,
            generation_tokens: total.generation_tokens,
            finished_requests: total.finished,
            prefix_hit_share: ratio(total.prefix_hits, total.prefix_queries),
            ttft_ms_mean: ratio(total.ttft_sum, total.ttft_count).map(|seconds| seconds * 1e3),
            speculation: speculation(&total),
        })
    }
}

/// Sum over replicas of each one's peak: their scrapes are not simultaneous, so this is an upper
/// bound of the peak of the sum.
fn peak_sum(
    endpoints: &BTreeMap<u16, Vec<&Reading>>,
    value: fn(&Reading) -> Option<f64>,
) -> Option<f64> {
    let peaks = endpoints.values().filter_map(|readings| {
        readings.iter().filter_map(|reading| value(reading)).max_by(f64::total_cmp)
    });
    peaks.reduce(|sum, peak| sum + peak)
}

/// From the last reading before the measured phase, or the first there is, to the first after it, or
/// the last: counters of a few requests may be late, never early.
fn change_over(readings: &[&Reading], span: Option<Part>) -> Counters {
    let before = span.and_then(|span| readings.iter().rev().find(|r| r.at <= span.begin));
    let after = span.and_then(|span| readings.iter().find(|r| r.at >= span.end));
    let (Some(first), Some(last)) = (before.or(readings.first()), after.or(readings.last())) else {
        return Counters::default();
    };
    combined(&last.counters, &first.counters, |last, first| {
        // A counter that fell was reset by a restart: what it shows now came after that.
        if last >= first { last - first } else { last }
    })
}

fn combined(a: &Counters, b: &Counters, join: fn(f64, f64) -> f64) -> Counters {
    let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| join(a, b));
    let positions = a.per_position.keys().chain(b.per_position.keys());
    let at = |counters: &Counters, position: &u32| {
        counters.per_position.get(position).copied().unwrap_or(0.0)
    };
    Counters {
        preemptions: both(a.preemptions, b.preemptions),
        prompt_tokens: both(a.prompt_tokens, b.prompt_tokens),
        generation_tokens: both(a.generation_tokens, b.generation_tokens),
        finished: both(a.finished, b.finished),
        prefix_queries: both(a.prefix_queries, b.prefix_queries),
        prefix_hits: both(a.prefix_hits, b.prefix_hits),
        ttft_sum: both(a.ttft_sum, b.ttft_sum),
        ttft_count: both(a.ttft_count, b.ttft_count),
        drafts: both(a.drafts, b.drafts),
        draft_tokens: both(a.draft_tokens, b.draft_tokens),
        accepted_tokens: both(a.accepted_tokens, b.accepted_tokens),
        per_position: positions.map(|p| (*p, join(at(a, p), at(b, p)))).collect(),
    }
}

fn speculation(change: &Counters) -> Option<Speculation> {
    let draft_tokens = change.draft_tokens.filter(|tokens| *tokens > 0.0)?;
    let (drafts, accepted) = (change.drafts?, change.accepted_tokens?);
    let per_draft = |amount: f64| if drafts > 0.0 { amount / drafts } else { 0.0 };
    Some(Speculation {
        drafts,
        draft_tokens,
        accepted_tokens: accepted,
        acceptance_rate_percent: accepted / draft_tokens * 100.0,
        acceptance_length: 1.0 + per_draft(accepted),
        per_position: change.per_position.values().map(|accepted| per_draft(*accepted)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(at: u64, endpoint: u16, text: &str) -> Scrape {
        Scrape { at: Nanos::from_secs(at), endpoint, values: parse(text), error: None }
    }

    fn over(scrapes: &[Scrape]) -> ServerFigures {
        let mut all = Scrapes::default();
        for scrape in scrapes {
            all.push(scrape);
        }
        let span = Part { begin: Nanos::from_secs(1), end: Nanos::from_secs(9) };
        all.figures(Some(span)).unwrap()
    }

    #[test]
    fn lines_with_labels_times_and_odd_characters_are_read() {
        let check = |line: &str, expected: Option<(&str, f64)>| {
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!(parse_line(line), expected, "{line}");
        };
        check("# HELP vllm:x of y", None);
        check("", None);
        check("vllm:x 3", Some(("vllm:x", 3.0)));
        check("vllm:x{a=\"b c}\"} 1.5e3 1700000", Some(("vllm:x{a=\"b c}\"}", 1_500.0)));
        check("vllm:x{a=\"b\"} NotANumber", None);
        check("nothing", None);
    }

    #[test]
    fn only_sums_and_counts_of_known_engines_are_kept() {
        let text = "process_cpu_seconds_total 3\nvllm:a_created 1\nvllm:a_bucket{le=\"1\"} 2\n\
                    vllm:a_sum 4\nllamacpp:b 5\n";
        let kept = parse(text);
        let names: Vec<_> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["llamacpp:b", "vllm:a_sum"]);
    }

    #[test]
    fn counters_are_differences_over_the_measured_phase_and_gauges_are_peaks() {
        let text = |running: u32, tokens: u32, hits: u32| {
            format!(
                "vllm:num_requests_running{{engine=\"0\"}} {running}\n\
                 vllm:num_requests_waiting{{engine=\"0\"}} 2\n\
                 vllm:generation_tokens_total{{engine=\"0\"}} {tokens}\n\
                 vllm:generation_tokens_total{{engine=\"1\"}} 10\n\
                 vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total {hits}\n"
            )
        };
        let found = over(&[
            scrape(0, 0, &text(0, 5, 0)),
            scrape(1, 0, &text(3, 105, 0)),
            scrape(5, 0, &text(7, 600, 0)),
            scrape(9, 0, &text(1, 1_105, 0)),
            scrape(12, 0, &text(9, 9_999, 0)),
        ]);
        assert_eq!(found.engine.as_deref(), Some("vllm"));
        assert_eq!(found.generation_tokens, Some(1_000.0));
        assert_eq!((found.running_max, found.present_max), (Some(9.0), Some(11.0)));
        assert_eq!(found.prefix_hit_share, None, "nothing was queried");
        assert_eq!(found.preemptions, None, "never told is not none");
    }

    #[test]
    fn replicas_add_up_and_a_restart_counts_from_zero() {
        let text = |tokens: u32| format!("sglang:generation_tokens_total {tokens}\n");
        let found = over(&[
            scrape(0, 0, &text(100)),
            scrape(0, 1, &text(500)),
            scrape(10, 0, &text(150)),
            scrape(10, 1, &text(30)),
        ]);
        assert_eq!(found.generation_tokens, Some(80.0));
    }

    #[test]
    fn speculation_follows_its_counters() {
        let text = |drafts: u32, drafted: u32, accepted: u32, first: u32| {
            format!(
                "vllm:spec_decode_num_drafts_total {drafts}\n\
                 vllm:spec_decode_num_draft_tokens_total {drafted}\n\
                 vllm:spec_decode_num_accepted_tokens_total {accepted}\n\
                 vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"0\"}} {first}\n\
                 vllm:spec_decode_num_accepted_tokens_per_pos_total{{position=\"1\"}} 0\n"
            )
        };
        let found =
            over(&[scrape(0, 0, &text(0, 0, 0, 0)), scrape(10, 0, &text(100, 200, 80, 60))]);
        let found = found.speculation.unwrap();
        assert!((found.acceptance_rate_percent - 40.0).abs() < 1e-9);
        assert!((found.acceptance_length - 1.8).abs() < 1e-9);
        assert_eq!(found.per_position, [0.6, 0.0]);
    }

    #[test]
    fn llama_cpp_counts_cached_prompt_tokens_apart() {
        let text = |read: u32, cached: u32| {
            format!(
                "llamacpp:prompt_tokens_total {read}\nllamacpp:prompt_tokens_cached_total {cached}\n"
            )
        };
        let found = over(&[scrape(0, 0, &text(0, 0)), scrape(10, 0, &text(30, 10))]);
        assert_eq!(found.prompt_tokens, Some(40.0));
        assert_eq!(found.prefix_hit_share, Some(0.25));
    }

    #[test]
    fn captured_pages_of_real_servers_are_read() {
        let check = |page: &str, engine: &str, prompt: f64, generated: f64| {
            let found = read(&scrape(0, 0, page)).unwrap();
            assert_eq!(
                (found.engine, found.running, found.waiting),
                (engine, Some(0.0), Some(0.0))
            );
            assert_eq!(found.counters.prompt_tokens, Some(prompt));
            assert_eq!(found.counters.generation_tokens, Some(generated));
        };
        let vllm = include_str!("../../../fixtures/captures/vllm-metrics.raw");
        check(vllm, "vllm", 147.0, 64.0);
        check(
            include_str!("../../../fixtures/captures/llamacpp-metrics.raw"),
            "llamacpp",
            43.0,
            44.0,
        );
        let values = parse(vllm);
        assert!(values.len() < 150, "{} values are too many to keep each second", values.len());
    }

    #[test]
    fn a_failed_scrape_is_counted_and_nothing_more() {
        let failed = Scrape {
            at: Nanos::ZERO,
            endpoint: 0,
            values: BTreeMap::new(),
            error: Some("refused".into()),
        };
        let found = over(&[failed]);
        assert_eq!((found.scrapes, found.failed_scrapes, found.engine), (0, 1, None));
    }
}
