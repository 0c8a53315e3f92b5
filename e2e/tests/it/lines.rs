//! Command lines that people have, with nothing changed but the program and the address.

use crate::program::{Server, command, ended, root, run};

/// A book of many words.
fn book() -> String {
    let chapter = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    chapter.repeat(20)
}

/// Conversations in ShareGPT's form.
fn conversations(count: usize) -> String {
    let talk = |index: usize| {
        serde_json::json!({"id": index.to_string(), "conversations": [
            {"from": "human", "value": format!("What would you say about number {index}?")},
            {"from": "gpt", "value": format!("It follows {} and that is all.", index.max(1) - 1)},
        ]})
    };
    serde_json::to_string(&(0..count).map(talk).collect::<Vec<_>>()).unwrap()
}

#[test]
fn the_book_sweep_over_tgi_s_protocol_works_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("book.txt"), book()).unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "tgi"]);
    let line = format!(
        "bench --backend tgi --model meta-llama/Llama-3.1-405B-Instruct --dataset-name book \
         --book-input-len 10000 --endpoint /generate_stream --dataset-path=book.txt \
         --num-prompt=1,2,...,64 --details --base-url {}",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded();
    let counts: Vec<&str> =
        shown.stdout.lines().filter(|line| line.starts_with("Successful requests:")).collect();
    assert_eq!(counts.len(), 7, "{}", shown.stdout);
    for (at, count) in counts.iter().enumerate() {
        assert!(count.trim_end().ends_with(&format!(" {}", 1 << at)), "{count}");
    }
    // All slices of the last point are exactly as long as asked.
    shown.prints(&[&format!("Total input tokens:                      {}", 640_000)]);
    let instead = "/tokenize instead of the tokenizer of `meta-llama/Llama-3.1-405B-Instruct`";
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(instead), "{}", shown.stdout);
    // The last table has a row for each point.
    let table = shown.stdout.rsplit_once("requests  req/s").expect("a table of all points").1;
    let row = |line: &str| line.trim_start().starts_with("64 ");
    assert!(table.lines().any(row), "{}", shown.stdout);
}

#[test]
fn the_sglang_line_with_conversations_works_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("talks.json"), conversations(120)).unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", "sglang"]);
    let line = format!(
        "bench --backend sglang-oai-chat --dataset-name sharegpt --dataset-path talks.json \
         --num-prompts 100 --request-rate 20 --max-concurrency 20 --warmup-requests 5 --base-url {}",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    for part in [
        "Backend:                                 sglang-oai-chat\n",
        "Traffic request rate:                    20.0      \n",
        "Max request concurrency:                 20        \n",
        "Successful requests:                     100       \n",
        "Concurrency:",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn the_vllm_line_with_five_percentiles_works_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms"]);
    let line = format!(
        "bench --backend vllm --dataset-name random --random-input-len 8191 --random-output-len 1 \
         --num-prompts 512 --percentile-metrics ttft,tpot,itl,e2el \
         --metric-percentiles 50,75,90,95,99 --base-url {}",
        server.url
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    for part in [
        "Successful requests:                     512       \n",
        "Total input tokens:                      4193792   \n",
        "Total generated tokens:                  512       \n",
        "P75 TTFT (ms):",
        "P95 E2EL (ms):",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn both_spellings_and_prefixes_of_a_flag_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |line: &str| {
        ended(&mut command(folder.path(), &format!("bench --print-plan {line}"))).succeeded().stdout
    };
    let written = plan("--model m --num-prompts 5 --random-input-len 7 --random-output-len 8");
    for other in [
        "--model m --num_prompts 5 --random_input_len 7 --random_output_len 8",
        "--model m --num-prompt 5 --random-input 7 --random-output 8",
        "--model=m --num_prompt=5 --random-input=7 --random-output=8",
    ] {
        assert_eq!(plan(other), written, "{other}");
    }
}
