//! Reads the result files of tools that keep an object of statistics per metric: `AIPerf` and GenAI-Perf,
//! genai-bench, `GuideLLM`, inference-perf.

use serde_json::Value;
use tokometer_base::printable;

use super::written::WrittenNumber;
use crate::Layout;
use crate::model::{Field, Key, Metric, Percentile, Report, Stat};

/// Where a tool's file has what, as JSON pointers.
struct Tool {
    /// Only its files have this.
    mark: &'static str,
    /// What names the run: the first that there is.
    headings: &'static [&'static str],
    /// Of several values of one field the first counts.
    fields: &'static [(&'static str, Field)],
    times: &'static [(&'static str, Metric, TimeUnit)],
}

#[derive(Clone, Copy)]
enum TimeUnit {
    Millis,
    Seconds,
    /// As the metric says, else milliseconds.
    OfMetric,
    /// As the file says, else seconds.
    OfFile,
}

/// Each metric is an object with its unit; what has one value has only a mean. Their inter-token latency is
/// one value per request: its time behind the first token divided by its other tokens.
const AIPERF: Tool = Tool {
    mark: "/request_throughput/avg",
    headings: &[],
    fields: &[
        ("/request_count/avg", Field::Successful),
        ("/error_request_count/avg", Field::Failed),
        ("/request_throughput/avg", Field::RequestThroughput),
        ("/output_token_throughput/avg", Field::OutputThroughput),
        ("/total_token_throughput/avg", Field::TotalThroughput),
        ("/total_isl/avg", Field::InputTokens),
        // With the tokens of reasoning, as its throughput.
        ("/total_osl/avg", Field::OutputTokens),
        ("/total_output_tokens/avg", Field::OutputTokens),
    ],
    times: &[
        ("/time_to_first_token", Metric::Ttft, TimeUnit::OfMetric),
        ("/inter_token_latency", Metric::Tpot, TimeUnit::OfMetric),
        ("/request_latency", Metric::E2el, TimeUnit::OfMetric),
    ],
};

const GENAI_BENCH: Tool = Tool {
    mark: "/aggregated_metrics/stats",
    headings: &["/aggregated_metrics/scenario"],
    fields: &[
        ("/aggregated_metrics/num_completed_requests", Field::Successful),
        ("/aggregated_metrics/num_error_requests", Field::Failed),
        ("/aggregated_metrics/run_duration", Field::Duration),
        ("/aggregated_metrics/requests_per_second", Field::RequestThroughput),
        ("/aggregated_metrics/mean_input_throughput_tokens_per_s", Field::InputThroughput),
        ("/aggregated_metrics/mean_output_throughput_tokens_per_s", Field::OutputThroughput),
        ("/aggregated_metrics/mean_total_tokens_throughput_tokens_per_s", Field::TotalThroughput),
        ("/aggregated_metrics/stats/num_input_tokens/sum", Field::InputTokens),
        ("/aggregated_metrics/stats/num_output_tokens/sum", Field::OutputTokens),
    ],
    times: &[
        ("/aggregated_metrics/stats/ttft", Metric::Ttft, TimeUnit::OfFile),
        ("/aggregated_metrics/stats/tpot", Metric::Tpot, TimeUnit::OfFile),
        ("/aggregated_metrics/stats/e2e_latency", Metric::E2el, TimeUnit::OfFile),
    ],
};

/// One run of a report. Its statistics stand apart for requests that succeeded, failed, or were stopped at
/// the end of the run. Its inter-token latency is one value per request; what it calls time per output token
/// has the first token in it, so it is no TPOT. Its duration goes on to the end of requests that were
/// stopped, so no rate is a count divided by it.
const GUIDELLM: Tool = Tool {
    mark: "/metrics/requests_per_second/successful",
    headings: &["/config/strategy/type_", "/config/strategy"],
    fields: &[
        ("/metrics/requests_per_second/successful/mean", Field::RequestThroughput),
        ("/metrics/prompt_tokens_per_second/successful/mean", Field::InputThroughput),
        ("/metrics/output_tokens_per_second/successful/mean", Field::OutputThroughput),
        ("/metrics/tokens_per_second/successful/mean", Field::TotalThroughput),
        ("/metrics/prompt_token_count/successful/total_sum", Field::InputTokens),
        ("/metrics/output_token_count/successful/total_sum", Field::OutputTokens),
        ("/metrics/request_totals/successful", Field::Successful),
        ("/metrics/request_totals/errored", Field::Failed),
        ("/config/strategy/streams", Field::MaxConcurrency),
        ("/config/strategy/rate", Field::RateConfigured),
    ],
    times: &[
        ("/metrics/time_to_first_token_ms/successful", Metric::Ttft, TimeUnit::Millis),
        ("/metrics/inter_token_latency_ms/successful", Metric::Tpot, TimeUnit::Millis),
        ("/metrics/request_latency/successful", Metric::E2el, TimeUnit::Seconds),
    ],
};

