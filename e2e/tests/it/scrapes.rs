//! What stands beside the load: metrics of servers that die or lie, GPUs, and files made of a run.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::program::{LONGEST, Server, run};

/// An endpoint that gives its nth asker the page that `page` makes of n, or hangs up on it. Its thread
/// ends with the test's process.
fn endpoint(page: impl Fn(u64) -> Option<String> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming()) {
            answer(stream.unwrap(), page(number));
        }
    });
    url
}

fn answer(mut stream: TcpStream, page: Option<String>) {
    let Some(page) = page else { return };
    let _ = stream.read(&mut [0; 4096]);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", page.len());
    let _ = stream.write_all((head + &page).as_bytes());
}

/// A run of twenty requests with these further flags, and its summary.
fn summary(folder: &std::path::Path, flags: &str) -> Value {
    let server = Server::quick();
    let line = format!(
        "bench --base-url {} --num-prompts 20 --max-concurrency 4 --random-input-len 8 \
         --random-output-len 12 --scrape-interval 0.05 --quiet --run-dir r {flags}",
        server.url
    );
    run(folder, &line).succeeded();
    run(folder, "report r --format json").succeeded().json()["summary"].clone()
}

fn has_note(summary: &Value, code: &str) -> bool {
    summary["notes"].as_array().unwrap().iter().any(|note| note["code"] == code)
}

#[test]
fn a_server_s_counters_and_first_token_times_stand_beside_ours() {
    let folder = tempfile::tempdir().unwrap();
    let found = summary(folder.path(), "");
    assert_eq!(found["server"]["is_whole"], true, "{:#}", found["server"]);
    assert_eq!(found["server"]["generation_tokens"], 240.0);
    assert!(found["server"]["ttft_p99"]["value_ms"].as_f64().unwrap() > 1.0);
    assert!(!found["ttft_parts"].as_array().unwrap().is_empty());
    assert!(!found["steps"].is_null());
}

#[test]
fn a_server_whose_last_reading_failed_is_not_said_to_have_counted_less() {
    let folder = tempfile::tempdir().unwrap();
    let url =
        endpoint(|number| (number == 0).then(|| "vllm:generation_tokens_total 7\n".to_owned()));
    let found = summary(folder.path(), &format!("--metrics-url {url}"));
    assert_eq!(found["server"]["is_whole"], false, "{:#}", found["server"]);
    assert!(!has_note(&found, "server-counted-less"), "{:#}", found["notes"]);
}

#[test]
fn an_endpoint_that_lies_or_hangs_up_costs_its_figures_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let liar = endpoint(|_| Some("<html>\nvllm:generation_tokens_total NaN\n\0\n".to_owned()));
    let mute = endpoint(|_| None);
    let found = summary(folder.path(), &format!("--metrics-url {liar} --metrics-url {mute}"));
    assert_eq!(found["counts"]["succeeded"], 20);
    assert_eq!(found["server"]["generation_tokens"], Value::Null);
    assert_eq!(found["server"]["engine"], Value::Null);
}

#[test]
fn an_exporter_of_gpus_tells_the_energy_of_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let url = endpoint(|number| {
        let labels = "{gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA X\"}";
        Some(format!(
            "DCGM_FI_DEV_GPU_UTIL{labels} 93\nDCGM_FI_DEV_FB_USED{labels} 71680\n\
             DCGM_FI_DEV_POWER_USAGE{labels} 512.5\n\
             DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} {}\n",
            5_000_000 + number * 24_000
        ))
    });
    let found = summary(folder.path(), &format!("--metrics-url {url}"));
    let gpu = &found["server"]["gpu"];
    let number = |key: &str| gpu[key].as_f64().unwrap_or_else(|| panic!("no {key} in {gpu:#}"));
    assert_eq!(gpu["source"], "DCGM");
    assert!((number("power_w_mean") - 512.5).abs() < 1e-6);
    let per_token = number("energy_j") / 240.0;
    assert!((number("energy_j_per_output_token") - per_token).abs() < 1e-9 && per_token > 0.0);
    let text = run(folder.path(), "report r --layout tokometer --details").succeeded().stdout;
    assert!(text.contains("J per output token (1 GPU by DCGM)"), "{text}");
}

#[test]
fn a_run_becomes_tables_and_a_page_of_markdown() {
    let folder = tempfile::tempdir().unwrap();
    let _summary = summary(folder.path(), "");
    let line = "report r --csv r.csv --parquet r.parquet --markdown r.md --perfetto r.json";
    let _ = run(folder.path(), line).succeeded();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let csv = String::from_utf8(read("r.csv")).unwrap();
    assert_eq!(csv.lines().filter(|line| line.contains(",measure,")).count(), 20, "{csv}");
    let parquet = read("r.parquet");
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let markdown = String::from_utf8(read("r.md")).unwrap();
    assert!(markdown.starts_with("## run ") && markdown.contains("| TTFT |"), "{markdown}");
    let _trace: Value = serde_json::from_slice(&read("r.json")).unwrap();
}

/// What an endpoint of metrics on `host` was sent by a run whose target gets a header of its own.
fn heard_on(host: &str) -> String {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let (heard, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let _ = heard.send(String::from_utf8_lossy(&request[..length]).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let flags = "--header x-team=red --metrics-header x-page=blue --api-key verysecret";
    let _summary = summary(folder.path(), &format!("{flags} --metrics-url {url}"));
    requests.recv_timeout(LONGEST).unwrap()
}

/// Another port of the target's host got the key, in clear text beside a target with TLS.
#[test]
fn key_and_headers_of_the_target_go_to_no_other_server() {
    for host in ["127.0.0.1", "127.0.0.2"] {
        let heard = heard_on(host);
        assert!(heard.starts_with("GET /metrics") && heard.contains("x-page: blue"), "{heard}");
        assert!(!heard.contains("x-team") && !heard.contains("verysecret"), "{heard}");
    }
}
