//! Reads the result files of tools that keep an object of statistics per metric: `AIPerf` and GenAI-Perf, and
//! genai-bench.

use serde_json::{Map, Value};
use tokometer_base::units::nearest_count;

use crate::Layout;
use crate::model::{Field, Key, Metric, Percentile, Report, Scalar, Stat};

/// The report of such a file; `None` for another.
pub(super) fn report(object: &Map<String, Value>) -> Option<Report> {
    aiperf(object).or_else(|| genai_bench(object))
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
        let factor = if field == Field::Duration { in_seconds } else { 1.0 };
        set_field(&mut report, field, metric.get("avg"), factor);
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
    report.context.heading = scenario.map(str::to_owned);
    for (name, field) in FIELDS {
        set_field(&mut report, field, run.get(name), 1.0);
    }
    let is_closed = run.get("iteration_type").and_then(Value::as_str) == Some("num_concurrency");
    if is_closed {
        set_field(&mut report, Field::MaxConcurrency, run.get("num_concurrency"), 1.0);
    }
    for (name, field) in SUMS {
        set_field(&mut report, field, stats.get(name).and_then(|told| told.get("sum")), 1.0);
    }
    let factor = millis_per(object.get("_time_unit")).unwrap_or(1e3);
    for (name, metric) in TIMES {
        if let Some(told) = stats.get(name).and_then(Value::as_object) {
            set_times(&mut report, metric, told, factor);
        }
    }
    Some(report)
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

/// Sets a field that has no value yet. A whole number becomes a count.
fn set_field(report: &mut Report, field: Field, value: Option<&Value>, factor: f64) {
    let Some(number) = value.and_then(Value::as_f64).map(|number| number * factor) else { return };
    if report.values.get(Key::Field(field)).is_some() {
        return;
    }
    let is_count = matches!(
        field,
        Field::Successful
            | Field::Failed
            | Field::InputTokens
            | Field::OutputTokens
            | Field::MaxConcurrency
    );
    let is_count = is_count && number >= 0.0 && number.fract() == 0.0;
    let scalar =
        if is_count { Scalar::Count(nearest_count(number)) } else { Scalar::Number(number) };
    report.set(Key::Field(field), scalar);
}

fn set_times(report: &mut Report, metric: Metric, told: &Map<String, Value>, factor: f64) {
    for (name, value) in told {
        let stat = match name.as_str() {
            "avg" | "mean" => Some(Stat::Mean),
            "max" => Some(Stat::Max),
            "std" | "stddev" => Some(Stat::Std),
            other => other.strip_prefix('p').and_then(Percentile::parse).map(Stat::Percentile),
        };
        if let (Some(stat), Some(time)) = (stat, value.as_f64()) {
            report.set_latency(metric, stat, time * factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::model::{Field, Metric, Stat};

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

    #[test]
    fn an_object_without_a_plain_throughput_is_no_report() {
        for text in [r#"{"request_throughput": {"p50": 1}}"#, r#"{"request_throughput": [1, 2]}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
