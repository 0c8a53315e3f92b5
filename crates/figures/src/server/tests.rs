//! Figures from pages of several engines: complete, truncated and invalid.

use super::*;
use crate::rows::TimeSpan;

fn scrape(at: u64, endpoint: u16, text: &str) -> Scrape {
    Scrape {
        at: Nanos::from_secs(at),
        endpoint,
        values: parse(text, KeptSeries::Buckets),
        error: None,
    }
}

fn over(scrapes: &[Scrape]) -> ServerFigures {
    let mut all = Scrapes::default();
    for scrape in scrapes {
        all.push(scrape);
    }
    let span = TimeSpan { begin: Nanos::from_secs(1), end: Nanos::from_secs(9) };
    all.figures(Some(span)).unwrap()
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
    assert_eq!((found.running_max, found.present_max), (Some(7.0), Some(9.0)));
    assert_eq!(found.prefix_hit_share, None, "nothing was queried");
    assert_eq!(found.preemptions, None, "never told is not none");
}

/// Four engines with half of their cache in use were "max KV cache 200 %", and two ranks that accept 2.5
/// tokens per step had an accept length of 5.
#[test]
fn engines_of_one_server_are_joined_as_their_family_asks() {
    let vllm: Vec<String> = (0..4)
        .map(|engine| {
            let used = if engine == 3 { "0.6" } else { "0.5" };
            format!(
                "vllm:num_requests_running{{engine=\"{engine}\"}} 3\n\
                 vllm:kv_cache_usage_perc{{engine=\"{engine}\"}} {used}\n"
            )
        })
        .collect();
    let vllm = vllm.concat();
    let found = over(&[scrape(1, 0, &vllm), scrape(5, 0, &vllm), scrape(9, 0, &vllm)]);
    assert_eq!((found.kv_use_max, found.running_max), (Some(0.6), Some(12.0)));
    let sglang = |lengths: [&str; 2], running: Option<[u32; 2]>| {
        let rank = |rank: usize| {
            let labels = format!("{{model=\"m\",dp_rank=\"{rank}\"}}");
            let running = running.map(|all| all[rank]);
            let running = running.map(|count| format!("sglang:num_running_reqs{labels} {count}\n"));
            let length = format!("sglang:spec_accept_length{labels} {}\n", lengths[rank]);
            length + &running.unwrap_or_default()
        };
        over(&[scrape(5, 0, &(rank(0) + &rank(1)))]).accept_length
    };
    assert_eq!(sglang(["2.5", "2.5"], Some([4, 4])), Some(2.5));
    assert_eq!(sglang(["2.0", "3.0"], Some([1, 3])), Some(2.75));
    assert_eq!(sglang(["2.0", "3.0"], None), Some(2.5));
    assert_eq!(
        sglang(["2.0", "3.0"], Some([0, 5])),
        Some(3.0),
        "its last value before it was idle"
    );
    assert_eq!(sglang(["0.0", "3.0"], Some([0, 0])), Some(3.0));
}

/// Two ranks of tensor parallelism that reported the same four requests made eight of them, and another client
/// was seen that did not exist.
#[test]
fn ranks_of_one_engine_count_once() {
    let rank = |dp: u32, tp: u32, running: u32| {
        let labels = format!("{{dp_rank=\"{dp}\",model_name=\"m\",tp_rank=\"{tp}\"}}");
        format!(
            "sglang:num_running_reqs{labels} {running}\nsglang:num_queue_reqs{labels} 1\n\
             sglang:token_usage{labels} 0.{running}\nsglang:spec_accept_length{labels} {running}\n"
        )
    };
    let page = rank(0, 0, 3) + &rank(0, 1, 3) + &rank(1, 0, 1) + &rank(1, 1, 1);
    let found = over(&[scrape(5, 0, &page)]);
    assert_eq!((found.running_max, found.waiting_max), (Some(4.0), Some(2.0)));
    assert_eq!((found.kv_use_max, found.accept_length), (Some(0.3), Some(2.5)));
}

#[test]
fn figures_that_cannot_be_true_are_left_out_and_named() {
    let text = |hits: u32, queue: &str| {
        format!(
            "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {hits}\n\
             vllm:request_queue_time_seconds_sum {queue}\n\
             vllm:request_queue_time_seconds_count {hits}\n",
            hits / 5
        )
    };
    let found = over(&[scrape(0, 0, &text(0, "0")), scrape(10, 0, &text(500, "1e300"))]);
    assert_eq!((found.prefix_hit_share, found.queue_ms_mean), (None, None));
    assert_eq!(found.ignored, ["prefix hits of 5.000e2 %", "mean queue time of 2.000e300 ms"]);
    let found = over(&[scrape(0, 0, &text(0, "0")), scrape(10, 0, &text(500, "+Inf"))]);
    assert_eq!(found.queue_ms_mean, None, "infinity is not a number of seconds");
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
    let found = over(&[scrape(0, 0, &text(0, 0, 0, 0)), scrape(10, 0, &text(100, 200, 80, 60))]);
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
        assert_eq!((found.engine, found.running, found.waiting), (engine, Some(0.0), Some(0.0)));
        let value = |metric| found.values.get(&metric).copied();
        assert_eq!(value(Metric::PromptTokens), Some(prompt));
        assert_eq!(value(Metric::GenerationTokens), Some(generated));
    };
    let vllm = include_str!("../../../../fixtures/captures/vllm-metrics.raw");
    check(vllm, "vllm", 147.0, 64.0);
    check(
        include_str!("../../../../fixtures/captures/llamacpp-metrics.raw"),
        "llamacpp",
        43.0,
        44.0,
    );
    let values = parse(vllm, KeptSeries::Values);
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

