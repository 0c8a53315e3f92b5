//! Reads the result files of tools that keep an object of statistics per metric: `AIPerf` and GenAI-Perf,
//! genai-bench, `GuideLLM`, inference-perf.

use serde_json::{Map, Value};
use tokometer_base::printable;

use super::written::WrittenNumber;
use crate::Layout;
use crate::model::{Field, Key, Metric, Percentile, Report, Stat};

/// The report of such a file; `None` for another.
pub(super) fn report(object: &Map<String, Value>) -> Option<Report> {
    let readers = [aiperf, genai_bench, guidellm, inference_perf];
    readers.iter().find_map(|read| read(object))
}

/// Each metric of `AIPerf` and GenAI-Perf is an object with its unit; what has one value has only a mean.
fn aiperf(object: &Map<String, Value>) -> Option<Report> {
    const FIELDS: [(&str, Field); 9] = [
        ("request_count", Field::Successful),
        ("error_request_count", Field::Failed),
        ("request_throughput", Field::RequestThroughput),
        ("output_token_throughput", Field::OutputThroughput),
        ("total_token_throughput", Field::TotalThroughput),
        ("total_isl", Field::InputTokens),
        // With the tokens of reasoning, as its throughput.
        ("total_osl", Field::OutputTokens),
        ("total_output_tokens", Field::OutputTokens),
        ("benchmark_duration", Field::Duration),
    ];
    // Their inter-token latency is one value per request: its time behind the first token divided by
    // its other tokens.
    const TIMES: [(&str, Metric); 3] = [
        ("time_to_first_token", Metric::Ttft),
        ("inter_token_latency", Metric::Tpot),
        ("request_latency", Metric::E2el),
    ];
    object.get("request_throughput")?.get("avg")?;
    let mut report = Report { layout: Some(Layout::V4), ..Report::default() };
    for (name, field) in FIELDS {
        let Some(metric) = object.get(name).and_then(Value::as_object) else { continue };
        let in_seconds = millis_per(metric.get("unit")).map_or(1.0, |millis| millis / 1e3);
        let avg = metric.get("avg").and_then(WrittenNumber::of);
        match avg.filter(|_| field == Field::Duration) {
            Some(duration) => report.values.set(Key::Field(field), duration.scaled(in_seconds)),
            None => set_field(&mut report, field, metric.get("avg")),
        }
    }
    for (name, metric) in TIMES {
        if let Some(told) = object.get(name).and_then(Value::as_object) {
            let factor = millis_per(told.get("unit")).unwrap_or(1.0);
            set_times(&mut report, metric, told, factor);
        }
    }
    Some(report)
}

/// genai-bench says once in which unit its times are.
fn genai_bench(object: &Map<String, Value>) -> Option<Report> {
    const FIELDS: [(&str, Field); 7] = [
        ("num_completed_requests", Field::Successful),
        ("num_error_requests", Field::Failed),
        ("run_duration", Field::Duration),
        ("requests_per_second", Field::RequestThroughput),
        ("mean_input_throughput_tokens_per_s", Field::InputThroughput),
        ("mean_output_throughput_tokens_per_s", Field::OutputThroughput),
        ("mean_total_tokens_throughput_tokens_per_s", Field::TotalThroughput),
    ];
    const SUMS: [(&str, Field); 2] =
        [("num_input_tokens", Field::InputTokens), ("num_output_tokens", Field::OutputTokens)];
    const TIMES: [(&str, Metric); 3] =
        [("ttft", Metric::Ttft), ("tpot", Metric::Tpot), ("e2e_latency", Metric::E2el)];
    let run = object.get("aggregated_metrics")?.as_object()?;
    let stats = run.get("stats")?.as_object()?;
    let mut report = Report { layout: Some(Layout::V4), ..Report::default() };
    let scenario = run.get("scenario").and_then(Value::as_str);
    report.context.heading = scenario.map(printable::short);
    for (name, field) in FIELDS {
        set_field(&mut report, field, run.get(name));
    }
    let is_closed = run.get("iteration_type").and_then(Value::as_str) == Some("num_concurrency");
    if is_closed {
        set_field(&mut report, Field::MaxConcurrency, run.get("num_concurrency"));
    }
    for (name, field) in SUMS {
        set_field(&mut report, field, stats.get(name).and_then(|told| told.get("sum")));
    }
    let factor = millis_per(object.get("_time_unit")).unwrap_or(1e3);
    for (name, metric) in TIMES {
        if let Some(told) = stats.get(name).and_then(Value::as_object) {
            set_times(&mut report, metric, told, factor);
        }
    }
    Some(report)
}

