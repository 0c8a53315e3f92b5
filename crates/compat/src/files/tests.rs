//! The files' schemas, and that reading gives back what was written.

use serde_json::Value;
use tokometer_record::RecordedStage;

use super::*;
use crate::from_summary::{Selection, from_summary};
use crate::model::{Field, Key, Percentile, Stat};
use crate::testing::{info, summary};
use crate::{Error, Layout, Report};

fn file<'a>(summary: &'a Summary, info: &'a RunInfo, shown: &'a Selection) -> ResultFile<'a> {
    ResultFile {
        summary,
        info,
        label: None,
        metadata: &[],
        shown,
        workload: &[],
        extent: Extent::Run,
    }
}

#[test]
fn vllm_s_object_has_its_keys_in_order() {
    let (summary, info, shown) = (summary(), info(), Selection::default());
    let metadata = [("gpu".to_owned(), "2".to_owned()), ("model_id".to_owned(), "mine".to_owned())];
    let file = ResultFile { metadata: &metadata, ..file(&summary, &info, &shown) };
    let line = vllm_json(&file).unwrap();
    assert!(line.starts_with(r#"{"date": "20251009-085320", "endpoint_type": "vllm", "backend": "vllm", "label": null, "model_id": "mine", "#), "{line}");
    let object: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["gpu"], "2");
    assert_eq!(object["request_rate"], 20.0);
    assert_eq!(object["p99_ttft_ms"], 361.5);
    assert_eq!(object["mean_e2el_ms"], Value::Null, "not among the metrics asked for");
    assert_eq!(object["p90_ttft_ms"], Value::Null, "not among the percentiles asked for");
    assert_eq!(object["ttfts"], Value::Null, "not detailed");
    assert_eq!(object["spec_decode_num_drafts"], 1_000.0);
    assert_eq!(object["tokometer"]["verdict"], "SUSPECT");
}

#[test]
fn details_are_there_when_asked_for() {
    let (summary, info, shown) = (summary(), info(), Selection::default());
    let file = ResultFile { extent: Extent::Requests, ..file(&summary, &info, &shown) };
    let check = |line: String| {
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["itls"][0][0], 0.0125);
        assert_eq!(object["generated_texts"][0], "grüß dich");
        assert_eq!(object["errors"][1], "Service Unavailable");
    };
    check(vllm_json(&file).unwrap());
    check(sglang_line(&file).unwrap());
}

/// SGLang prints and saves what its server reports after the run. Counted drafts and gauges are other
/// figures, and those of another server are none at all.
#[test]
fn the_accept_length_is_the_one_that_sglangs_server_reports() {
    let (mut summary, info, shown) = (summary(), info(), Selection::default());
    let check = |summary: &Summary, saved: Option<f64>, printed: Option<f64>| {
        let file = file(summary, &info, &shown);
        let object: Value = serde_json::from_str(&sglang_line(&file).unwrap()).unwrap();
        assert_eq!(object["accept_length"].as_f64(), saved);
        let block = from_summary(summary, &info, Layout::S3, &shown).unwrap();
        assert_eq!(block.number(Field::AcceptLength), printed);
    };
    summary.server.as_mut().unwrap().accept_length = Some(2.5);
    check(&summary, Some(2.75), Some(2.75));
    summary.server.as_mut().unwrap().reported_accept_length = Some(0.0);
    check(&summary, Some(0.0), None);
    summary.server.as_mut().unwrap().reported_accept_length = None;
    check(&summary, None, None);
    summary.server = None;
    check(&summary, None, None);
}

#[test]
fn an_infinite_rate_is_a_word_in_both_files() {
    let (summary, mut info, shown) = (summary(), info(), Selection::default());
    info.load.request_rate = None;
    let file = file(&summary, &info, &shown);
    for line in [vllm_json(&file).unwrap(), sglang_line(&file).unwrap()] {
        let object: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["request_rate"], "inf");
    }
}

#[test]
fn file_names_follow_the_tools_rules() {
    let mut info = info();
    let check = |info: &RunInfo, label, expected: &str| {
        assert_eq!(vllm_file_name(info, label), expected);
    };
    check(&info, None, "vllm-20.0qps-concurrency64-model-8b-20251009-085320.json");
    info.load.max_concurrency = None;
    info.load.request_rate = None;
    check(&info, Some("mine"), "mine-infqps-model-8b-20251009-085320.json");
    info.load.stages = vec![RecordedStage {
        text: "run@1..20/s".to_owned(),
        rates: Some((1.0, 20.0)),
        ..RecordedStage::default()
    }];
    check(&info, None, "vllm-ramp-up-linear-1qps-20qps-model-8b-20251009-085320.json");
    assert_eq!(sglang_file_name(&info, 100, Some((80, 16))), "vllm_1009_100_80_16.jsonl");
    assert_eq!(sglang_file_name(&info, 100, None), "vllm_1009_100_random.jsonl");
}

