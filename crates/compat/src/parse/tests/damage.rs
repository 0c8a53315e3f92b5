//! Reports as people send them: behind prefixes, in frames, damaged, in other files.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{SEEDS, raw_blocks};
use crate::files;
use crate::model::{Field, Key, Metric, Problem, Stat};
use crate::{Report, parse};

/// The numbers and words of a report, without how they were written.
fn figures(report: &Report) -> BTreeMap<Key, String> {
    report.values.iter().map(|(key, value)| (key, format!("{:?}", value.scalar))).collect()
}

fn framed(block: &str, frame: impl Fn(usize, &str) -> String) -> String {
    block.lines().enumerate().map(|(at, line)| frame(at, line) + "\n").collect()
}

/// One block of each layout that the seeds have.
fn samples() -> Vec<String> {
    [0, 1, 2, 4].into_iter().map(|seed| raw_blocks(SEEDS[seed].1).remove(0)).collect()
}

#[test]
fn every_frame_around_a_block_gives_the_same_figures() {
    let check = |name: &str, frame: &dyn Fn(usize, &str) -> String| {
        for block in samples() {
            let text = framed(&block, frame);
            let found = parse(&text);
            assert_eq!(found.len(), 1, "{name}\n{text}");
            let plain = &parse(&block)[0];
            assert_eq!(figures(&found[0]), figures(plain), "{name}\n{text}");
            assert_eq!(found[0].layout, plain.layout, "{name}");
            assert_eq!((&found[0].problems, &found[0].unread), (&vec![], &vec![]), "{name}");
        }
    };
    check("quotation", &|_, line| format!("> {line}"));
    check("quotation in a quotation", &|_, line| format!("> > {line}"));
    check("Python comment", &|_, line| format!("# {line}"));
    check("code comment", &|_, line| format!("    // {line}"));
    check("bars", &|_, line| format!("| {line:<60} |"));
    check("box", &|_, line| format!("│ {line:<60} │"));
    check("process", &|_, line| format!("(APIServer pid=123) {line}"));
    check("vLLM's log", &|at, line| format!("INFO 11-15 08:00:{at:02} [serve.py:{at}] {line}"));
    check("CI", &|at, line| format!("2026-11-15T08:00:{at:02}.1234567Z {line}"));
    check("container", &|_, line| format!("bench-1  | {line}"));
    check("pod", &|_, line| format!("[pod/bench-x7/main] {line}"));
    check("journal", &|at, line| format!("Nov 15 08:00:{at:02} host python[12]: {line}"));
    check("colours", &|_, line| format!("\u{1b}[1;32m{line}\u{1b}[0m"));
    check("indent", &|_, line| format!("      {line}"));
    check("uneven indent", &|at, line| " ".repeat(at % 5) + line);
    check("carriage return", &|_, line| format!("{line}\r"));
    check("fence", &|at, line| if at == 0 { format!("```text\n{line}") } else { line.to_owned() });
    check("one blank", &|_, line| match line.split_once(": ") {
        Some((label, value)) => format!("{label}: {}", value.trim()),
        None => line.to_owned(),
    });
    check("tab", &|_, line| match line.split_once(": ") {
        Some((label, value)) => format!("{label}:\t{}", value.trim()),
        None => line.to_owned(),
    });
}

#[test]
fn noise_between_the_lines_changes_nothing() {
    for block in samples() {
        let noise = "INFO:     127.0.0.1:5000 - \"POST /v1/completions HTTP/1.1\" 200 OK\n\
                     INFO 11-15 Avg prompt throughput: 10.0 tokens/s, Running: 8 reqs\n\n";
        let text: String = block.lines().flat_map(|line| [line, "\n", noise]).collect();
        assert_eq!(figures(&parse(&text)[0]), figures(&parse(&block)[0]));
        assert_eq!(parse(&text)[0].problems, []);
    }
}