/// The summary of a run or of one of its stages.
const INFERENCE_PERF: Tool = Tool {
    mark: "/successes/latency",
    headings: &[],
    fields: &[
        ("/successes/count", Field::Successful),
        ("/failures/count", Field::Failed),
        ("/load_summary/requested_rate", Field::RateConfigured),
        ("/successes/throughput/requests_per_sec", Field::RequestThroughput),
        ("/successes/throughput/input_tokens_per_sec", Field::InputThroughput),
        ("/successes/throughput/output_tokens_per_sec", Field::OutputThroughput),
        ("/successes/throughput/total_tokens_per_sec", Field::TotalThroughput),
        ("/successes/prompt_tokens/total", Field::InputTokens),
        ("/successes/output_tokens/total", Field::OutputTokens),
    ],
    times: &[
        ("/successes/latency/time_to_first_token", Metric::Ttft, TimeUnit::Seconds),
        ("/successes/latency/time_per_output_token", Metric::Tpot, TimeUnit::Seconds),
        ("/successes/latency/inter_token_latency", Metric::Itl, TimeUnit::Seconds),
        ("/successes/latency/request_latency", Metric::E2el, TimeUnit::Seconds),
    ],
};

/// The report of such a file; `None` for another.
pub(super) fn report(file: &Value) -> Option<Report> {
    let tools = [AIPERF, GENAI_BENCH, GUIDELLM, INFERENCE_PERF];
    let tool = tools.into_iter().find(|tool| file.pointer(tool.mark).is_some())?;
    let mut report = Report { layout: Some(Layout::V4), ..Report::default() };
    let heading = tool.headings.iter().find_map(|at| file.pointer(at)?.as_str());
    report.context.heading = heading.map(printable::short);
    for (at, field) in tool.fields {
        if let Some(number) = number(file, at) {
            set(&mut report, *field, number.of_field(*field));
        }
    }
    for (at, metric, unit) in tool.times {
        if let Some(told) = file.pointer(at) {
            let millis = match unit {
                TimeUnit::Millis => 1.0,
                TimeUnit::Seconds => 1e3,
                TimeUnit::OfMetric => millis_per(told.get("unit")).unwrap_or(1.0),
                TimeUnit::OfFile => millis_per(file.get("_time_unit")).unwrap_or(1e3),
            };
            set_times(&mut report, *metric, told, millis);
            set_times(&mut report, *metric, &told["percentiles"], millis);
        }
    }
    set_closed_loop(&mut report, file);
    set_derived(&mut report, file);
    Some(report)
}

fn number(file: &Value, at: &str) -> Option<WrittenNumber> {
    file.pointer(at).and_then(WrittenNumber::of)
}

/// Sets a field that has no value yet.
fn set(report: &mut Report, field: Field, value: crate::model::Value) {
    if report.values.get(Key::Field(field)).is_none() {
        report.values.set(Key::Field(field), value);
    }
}

/// genai-bench has a concurrency also for loads that it does not limit.
fn set_closed_loop(report: &mut Report, file: &Value) {
    let run = &file["aggregated_metrics"];
    if let Some(cap) = WrittenNumber::of(&run["num_concurrency"])
        && run["iteration_type"] == "num_concurrency"
    {
        set(report, Field::MaxConcurrency, cap.of_field(Field::MaxConcurrency));
    }
}

/// The duration of `AIPerf`, in its unit; what inference-perf has only as a mean per request or per second.
fn set_derived(report: &mut Report, file: &Value) {
    if let Some(duration) = number(file, "/benchmark_duration/avg") {
        let unit = millis_per(file.pointer("/benchmark_duration/unit"));
        set(report, Field::Duration, duration.scaled(unit.map_or(1.0, |millis| millis / 1e3)));
    }
    let Some(requests) = report.number(Field::Successful).filter(|count| *count > 0.0) else {
        return;
    };
    let lengths = [
        ("/successes/prompt_len/mean", Field::InputTokens),
        ("/successes/output_len/mean", Field::OutputTokens),
    ];
    for (at, field) in lengths {
        if let Some(length) = number(file, at) {
            set(report, field, length.scaled(requests));
        }
    }
    let rate = number(file, "/successes/throughput/requests_per_sec");
    if let Some(duration) = rate.and_then(|rate| rate.dividing(requests)) {
        set(report, Field::Duration, duration);
    }
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

/// The statistics of an object. `GuideLLM` writes P0.1 as `p001` and P99.9 as `p999`.
fn set_times(report: &mut Report, metric: Metric, told: &Value, millis: f64) {
    for (name, value) in told.as_object().into_iter().flatten() {
        let stat = match name.as_str() {
            "avg" => Some(Stat::Mean),
            "stddev" | "std_dev" => Some(Stat::Std),
            "p001" => Percentile::parse("0.1").map(Stat::Percentile),
            "p999" => Percentile::parse("99.9").map(Stat::Percentile),
            other => Stat::from_label(other),
        };
        if let (Some(stat), Some(time)) = (stat, WrittenNumber::of(value)) {
            report.values.set(Key::Latency(metric, stat), time.scaled(millis));
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