/// One run of a `GuideLLM` report. Its statistics stand apart for requests that succeeded, failed, or were
/// stopped at the end of the run.
fn guidellm(object: &Map<String, Value>) -> Option<Report> {
    const RATES: [(&str, Field); 4] = [
        ("requests_per_second", Field::RequestThroughput),
        ("prompt_tokens_per_second", Field::InputThroughput),
        ("output_tokens_per_second", Field::OutputThroughput),
        ("tokens_per_second", Field::TotalThroughput),
    ];
    const SUMS: [(&str, Field); 2] =
        [("prompt_token_count", Field::InputTokens), ("output_token_count", Field::OutputTokens)];
    // Its inter-token latency is one value per request. What it calls time per output token has the
    // first token in it, so it is no TPOT.
    const TIMES: [(&str, Metric, f64); 3] = [
        ("time_to_first_token_ms", Metric::Ttft, 1.0),
        ("inter_token_latency_ms", Metric::Tpot, 1.0),
        ("request_latency", Metric::E2el, 1e3),
    ];
    let metrics = object.get("metrics")?.as_object()?;
    let of = |name: &str| metrics.get(name)?.get("successful")?.as_object();
    of("requests_per_second")?;
    let mut report = Report { layout: Some(Layout::V4), ..Report::default() };
    for (name, field) in RATES {
        set_field(&mut report, field, of(name).and_then(|told| told.get("mean")));
    }
    for (name, field) in SUMS {
        set_field(&mut report, field, of(name).and_then(|told| told.get("total_sum")));
    }
    // Its duration goes on to the end of requests that were stopped, so no rate is a count divided by it.
    if let Some(requests) = metrics.get("request_totals") {
        set_field(&mut report, Field::Successful, requests.get("successful"));
        set_field(&mut report, Field::Failed, requests.get("errored"));
    }
    if let Some(strategy) = object.get("config").and_then(|part| part.get("strategy")) {
        set_field(&mut report, Field::MaxConcurrency, strategy.get("streams"));
        set_field(&mut report, Field::RateConfigured, strategy.get("rate"));
        let kind = strategy.get("type_").or(Some(strategy)).and_then(Value::as_str);
        report.context.heading = kind.map(printable::short);
    }
    for (name, metric, factor) in TIMES {
        let Some(told) = of(name) else { continue };
        set_times(&mut report, metric, told, factor);
        if let Some(percentiles) = told.get("percentiles").and_then(Value::as_object) {
            set_guidellm_percentiles(&mut report, metric, percentiles, factor);
        }
    }
    Some(report)
}

/// `GuideLLM` writes P0.1 as `p001` and P99.9 as `p999`.
fn set_guidellm_percentiles(
    report: &mut Report,
    metric: Metric,
    told: &Map<String, Value>,
    factor: f64,
) {
    for (name, value) in told {
        let percent = match name.as_str() {
            "p001" => "0.1",
            "p999" => "99.9",
            other => other.trim_start_matches('p'),
        };
        if let (Some(percentile), Some(time)) =
            (Percentile::parse(percent), WrittenNumber::of(value))
        {
            let key = Key::Latency(metric, Stat::Percentile(percentile));
            report.values.set(key, time.scaled(factor));
        }
    }
}