#[test]
fn a_damaged_value_costs_only_itself() {
    for block in samples() {
        let plain = &parse(&block)[0];
        let lines: Vec<&str> = block.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some((label, value)) = line.split_once(": ") else { continue };
            // Words are read as they are.
            if value.trim().parse::<f64>().is_err() || label == "Traffic request rate" {
                continue;
            }
            for damage in
                ["N/A", "...", "1 of 1", "", "—", "12.3 -> 14", "see below", "~5", "1e", "?"]
            {
                let mut damaged = lines.clone();
                let changed = format!("{label}: {damage}");
                damaged[at] = &changed;
                let report = &parse(&(damaged.join("\n") + "\n"))[0];
                let lost: Vec<Key> = plain
                    .values
                    .iter()
                    .map(|(key, _)| key)
                    .filter(|key| report.values.get(*key).is_none())
                    .collect();
                assert_eq!((lost.len(), report.unread.len()), (1, 1), "{changed}");
                assert_eq!(report.unread[0].text, damage, "{changed}");
                assert_eq!(report.values.iter().count() + 1, plain.values.iter().count());
                assert_eq!(report.problems, [], "{changed}");
            }
        }
    }
}

#[test]
fn values_in_other_spellings_are_the_same_values() {
    let block = raw_blocks(SEEDS[0].1).remove(0);
    let plain = figures(&parse(&block)[0]);
    let check = |from: &str, to: &str| {
        assert!(block.contains(from), "{from}");
        let report = &parse(&block.replacen(from, to, 1))[0];
        assert_eq!((figures(report), &report.unread), (plain.clone(), &vec![]), "{to}");
    };
    check("3000      ", "3,000");
    check("1055.18   ", "1,055.18");
    check("Mean TTFT (ms):", "- **mean TTFT (ms):**");
    check("Mean TTFT (ms):", "mean_ttft_ms =");
    check("Mean TTFT (ms):", "| Mean TTFT (ms) |");
}

#[test]
fn sections_that_nobody_knows_are_carried_as_they_are() {
    let block = raw_blocks(SEEDS[0].1).remove(0);
    let foreign = "------------------Warm-up Phase-------------------\n\
                   Mean TTFT (ms):                          9999.00   \n\
                   Benchmark duration (s):                  5.00      \n\
                   Joules per token:                        0.31      \n\
                   ---------------Time to First Token----------------\n";
    let text = block.replace("---------------Time to First Token----------------\n", foreign);
    assert!(text.len() > block.len());
    let report = &parse(&text)[0];
    assert_eq!(figures(report), figures(&parse(&block)[0]));
    assert_eq!((&report.problems, &report.unread), (&vec![], &vec![]));
    assert_eq!(crate::print_same(report).unwrap(), text);
    // The same line twice, with the same value, is not a mixture.
    let twice = block.replacen("Mean TTFT (ms):", "Mean TTFT (ms): 463.85\nMean TTFT (ms):", 1);
    assert_eq!(parse(&twice)[0].problems, []);
}

#[test]
fn a_part_of_a_report_without_its_header_is_read() {
    let block = raw_blocks(SEEDS[2].1).remove(0);
    let inner: Vec<&str> = block.lines().skip(1).take(block.lines().count() - 2).collect();
    let found = parse(&format!("Look at this:\n\n{}\n\nIs it slow?\n", inner.join("\n")));
    assert_eq!(found.len(), 1);
    assert_eq!(figures(&found[0]), figures(&parse(&block)[0]));
    assert_eq!(found[0].problems, [Problem::NoHeader { line: 3 }]);
    assert_eq!(parse("A run:\nMean time: 5\nBackend: vllm\nDuration: long\n"), []);
}

#[test]
fn tables_have_a_report_per_row() {
    let check = |text: &str| {
        let found = parse(text);
        let mean = |report: &Report| report.latency(Metric::Ttft, Stat::Mean);
        let means: Vec<f64> = found.iter().filter_map(mean).collect();
        assert_eq!(means, [500.0, 600.0], "{text}\n{found:#?}");
        assert!(found.iter().all(|report| report.number(Field::Duration) == Some(10.0)), "{text}");
    };
    check(
        "> | run | Successful requests | Benchmark duration (s) | Mean TTFT (ms) |\n> |---|---|---|---|\n\
         > | a | 100 | 10.0 | 500 |\n> | b | 200 | 10.0 | 600 |\n",
    );
    check("name,completed,duration,mean_ttft_ms\n\"a, b\",100,10.0,500\nc,200,10.0,600\n");
    assert_eq!(parse("| a | b |\n|---|---|\n| 1 | 2 |\n"), []);
}