#[test]
fn the_server_s_own_first_token_times_are_those_of_the_run() {
    let text = |fast: u32, slow: u32| {
        let all = fast + slow;
        format!(
            "vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"0.1\"}} {fast}\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"0.5\"}} {all}\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"+Inf\"}} {all}\n\
             vllm:time_to_first_token_seconds_sum {all}\nvllm:time_to_first_token_seconds_count {all}\n\
             vllm:request_queue_time_seconds_sum {slow}\nvllm:request_queue_time_seconds_count {all}\n"
        )
    };
    let found = over(&[scrape(0, 0, &text(1_000, 0)), scrape(10, 0, &text(1_050, 50))]);
    // Half of the hundred requests of the run took less than 100 ms, the others up to 500 ms.
    let p99 = found.ttft_p99.unwrap();
    assert!((p99.value_ms.unwrap() - 492.0).abs() < 1e-9, "{p99:?}");
    assert_eq!((p99.low_ms, p99.high_ms), (100.0, Some(500.0)));
    assert_eq!(found.ttft_p50.unwrap().value_ms, Some(100.0));
    assert_eq!((found.ttft_ms_mean, found.queue_ms_mean), (Some(1_000.0), Some(500.0)));
    // A single scrape with buckets shows no change.
    assert_eq!(over(&[scrape(0, 0, &text(1_000, 0))]).ttft_p50, None);
}

#[test]
fn only_a_server_read_before_and_after_and_never_restarted_is_read_whole() {
    let text = |tokens: u32| format!("vllm:generation_tokens_total {tokens}\n");
    let check = |scrapes: &[Scrape], expected: bool, why: &str| {
        assert_eq!(over(scrapes).is_whole, expected, "{why}");
    };
    let (first, last) = (scrape(0, 0, &text(5)), scrape(10, 0, &text(9)));
    let failed = |at: u64, endpoint: u16| Scrape {
        error: Some("refused".into()),
        ..scrape(at, endpoint, "")
    };
    check(&[first.clone(), last.clone()], true, "read before and after");
    check(&[first.clone(), scrape(5, 0, &text(7))], false, "the last reading came too early");
    check(&[first.clone(), failed(10, 0)], false, "the server died");
    check(&[scrape(5, 0, &text(7)), last.clone()], false, "the first reading came too late");
    check(&[first.clone(), failed(0, 1), last.clone()], false, "a replica was never read");
    check(&[first.clone(), scrape(5, 0, &text(2)), last.clone()], false, "it was restarted");
    let exporter = scrape(0, 1, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 7\n");
    check(&[first, exporter, last], true, "an exporter of GPUs counts no tokens");
}

#[test]
fn a_page_that_lies_gives_no_figures() {
    let found = over(&[
        scrape(0, 0, "<html>not metrics</html>"),
        scrape(10, 0, "vllm:generation_tokens_total NaN\nvllm:num_requests_running\n"),
    ]);
    assert_eq!((found.engine, found.scrapes, found.failed_scrapes), (None, 0, 2));
    assert_eq!((found.generation_tokens, found.is_whole), (None, false));
}

#[test]
fn an_sglang_server_reports_its_accept_length_or_the_first_decoder_does() {
    let check = |server_info: &serde_json::Value, expected: Option<f64>| {
        assert_eq!(reported_accept_length(server_info), expected, "{server_info}");
    };
    let told = serde_json::json!({"internal_states": [{"avg_spec_accept_length": 2.75}]});
    check(&told, Some(2.75));
    check(&serde_json::json!({"prefill": [{}], "decode": [told]}), Some(2.75));
    check(&serde_json::json!({"internal_states": [{}]}), None);
    check(&serde_json::json!({}), None);
}

/// A server without metrics may still report it, and its absence is no failed scrape.
#[test]
fn a_reported_accept_length_needs_no_metrics() {
    let mut scrapes = Scrapes::default();
    let values = [(tokometer_record::server::SERVER_INFO_ACCEPT_LENGTH.to_owned(), 2.75)].into();
    scrapes.push(&Scrape { at: Nanos(5), endpoint: 0, values, error: None });
    let found = scrapes.figures(None).unwrap();
    assert_eq!((found.reported_accept_length, found.failed_scrapes), (Some(2.75), 0));
}
