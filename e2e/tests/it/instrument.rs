//! What spoils a measurement is named in the verdict: a client without kernel stamps, a proxy that
//! joins events, TLS records that hold many, a client and a server on one core.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{self, ProgramExit, Server, run};

const LOAD: &str = "--num-prompts 24 --max-concurrency 4 --random-input-len 20 \
    --random-output-len 20 --no-scrape --quiet --run-dir r";

fn summary(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("r/summary.json")).unwrap();
    let mut saved: Value = serde_json::from_str(&text).unwrap();
    saved["summary"].take()
}

fn notes(folder: &Path) -> Vec<String> {
    let summary = summary(folder);
    let notes = summary["notes"].as_array().unwrap();
    notes.iter().map(|note| note["code"].as_str().unwrap().to_owned()).collect()
}

fn bench(folder: &Path, url: &str, flags: &str) -> ProgramExit {
    run(folder, &format!("bench --base-url {url} {LOAD} {flags}")).succeeded()
}

#[test]
fn a_client_without_kernel_stamps_says_so_and_one_with_them_does_not() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    let folder = tempfile::tempdir().unwrap();
    let _ended = bench(folder.path(), &server.url, "--stamps user");
    assert!(notes(folder.path()).contains(&"user-stamps".to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let _ended = bench(folder.path(), &server.url, "");
    assert!(!notes(folder.path()).contains(&"user-stamps".to_owned()));
}

/// Passes one request on and hands its whole answer back at once, as a buffering gateway does.
fn join(mut client: TcpStream, server: &str) {
    let mut request = vec![0; 64 << 10];
    while let Ok(length @ 1..) = client.read(&mut request) {
        let mut upstream = TcpStream::connect(server).unwrap();
        upstream.write_all(&request[..length]).unwrap();
        let mut answer = Vec::new();
        let mut piece = [0; 4 << 10];
        while !answer.ends_with(b"0\r\n\r\n") {
            match upstream.read(&mut piece) {
                Ok(length @ 1..) => answer.extend_from_slice(&piece[..length]),
                _ => break,
            }
        }
        if client.write_all(&answer).is_err() {
            return;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
}

#[test]
fn a_proxy_that_joins_all_events_is_noticed_and_no_gap_is_printed() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let upstream = server.url.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let upstream = upstream.clone();
            std::thread::spawn(move || join(client, &upstream));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let flags = "--tokenizer cl100k --model simulated --ready-check-timeout-sec 0";
    let ended = bench(folder.path(), &proxy, flags);
    let found = notes(folder.path());
    assert!(found.contains(&"shared-reads".to_owned()), "{found:?}\n{}", ended.stderr);
    let summary = summary(folder.path());
    assert_eq!(summary["distributions"]["gap_ms"]["is_withheld"], true);
}

#[test]
fn tls_records_of_ten_events_are_noticed() {
    let server = Server::new(&["--tls", "--flood", "10"]);
    let folder = tempfile::tempdir().unwrap();
    let _ended = bench(folder.path(), &server.url, "--insecure");
    let found = notes(folder.path());
    assert!(found.contains(&"shared-reads".to_owned()), "{found:?}");
}

#[test]
fn a_client_on_one_core_beside_its_server_says_so() {
    let server = Server::new(&["--ttft", "5ms", "--itl", "2ms"]);
    let folder = tempfile::tempdir().unwrap();
    let mut pinned = Command::new("taskset");
    let line = format!("bench --base-url {} {LOAD}", server.url);
    let ended = pinned
        .args(["-c", "0"])
        .arg(program::path())
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(notes(folder.path()).contains(&"one-core".to_owned()));
}