#[test]
fn blocks_inside_json_logs_and_result_files_inside_text_are_found() {
    let block = raw_blocks(SEEDS[1].1).remove(0);
    let plain = figures(&parse(&block)[0]);
    let log: String = block
        .lines()
        .map(|line| {
            serde_json::json!({"log": format!("{line}\n"), "stream": "stdout"}).to_string() + "\n"
        })
        .collect();
    assert_eq!(figures(&files::read(&log).unwrap()[0]), plain);
    let lines: Vec<String> = block.lines().map(|line| format!("{line}\n")).collect();
    let notebook = serde_json::json!({"cells": [{"outputs": [{"text": lines}]}]}).to_string();
    assert_eq!(figures(&files::read(&notebook).unwrap()[0]), plain);
    let result =
        r#"{"request_throughput": 2.0, "completed": 4, "mean_ttft_ms": "N/A", "duration": "2.0"}"#;
    for text in [result.to_owned(), format!("[{result}]"), format!("{{\"cut\": \n{result}\n{{x")] {
        let found = files::read(&text).unwrap();
        assert_eq!(found.len(), 1, "{text}");
        assert_eq!(found[0].number(Field::Duration), Some(2.0), "{text}");
        assert_eq!(found[0].unread[0].text, "N/A", "{text}");
    }
}

/// Shapes that a reader with nested searches takes minutes for.
#[test]
fn long_texts_of_any_kind_are_read_to_their_end() {
    let block = raw_blocks(SEEDS[0].1).remove(0);
    let header = "============ Serving Benchmark Result ============\n";
    let percentile = |at| format!("P{:.3} TTFT (ms): 1.00", f64::from(at) / 100.0);
    let percentiles = (0..1_500).map(percentile).collect::<Vec<_>>().join("\n");
    for text in [
        ":".repeat(30_000),
        "Mean TTFT (ms): ".repeat(1_500),
        header.repeat(400),
        format!("{header}{percentiles}"),
        format!("{header}{}", "  Position 1:  2.00\n".repeat(1_500)),
        format!("{}\n{}", "a: b\n".repeat(1_500), block.repeat(10)),
        format!("vllm bench serve \\\n{}{block}", "--flag \\\n".repeat(1_500)),
        "| a | b |\n".repeat(1_500),
        "|".repeat(30_000),
        format!("{}\n{}", "| Mean TTFT ".repeat(500), "| 1 ".repeat(1_500)),
        "{\"a\":".repeat(5_000),
        "{\n".repeat(5_000),
        "=".repeat(30_000),
        "-".repeat(30_000),
        "\u{1b}[".repeat(10_000),
        "1,".repeat(10_000),
    ] {
        for report in files::read(&text).unwrap_or_default().into_iter().take(50) {
            let _text = crate::print_same(&report);
        }
    }
}