/// The summary of an inference-perf run or of one of its stages; times are in seconds.
fn inference_perf(object: &Map<String, Value>) -> Option<Report> {
    const RATES: [(&str, Field); 4] = [
        ("requests_per_sec", Field::RequestThroughput),
        ("input_tokens_per_sec", Field::InputThroughput),
        ("output_tokens_per_sec", Field::OutputThroughput),
        ("total_tokens_per_sec", Field::TotalThroughput),
    ];
    const SUMS: [(&str, Field); 2] =
        [("prompt_tokens", Field::InputTokens), ("output_tokens", Field::OutputTokens)];
    const TIMES: [(&str, Metric); 4] = [
        ("time_to_first_token", Metric::Ttft),
        ("time_per_output_token", Metric::Tpot),
        ("inter_token_latency", Metric::Itl),
        ("request_latency", Metric::E2el),
    ];
    let successes = object.get("successes")?.as_object()?;
    let (latency, throughput) = (successes.get("latency")?, successes.get("throughput")?);
    let mut report = Report { layout: Some(Layout::V4), ..Report::default() };
    set_field(&mut report, Field::Successful, successes.get("count"));
    let failures = object.get("failures").and_then(|told| told.get("count"));
    set_field(&mut report, Field::Failed, failures);
    let rate = object.get("load_summary").and_then(|load| load.get("requested_rate"));
    set_field(&mut report, Field::RateConfigured, rate);
    for (name, field) in RATES {
        set_field(&mut report, field, throughput.get(name));
    }
    for (name, field) in SUMS {
        set_field(&mut report, field, successes.get(name).and_then(|told| told.get("total")));
    }
    for (name, metric) in TIMES {
        if let Some(told) = latency.get(name).and_then(Value::as_object) {
            set_times(&mut report, metric, told, 1e3);
        }
    }
    set_from_means(&mut report, successes);
    Some(report)
}

/// What a file of inference-perf has only as a mean per request or per second: tokens, and the duration.
fn set_from_means(report: &mut Report, successes: &Map<String, Value>) {
    const LENGTHS: [(&str, Field); 2] =
        [("prompt_len", Field::InputTokens), ("output_len", Field::OutputTokens)];
    let Some(requests) = report.number(Field::Successful).filter(|count| *count > 0.0) else {
        return;
    };
    let mut set = |field: Field, value: Option<crate::model::Value>| {
        if let Some(value) = value.filter(|_| report.values.get(Key::Field(field)).is_none()) {
            report.values.set(Key::Field(field), value);
        }
    };
    let mean = |of: Option<&Value>| of?.get("mean").and_then(WrittenNumber::of);
    for (name, field) in LENGTHS {
        set(field, mean(successes.get(name)).map(|length| length.scaled(requests)));
    }
    let rate = successes.get("throughput").and_then(|told| told.get("requests_per_sec"));
    let rate = rate.and_then(WrittenNumber::of);
    set(Field::Duration, rate.and_then(|rate| rate.dividing(requests)));
}

/// Milliseconds in a unit of time; `None` for another unit and without one.
fn millis_per(unit: Option<&Value>) -> Option<f64> {
    match unit?.as_str()? {
        "s" | "sec" | "seconds" => Some(1e3),
        "ms" | "milliseconds" => Some(1.0),
        "us" | "microseconds" => Some(1e-3),
        "ns" | "nanoseconds" => Some(1e-6),
        _ => None,
    }
}

/// Sets a field that has no value yet. A whole number of things becomes a count.
fn set_field(report: &mut Report, field: Field, value: Option<&Value>) {
    let Some(number) = value.and_then(WrittenNumber::of) else { return };
    if report.values.get(Key::Field(field)).is_none() {
        report.values.set(Key::Field(field), number.of_field(field));
    }
}