/// Values that both reports have must be the same; a printed block and a file differ in which they
/// have.
fn same_values(file: &Report, block: &Report) {
    let mut shared = 0;
    for (key, value) in block.values.iter() {
        let saved = file.values.get(key).and_then(|value| value.scalar.as_f64());
        if let (Some(saved), Some(printed)) = (saved, value.scalar.as_f64()) {
            assert!((saved - printed).abs() < 1e-9, "{key:?}");
            shared += 1;
        }
    }
    assert!(shared >= 20, "only {shared} values in common");
}

#[test]
fn what_was_saved_is_read_back() {
    let (summary, info, shown) = (summary(), info(), Selection::default());
    let file = file(&summary, &info, &shown);
    let text =
        format!("{}{APPEND_SEPARATOR}{}", vllm_json(&file).unwrap(), sglang_line(&file).unwrap());
    let reports = read(&text).unwrap();
    assert_eq!(reports.len(), 2);
    let block = |layout| from_summary(&summary, &info, layout, &shown).unwrap();
    same_values(&reports[0], &block(Layout::V4));
    same_values(&reports[1], &block(Layout::S3));
    assert_eq!(reports[1].words(Field::TrafficRate), Some("20.0"));
    assert_eq!(reports[0].context.heading.as_deref(), Some("org/model-8b"));
}

#[test]
fn python_s_numbers_and_old_keys_are_understood() {
    let text = r#"{"backend": "sglang", "tag": "say \"NaN\" Infinity", "request_rate": Infinity,
        "total_throughput": 5.5, "request_throughput": 1, "mean_itl_ms": NaN, "p99.9_ttft_ms": 7.25}
        {"request_throughput": 2.5, "request_goodput:": 2.25}"#;
    let reports = read(text).unwrap();
    assert_eq!(reports[0].words(Field::TrafficRate), Some("inf"));
    assert_eq!(reports[0].context.heading.as_deref(), Some("say \"NaN\" Infinity"));
    let p999 = Stat::Percentile(Percentile::parse("99.9").unwrap());
    assert_eq!(reports[0].latency(Metric::Ttft, p999), Some(7.25));
    assert_eq!(reports[0].latency(Metric::Itl, Stat::Mean), None);
    let unread: Vec<_> = reports[0].unread.iter().map(|it| (&*it.label, &*it.text)).collect();
    assert_eq!(unread, [("mean_itl_ms", "nan")], "said, as in a printed report");
    assert_eq!(reports[1].number(Field::Goodput), Some(2.25));
    assert!(reports[1].values.get(Key::Field(Field::Successful)).is_none());
}

#[test]
fn a_file_of_another_kind_is_refused_with_a_reason() {
    let check = |text: &str, expected: &str| {
        let error = read(text).unwrap_err();
        assert!(matches!(error, Error::BadResult(_)));
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("{\"a\": 1}", "no `request_throughput`, nor the metrics of another known tool");
    check("{\"a\": ", "object 1: EOF");
}

#[test]
fn an_object_that_cannot_be_read_costs_only_itself() {
    let one = "{\"request_throughput\": 1}";
    let found = read(&format!("{one}\n{{oops}}\n{one}\n{{\"a\": 1}}\n")).unwrap();
    let problems: Vec<String> = found
        .iter()
        .map(|report| report.problems.iter().map(ToString::to_string).collect())
        .collect();
    assert_eq!(found.len(), 2);
    assert!(problems[0].contains("object 2: key must be a string"), "{problems:?}");
    assert!(problems[1].contains("no `request_throughput`"), "{problems:?}");
}

#[test]
fn results_inside_another_document_are_found() {
    let one = r#"{"request_throughput": 2.0, "duration": 1.0, "completed": 2}"#;
    for text in [
        format!(r#"{{"results": [{one}, {one}], "commit": "abc"}}"#),
        format!(r#"{{"small": {one}, "large": {{"runs": [{one}]}}}}"#),
        format!(r#"[{{"result": {one}}}, 5, null, {{"result": {one}}}]"#),
    ] {
        let found = read(&text).unwrap();
        assert_eq!(found.len(), 2, "{text}");
        assert!(found.iter().all(|report| report.problems.is_empty()));
    }
}

/// Keys without a unit were passed over: a file with latencies was one without.
#[test]
fn latencies_that_inferencex_saves_in_seconds_are_read() {
    let check = |text: &str, expected: Option<f64>| {
        let report = &crate::files::read(text).unwrap()[0];
        assert_eq!(report.latency(Metric::Ttft, Stat::Median), expected, "{text}");
    };
    check(r#"{"request_throughput": 2.0, "completed": 4, "median_ttft": 0.25}"#, Some(250.0));
    check(
        r#"{"request_throughput": 2.0, "median_ttft": 0.25, "median_ttft_ms": 251.0}"#,
        Some(251.0),
    );
    check(r#"{"hw": "b200", "tput_per_gpu": 1234.5, "conc": 32, "median_ttft": 0.5}"#, Some(500.0));
}