/// A prefix with dashes of its own hid the title of a section, and the section's lines were lost.
#[test]
fn a_prefix_with_dashes_hides_no_section() {
    for prefix in ["---a ", "--- INFO --- ", "---=|", "a---b ---c] "] {
        for block in samples() {
            let prefixed = |line: &str| format!("{prefix}{line}\n");
            let text: String = block.lines().map(prefixed).collect();
            let alone: String = block
                .lines()
                .map(|line| if line.contains("---") { prefixed(line) } else { format!("{line}\n") })
                .collect();
            for text in [text, alone] {
                let found = parse(&text);
                assert_eq!(found.len(), 1, "{text}");
                assert_eq!(figures(&found[0]), figures(&parse(&block)[0]), "{text}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_prefix_and_noise_around_a_valid_block_gives_the_same_figures(
        sample in 0_usize..4,
        prefixes in prop::collection::vec("[ -9;-~]{0,20}[ \\]|>)]", 60),
        noise in prop::collection::vec("[a-z .,]{0,30}", 60),
        is_crlf in any::<bool>(),
    ) {
        let block = samples().remove(sample);
        let end = if is_crlf { "\r\n" } else { "\n" };
        let text: String = block
            .lines()
            .zip(prefixes.iter().zip(&noise))
            .flat_map(|(line, (prefix, noise))| [prefix.as_str(), line, end, noise, end])
            .collect();
        let found = parse(&text);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(figures(&found[0]), figures(&parse(&block)[0]));
    }
}

/// In a terminal of 42 columns, 200 requests became 2 and the block passed as consistent.
#[test]
fn a_block_of_a_narrow_terminal_is_not_read() {
    for block in samples() {
        for width in [17, 25, 31, 36, 41, 42, 44, 45, 47, 49] {
            let pieces = |line: &str| -> Vec<String> {
                let letters: Vec<char> = line.chars().collect();
                letters.chunks(width).map(|piece| piece.iter().collect()).collect()
            };
            let text: Vec<String> = block.lines().flat_map(pieces).collect();
            let found = parse(&format!("$ run\n{}\nthen\n", text.join("\n")));
            assert_eq!(found, [], "{width}");
        }
    }
}

/// SGLang prints this for diffusion models. The doctor called its labels those of another tool.
#[test]
fn a_report_of_a_diffusion_model_is_read() {
    let text = "================= Serving Benchmark Result =================\n\
                Task:                                    text-to-image\n\
                Model:                                   Qwen/Qwen-Image\n\
                --------------------------------------------------\n\
                Benchmark duration (s):                  300.79\n\
                Request rate:                            inf\n\
                Max request concurrency:                 20\n\
                Successful requests:                     18/20\n\
                --------------------------------------------------\n\
                Request throughput (req/s):              0.06\n\
                Latency Mean (s):                        150.0378\n\
                Latency P99 (s):                         299.0378\n\
                --------------------------------------------------\n\
                Peak Memory Max (MB):                    48018.83\n\
                Peak Memory Mean (MB):                   48018.83\n\
                ============================================================\n";
    let report = &parse(text)[0];
    assert_eq!((&report.problems, &report.unread), (&vec![], &vec![]));
    assert_eq!(
        (report.number(Field::Successful), report.number(Field::Failed)),
        (Some(18.0), Some(2.0))
    );
    let value = report.values.get(Key::Latency(Metric::E2el, Stat::Mean)).unwrap();
    assert!((value.scalar.as_f64().unwrap() - 150_037.8).abs() < 1e-6, "{value:?}");
    assert!((value.half_unit - 0.05).abs() < 1e-9, "{value:?}");
    assert_eq!(crate::print_same(report).unwrap(), text);
    // A line of its own that agrees was a second block.
    let line = "Failed requests:                         2\n";
    let both = text.replacen("18/20\n", &format!("18/20\n{line}"), 1);
    assert_eq!(parse(&both)[0].problems, []);
}

/// A block without a header among others was taken for a mixture of two.
#[test]
fn a_report_without_its_header_among_others_is_read() {
    let blocks = samples();
    let bare: Vec<&str> = blocks[1].lines().skip(1).collect();
    let text = format!("{}\nthen\n{}\n# Next\n{}", blocks[0], bare.join("\n"), blocks[2]);
    let found = parse(&text);
    assert_eq!(found.len(), 3, "{text}");
    for (report, block) in found.iter().zip(&blocks) {
        assert_eq!(figures(report), figures(&parse(block)[0]));
    }
    assert!(matches!(found[1].problems[..], [Problem::NoHeader { .. }]), "{:?}", found[1].problems);
    assert_eq!(found[2].context.heading.as_deref(), Some("Next"));
    // A separator of a log is no line of another block.
    let ruled = format!("{}{}\n", blocks[0], "=".repeat(60));
    assert_eq!(parse(&ruled)[0].problems, []);
}

/// What a fork prints after the last known line of a block without a footer is the block's own.
#[test]
fn a_block_without_a_footer_ends_after_the_lines_of_a_fork() {
    let block = raw_blocks(SEEDS[2].1).remove(0);
    let lines: Vec<&str> = block.lines().collect();
    let body = lines[..lines.len() - 1].join("\n");
    let fork = "Energy per token (J):                    0.31      \n";
    let text = format!("{body}\n{fork}done: 5\n");
    let report = &parse(&text)[0];
    assert_eq!(report.problems, [Problem::NoFooter { line: lines.len() }]);
    assert_eq!(crate::print_same(report).unwrap(), format!("{body}\n{fork}"));
}

#[test]
fn columns_of_a_published_grid_are_figures() {
    let found = parse(
        "input_len,completed,duration_s,total_input_tokens,total_output_tokens,output_tok_s,ttft_ms_p50,ttft_ms_p99,tpot_ms_p99\n\
         1024,40,31.082,40960,5120,164.728,265.0,584.818,26.455\n",
    );
    let report = &found[0];
    assert_eq!(report.number(Field::OutputThroughput), Some(164.728));
    assert_eq!(report.latency(Metric::Ttft, Stat::Median), Some(265.0));
    assert_eq!(report.latency(Metric::Tpot, Stat::P99), Some(26.455));
}
