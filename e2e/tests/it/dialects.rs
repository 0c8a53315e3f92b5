//! Every backend name against the simulated server of its protocol.

use std::collections::BTreeSet;

use tokometer_base::backend::ServerKind;
use tokometer_base::{Backend, Conventions};
use tokometer_record::{RunReader, Timeline};

use crate::pooling;
use crate::program::{Server, run};

/// Measures a few requests and expects each to succeed with the asked number of tokens, in the
/// layout of the tool that the name comes from.
fn check(row: &Backend) {
    let folder = tempfile::tempdir().unwrap();
    let backend = row.name();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--flavour", row.flavour()]);
    let is_sglang = row.conventions() == Some(Conventions::Sglang);
    // Its route is another server's too.
    let more = if backend == "deepspeed-mii" { "--endpoint /mii" } else { "" };
    let line = format!(
        "bench --backend {backend} --base-url {} --model simulated --dataset-name random \
         --random-input-len 30 --random-output-len 6 --random-range-ratio {} --num-prompts 5 \
         --ignore-eos --no-run-dir {more}",
        server.url,
        if is_sglang { "1" } else { "0" },
    );
    let shown = run(folder.path(), &line).succeeded().stdout;
    let row = |label: &str| {
        let line = shown.lines().find(|line| line.starts_with(label));
        line.and_then(|line| line.rsplit_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    assert_eq!(row("Successful requests:").as_deref(), Some("5"), "{backend}: {shown}");
    assert_eq!(shown.contains("\nBackend: "), is_sglang, "{backend}: {shown}");
    let counts = if is_sglang { "(retokenized):" } else { "Total generated tokens:" };
    let generated = shown.lines().find(|line| line.contains(counts)).unwrap();
    assert!(generated.trim_end().ends_with(" 30"), "{backend}: {shown}");
}

/// Measures by all names of a server that generate text from text.
fn check_all(server: ServerKind) {
    let is_text = |backend: &&Backend| !backend.is_pooling() && !backend.is_audio();
    Backend::all().filter(is_text).filter(|backend| backend.server() == server).for_each(check);
}

#[test]
fn every_backend_without_text_is_measured_too() {
    let known: BTreeSet<&str> =
        Backend::all().filter(|backend| backend.is_pooling()).map(Backend::name).collect();
    assert_eq!(known, pooling::TEXTS.into_iter().chain(pooling::RANKINGS).collect());
}

#[test]
fn vllm_s_routes_are_measured_by_all_their_names() {
    check_all(ServerKind::Vllm);
}

#[test]
fn sglang_s_routes_are_measured_by_all_their_names() {
    check_all(ServerKind::Sglang);
}

#[test]
fn tgi_s_and_llama_cpp_s_routes_are_measured_by_all_their_names() {
    check_all(ServerKind::Tgi);
    check_all(ServerKind::LlamaCpp);
}

#[test]
fn routes_of_any_server_are_measured_by_all_their_names() {
    check_all(ServerKind::Any);
}

#[test]
fn encrypted_connections_are_measured_once_the_certificate_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--tls"]);
    let line = format!(
        "bench --base-url {} --num-prompts 3 --random-input-len 20 --random-output-len 3 --no-run-dir",
        server.url
    );
    let refused = run(folder.path(), &line);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let page = run(folder.path(), &format!("{line} --insecure --format json")).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 3);
}

/// TGI's server counts the token that ends an answer, and sends an event for it: both counts agree.
#[test]
fn an_answer_that_ends_by_itself_is_counted_alike_by_tgi_s_events_and_its_details() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--profile", "tgi-405b", "--slower", "0.01", "--flavour", "tgi"]);
    let line = format!(
        "bench --backend tgi --base-url {} --model simulated --dataset-name random --num-prompts 8 \
         --random-input-len 20 --random-output-len 2000 --quiet --run-dir run",
        server.url
    );
    run(folder.path(), &line).succeeded();
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    let rows: Vec<Timeline> = reader.timelines().unwrap().collect();
    for row in &rows {
        assert_eq!(row.usage.unwrap().completion_tokens, row.event_tokens());
    }
    let ends_by_itself = |row: &&Timeline| row.event_tokens() < Some(2_000);
    assert!(rows.iter().filter(ends_by_itself).count() > 0, "no answer ended by itself");
}

/// llama.cpp's server ends a connection behind each answer and loses a request that meets the end.
#[test]
fn llama_cpp_gets_a_connection_per_request_unless_another_way_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let most_uses = |name: &str, flags: &str| {
        let line = format!(
            "bench --base-url {} --model simulated --dataset-name random --num-prompts 6 --max-concurrency 1 \
             --random-input-len 8 --random-output-len 2 --quiet --run-dir {name} {flags}",
            server.url
        );
        run(folder.path(), &line).succeeded();
        let reader = RunReader::open(&folder.path().join(name)).unwrap();
        reader.timelines().unwrap().map(|row| row.connection.uses_before).max()
    };
    assert_eq!(most_uses("own", "--backend llamacpp-oai"), Some(0));
    assert_eq!(most_uses("kept", "--backend llamacpp-oai --connections on-demand"), Some(5));
    assert_eq!(most_uses("other", "--backend vllm"), Some(5));
}
