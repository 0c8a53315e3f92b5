//! Reports that other tools printed.

use crate::program::{root, run};

#[test]
fn printed_reports_become_a_table_and_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = root().join("fixtures/seeds");
    let mut files: Vec<String> = std::fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| path.display().to_string())
        .collect();
    files.sort();
    let line = format!("report {}", files.join(" "));
    let rows = run(folder.path(), &format!("{line} --format csv")).succeeded().stdout;
    assert_eq!(rows.lines().count(), 1 + 42);
    let same = run(folder.path(), &format!("{line} --layout same")).succeeded().stdout;
    let originals: Vec<String> =
        files.iter().flat_map(|file| blocks(&std::fs::read_to_string(file).unwrap())).collect();
    let printed = blocks(&same);
    assert_eq!((originals.len(), printed.len()), (42, 42));
    for (at, (original, printed)) in originals.iter().zip(&printed).enumerate() {
        // The trailing blanks of the one SGLang report were lost before it got here.
        let stripped: Vec<&str> = printed.lines().map(str::trim_end).collect();
        let is_stripped = original.contains("\nBackend: ");
        let expected = if is_stripped { stripped.join("\n") } else { printed.clone() };
        assert_eq!(*original, expected, "block {at}");
    }
    assert_eq!(originals.iter().filter(|block| block.contains("\nBackend: ")).count(), 3);
}

/// The blocks of a text, each from its header to its footer, byte for byte.
fn blocks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in text.split('\n') {
        if line.contains(" Serving Benchmark Result ") {
            block = Some(Vec::new());
        }
        if let Some(lines) = &mut block {
            lines.push(line);
        }
        if line.len() == 50 && line.bytes().all(|byte| byte == b'=') {
            found.extend(block.take().map(|lines| lines.join("\n")));
        }
    }
    found
}

#[test]
fn the_doctor_s_exit_code_tells_whether_a_report_contradicts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = root().join("fixtures/seeds");
    let row = |name: &str, code: i32| {
        let path = seeds.join(name);
        let ended = run(folder.path(), &format!("doctor {}", path.display()));
        assert_eq!(ended.code, Some(code), "{name}: {}", ended.stdout);
    };
    row("000_659e43dd1329acd2.txt", 0);
    row("004_8163290e84c3957c.txt", 1);
}

/// A report that somebody pasted: behind a quote mark, with a value that is none.
#[test]
fn the_doctor_reads_standard_input_and_writes_a_comment_or_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let seed = root().join("fixtures/seeds/000_659e43dd1329acd2.txt");
    let text = std::fs::read_to_string(seed).unwrap().replace("463.85", "@all  ");
    let pasted: String = text.lines().flat_map(|line| ["> ", line, "\n"]).collect();
    std::fs::write(folder.path().join("pasted.txt"), pasted).unwrap();
    let doctor = |flags: &str| {
        let input = std::fs::File::open(folder.path().join("pasted.txt")).unwrap();
        let mut command = std::process::Command::new(crate::program::path());
        command.current_dir(folder.path()).arg("doctor").args(flags.split_whitespace());
        let output = command.stdin(input).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{flags}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = doctor("-");
    assert!(plain.contains("standard input, block 1 (v2, 3000 requests"), "{plain}");
    assert!(plain.contains("`@all` is not a value of Mean TTFT (ms) (line 10)"), "{plain}");
    let comment = doctor("- --format markdown");
    assert!(comment.contains("| `readable-values` |") && !comment.contains('@'), "{comment}");
    let page = doctor("- --html -");
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("http:"), "{page}");
    assert_eq!(doctor("- --html page.html"), "");
    assert_eq!(std::fs::read_to_string(folder.path().join("page.html")).unwrap(), page);
}

/// Markdown was the page of all identities, CSV plain text.
#[test]
fn the_doctor_prints_its_findings_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let seed = root().join("fixtures/seeds/004_8163290e84c3957c.txt");
    let doctor = |format: &str| {
        run(folder.path(), &format!("doctor {} --format {format}", seed.display())).stdout
    };
    let markdown = doctor("markdown");
    assert!(markdown.contains("| **inconsistent** | `retokenized` |"), "{markdown}");
    assert!(!markdown.contains("## Identities"), "{markdown}");
    let csv = doctor("csv");
    assert!(csv.starts_with("file,block,level,rule,what,meaning\n"), "{csv}");
    assert!(csv.contains(",1,inconsistent,retokenized,"), "{csv}");
}

/// One file without a report hid the findings of all others.
#[test]
fn the_doctor_examines_what_it_can_read_and_names_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let seed = root().join("fixtures/seeds/004_8163290e84c3957c.txt");
    let ended = run(folder.path(), &format!("doctor empty {} missing", seed.display()));
    ended.says(2, &["inconsistent[retokenized]"]);
    let first = ended.stderr.find("error: cannot find a report in `empty`").expect(&ended.stderr);
    let second = ended.stderr.find("error: cannot read `missing`").expect(&ended.stderr);
    assert!(first < second, "{}", ended.stderr);
}

/// A model's name in a result file changed the terminal's colour and began lines of its own.
#[test]
fn words_of_a_result_file_are_data() {
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"model_id": "\u001b[31mEVIL\n|x|", "completed": 2, "duration": 1.0,
        "request_throughput": 2.0, "total_input_tokens": 2, "total_output_tokens": 2}"#;
    std::fs::write(folder.path().join("evil.json"), result).unwrap();
    for line in ["doctor evil.json", "report evil.json", "doctor evil.json --format csv"] {
        let shown = run(folder.path(), line).stdout;
        assert!(!shown.contains('\u{1b}') && !shown.contains("EVIL\n"), "{line}: {shown}");
    }
}