fn set_times(report: &mut Report, metric: Metric, told: &Map<String, Value>, factor: f64) {
    for (name, value) in told {
        let stat = match name.as_str() {
            "avg" | "mean" => Some(Stat::Mean),
            "max" => Some(Stat::Max),
            "median" => Some(Stat::Median),
            "std" | "stddev" | "std_dev" => Some(Stat::Std),
            other => other.strip_prefix('p').and_then(Percentile::parse).map(Stat::Percentile),
        };
        if let (Some(stat), Some(time)) = (stat, WrittenNumber::of(value)) {
            report.values.set(Key::Latency(metric, stat), time.scaled(factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::model::{Field, Metric, Percentile, Stat};

    #[test]
    fn aiperf_s_metrics_are_read_with_their_units() {
        let text = r#"{"schema_version": "1.3", "request_throughput": {"unit": "requests/sec", "avg": 0.8},
            "request_latency": {"unit": "ms", "avg": 2413.5, "p50": 2431.75, "p99": 2439.45, "min": 2358.5, "count": 10},
            "request_count": {"unit": "requests", "avg": 10.0}, "error_request_count": {"avg": 1.0},
            "time_to_first_token": {"unit": "sec", "avg": 0.25, "std": 0.046},
            "inter_token_latency": {"unit": "ms", "avg": 35.2, "p99": null},
            "total_output_tokens": {"unit": "tokens", "avg": 600.0}, "total_osl": {"unit": "tokens", "avg": 640.0},
            "benchmark_duration": {"unit": "ms", "avg": 12500.0}}"#;
        for text in [text.to_owned(), format!("{{\"records\": {text}}}")] {
            let [report] = &read(&text).unwrap()[..] else { panic!("one report: {text}") };
            assert_eq!(report.number(Field::Successful), Some(10.0));
            assert_eq!(report.number(Field::Failed), Some(1.0));
            assert_eq!(report.number(Field::OutputTokens), Some(640.0));
            assert_eq!(report.number(Field::Duration), Some(12.5));
            assert_eq!(report.latency(Metric::Ttft, Stat::Mean), Some(250.0));
            assert_eq!(report.latency(Metric::E2el, Stat::P99), Some(2_439.45));
            assert_eq!(report.latency(Metric::Tpot, Stat::Mean), Some(35.2));
            assert_eq!(report.latency(Metric::Tpot, Stat::P99), None);
            assert_eq!(report.latency(Metric::Itl, Stat::Mean), None);
        }
    }

    #[test]
    fn genai_bench_s_times_have_the_unit_of_the_file() {
        let file = |unit: &str| {
            format!(
                r#"{{"aggregated_metrics": {{"scenario": "D(100,100)", "iteration_type": "num_concurrency",
                "num_concurrency": 4, "run_duration": 30.5, "requests_per_second": 5.1,
                "num_completed_requests": 156, "num_error_requests": 2, "mean_output_throughput_tokens_per_s": 512.5,
                "stats": {{"ttft": {{"mean": 0.05, "stddev": 0.01, "p99": 0.1, "min": null}},
                "num_output_tokens": {{"sum": 15600}}}}}}, "individual_request_metrics": []{unit}}}"#
            )
        };
        for (unit, ttft) in [("", 50.0), (r#", "_time_unit": "ms""#, 0.05)] {
            let [report] = &read(&file(unit)).unwrap()[..] else { panic!("one report") };
            assert_eq!(report.latency(Metric::Ttft, Stat::Mean), Some(ttft));
            assert_eq!(report.number(Field::Successful), Some(156.0));
            assert_eq!(report.number(Field::OutputTokens), Some(15_600.0));
            assert_eq!(report.number(Field::MaxConcurrency), Some(4.0));
            assert_eq!(report.context.heading.as_deref(), Some("D(100,100)"));
        }
    }

    /// Its `time_per_output_token_ms` has the first token in it.
    #[test]
    fn each_run_of_guidellm_is_read_from_its_successful_requests() {
        let run = |requests: &str, streams: u32| {
            format!(
                r#"{{"type_": "generative_benchmark", "duration": 25.0, "config": {{"strategy": {{"type_": "concurrent", "streams": {streams}}}}}, {requests}}}"#
            )
        };
        let metrics = r#""requests_per_second": {"successful": {"mean": 4.0}, "total": {"mean": 4.1}},
            "output_token_count": {"successful": {"mean": 128.0, "total_sum": 12800.0}},
            "output_tokens_per_second": {"successful": {"mean": 512.0}},
            "request_latency": {"successful": {"mean": 2.0, "percentiles": {"p99": 3.0}}},
            "time_to_first_token_ms": {"successful": {"mean": 85.0, "median": 80.0, "std_dev": 3.0, "percentiles": {"p001": 1.0, "p01": 2.0, "p50": 80.0, "p99": 140.0, "p999": 150.0}},
                "errored": {"mean": 0.0}},
            "time_per_output_token_ms": {"successful": {"mean": 15.6}},
            "inter_token_latency_ms": {"successful": {"mean": 15.1}}"#;
        let totals = r#"{"successful": 100, "errored": 2, "incomplete": 1, "total": 103}"#;
        let metrics = format!(r#""metrics": {{"request_totals": {totals}, {metrics}}}"#);
        let text = format!(
            r#"{{"metadata": {{"version": 1}}, "benchmarks": [{}, {}]}}"#,
            run(&metrics, 8),
            run(&metrics, 16)
        );
        let [first, second] = &read(&text).unwrap()[..] else { panic!("two reports") };
        for report in [first, second] {
            assert_eq!(report.number(Field::Successful), Some(100.0));
            assert_eq!(report.number(Field::Failed), Some(2.0));
            assert_eq!(report.number(Field::Duration), None, "another duration than vLLM's");
            assert_eq!(report.number(Field::RequestThroughput), Some(4.0));
            assert_eq!(report.number(Field::OutputTokens), Some(12_800.0));
            assert_eq!(report.latency(Metric::Tpot, Stat::Mean), Some(15.1));
            assert_eq!(report.latency(Metric::E2el, Stat::P99), Some(3_000.0));
            let percentile = |text| Stat::Percentile(Percentile::parse(text).unwrap());
            assert_eq!(report.latency(Metric::Ttft, percentile("0.1")), Some(1.0));
            assert_eq!(report.latency(Metric::Ttft, percentile("1")), Some(2.0));
            assert_eq!(report.latency(Metric::Ttft, percentile("99.9")), Some(150.0));
            assert_eq!(report.context.heading.as_deref(), Some("concurrent"));
        }
        assert_eq!((first.max_concurrency(), second.max_concurrency()), (Some(8), Some(16)));
    }

    #[test]
    fn inference_perf_s_times_are_seconds() {
        let text = r#"{"load_summary": {"count": 100, "requested_rate": 4.0}, "failures": {"count": 2},
            "successes": {"count": 98, "output_tokens": {"total": 12544.0, "mean": 128.0},
            "latency": {"request_latency": {"mean": 2.0, "median": 1.9, "p99": 3.0, "p99.9": 4.0},
                "time_to_first_token": {"mean": 0.085}, "time_per_output_token": {"mean": 0.015},
                "normalized_time_per_output_token": {"mean": 0.016}, "inter_token_latency": null},
            "throughput": {"requests_per_sec": 3.92, "output_tokens_per_sec": 501.8}}}"#;
        let [report] = &read(text).unwrap()[..] else { panic!("one report") };
        assert_eq!(report.number(Field::Successful), Some(98.0));
        assert_eq!(report.number(Field::Failed), Some(2.0));
        assert_eq!(report.request_rate(), Some(4.0));
        assert_eq!(report.number(Field::OutputTokens), Some(12_544.0));
        assert_eq!(report.number(Field::OutputThroughput), Some(501.8));
        assert_eq!(report.latency(Metric::Ttft, Stat::Mean), Some(85.0));
        assert_eq!(report.latency(Metric::Tpot, Stat::Mean), Some(15.0));
        assert_eq!(report.latency(Metric::E2el, Stat::Median), Some(1_900.0));
        assert_eq!(report.latency(Metric::Itl, Stat::Mean), None);
    }

    /// Its own files have lengths per request and no sums, so nothing of them was checked.
    #[test]
    fn inference_perf_s_tokens_and_duration_follow_from_its_means() {
        let text = r#"{"load_summary": {"count": 3600}, "successes": {"count": 3600,
            "latency": {"request_latency": {"mean": 5.018124350203054}},
            "throughput": {"output_tokens_per_sec": 2253.085197994428, "requests_per_sec": 9.129153381242592},
            "output_len": {"mean": 246.8011111111111}}}"#;
        let reports = read(text).unwrap();
        let output = reports[0].number(Field::OutputTokens).unwrap();
        assert!((output - 888_484.0).abs() < 0.01, "{output}");
        assert!((reports[0].number(Field::Duration).unwrap() - 394.341).abs() < 0.001);
    }

    #[test]
    fn an_object_without_a_plain_throughput_is_no_report() {
        for text in [r#"{"request_throughput": {"p50": 1}}"#, r#"{"request_throughput": [1, 2]}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