/// Both sides were the same reports, so that every rule of `--fail-if` passed.
#[test]
fn standard_input_is_not_compared_with_itself() {
    let folder = tempfile::tempdir().unwrap();
    let seed = root().join("fixtures/seeds/000_659e43dd1329acd2.txt");
    let text = std::fs::read_to_string(seed).unwrap();
    let ended = crate::program::ended_with_input(folder.path(), "compare --a - --b -", &text);
    ended.says(2, &["standard input twice"]);
}

/// A run with a cap on its requests in flight, in the folder `r`.
fn measured(folder: &std::path::Path) {
    let server = crate::program::Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 8 --max-concurrency 4 --random-input-len 8 \
         --random-output-len 4 --quiet --run-dir r",
        server.url
    );
    let _ = run(folder, &line).succeeded();
}

#[test]
fn a_run_is_a_result_of_the_inferencex_kit_and_a_report_of_llm_d() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path());
    let line = "report r --inferencex n.json --llm-d d.json --gpus 8 --metadata hw=h200";
    let _ = run(folder.path(), line).succeeded();
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join(name)).unwrap()).unwrap()
    };
    let (result, aggregate, report) = (read("n.json"), read("agg_n.json"), read("d.json"));
    assert_eq!((&result["max_concurrency"], &result["hw"]), (&4.into(), &"h200".into()));
    let begin = result["benchmark_start_time_unix"].as_f64().unwrap();
    assert!(result["benchmark_end_time_unix"].as_f64().unwrap() > begin);
    let total = result["total_token_throughput"].as_f64().unwrap();
    let per_gpu = aggregate["tput_per_gpu"].as_f64().unwrap();
    assert!((per_gpu * 8.0 / total - 1.0).abs() < 1e-9, "{aggregate}");
    assert!(aggregate["mean_tpot"].is_number() && aggregate["mean_ttft"].is_number());
    assert_eq!(report["version"], "0.2");
    let requests = &report["results"]["request_performance"]["aggregate"]["requests"];
    assert_eq!((&requests["total"], &requests["failures"]), (&8.into(), &0.into()));
}

#[test]
fn a_history_says_what_cannot_be_compared_and_needs_two_steps() {
    let folder = tempfile::tempdir().unwrap();
    measured(folder.path());
    let refused = run(folder.path(), "report r --history");
    refused.says(2, &["a history of one step"]);
    let shown = run(folder.path(), "report r r --history --label a --label b").succeeded().stdout;
    assert!(shown.contains("no change called in 2 steps"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let _ = run(folder.path(), "report r r --history --html h.html").succeeded();
    let page = std::fs::read_to_string(folder.path().join("h.html")).unwrap();
    assert!(page.contains("\"title\":\"History: "), "the title names what was measured");
}

/// The table of a sweep had no load, no E2E and no verdict, and Parquet of several runs was refused.
#[test]
fn a_sweep_is_one_table_of_requests_and_one_of_points_with_load_and_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let server = crate::program::Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 8 --max-concurrency 1,4 --random-input-len 8 \
         --random-output-len 4 --quiet --run-dir s",
        server.url
    );
    let _ = run(folder.path(), &line).succeeded();
    let _ = run(folder.path(), "report s --csv t.csv --parquet t.parquet").succeeded();
    let text = std::fs::read_to_string(folder.path().join("t.csv")).unwrap();
    let (head, rows) = text.split_once('\n').unwrap();
    let at = |name: &str| head.split(',').position(|column| column == name).unwrap();
    let measured: Vec<Vec<&str>> = rows
        .lines()
        .map(|row| row.split(',').collect::<Vec<_>>())
        .filter(|row| row[at("phase")] == "measure")
        .collect();
    let of = |load: &str| measured.iter().filter(|row| row[at("max_concurrency")] == load).count();
    assert_eq!((measured.len(), of("1"), of("4")), (16, 8, 8), "{text}");
    for row in &measured {
        for key in ["ttft_ms", "tpot_ms", "itl_ms_mean", "itl_ms_max", "e2e_ms"] {
            assert!(row[at(key)].parse::<f64>().is_ok(), "{key} in {row:?}");
        }
        assert!(["VALID", "SUSPECT", "INVALID"].contains(&row[at("verdict")]), "{row:?}");
        assert_eq!(row[at("source")], "s");
    }
    let parquet = std::fs::read(folder.path().join("t.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));

    let rows = run(folder.path(), "report s --format json").succeeded().json();
    tokometer_e2e::schemas::assert_fits("table", &rows);
    let one = run(folder.path(), "report s/000-max_concurrency=1 --format json").succeeded();
    tokometer_e2e::schemas::assert_fits("summary", &one.json());
    let points = run(folder.path(), "report s --format csv").succeeded().stdout;
    let (head, rows) = points.split_once('\n').unwrap();
    let at = |name: &str| head.split(',').position(|column| column == name).unwrap();
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split(',').collect()).collect();
    let loads: Vec<&str> = rows.iter().map(|row| row[at("max_concurrency")]).collect();
    assert_eq!(loads, ["1", "4"], "{points}");
    assert!(rows.iter().all(|row| row[at("e2e_ms_p99")].parse::<f64>().is_ok()), "{points}");
    assert!(rows.iter().all(|row| row[at("verdict")].ends_with(['D', 'T'])), "{points}");
}
