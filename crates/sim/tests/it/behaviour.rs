//! What any client may rely on: lengths, connections, control routes, the truth log.

use std::io::{ErrorKind, Read, Write};

use serde_json::{Value, json};
use tokometer_base::Nanos;
use tokometer_sim::config::{Flavour, Transport};
use tokometer_sim::truth::{self, SentKind, StreamEnd};
use tokometer_sim::{SimConfig, TokenTiming};

use crate::client::{Answer, Running, post, quick};

fn completion(tokens: u32) -> String {
    json!({
        "model": "tiny", "prompt": "Once upon a time", "max_tokens": tokens, "stream": true,
        "ignore_eos": true, "stream_options": { "include_usage": true },
    })
    .to_string()
}

/// Reads one chunked answer from a connection that stays open.
fn read_chunked(socket: &mut impl Read) -> Answer {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !bytes.ends_with(b"0\r\n\r\n") {
        let count = match socket.read(&mut piece) {
            // A process that was stopped and continued reads again.
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            count => count.unwrap(),
        };
        assert!(count > 0, "the server closed the connection");
        bytes.extend_from_slice(&piece[..count]);
    }
    Answer::parse(&bytes)
}

#[test]
fn an_answer_has_exactly_the_asked_tokens() {
    let server = Running::start(quick());
    let answer = server.post("/v1/completions", &completion(37));
    let events = answer.events();
    // 37 tokens, usage, the announced end.
    assert_eq!(events.len(), 39);
    let usage: Value = serde_json::from_str(&events[37]).unwrap();
    assert_eq!(
        usage["usage"],
        json!({ "prompt_tokens": 4, "completion_tokens": 37, "total_tokens": 41 })
    );
    let text: String = events[..37]
        .iter()
        .map(|event| {
            serde_json::from_str::<Value>(event).unwrap()["choices"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let body = json!({ "prompt": text }).to_string();
    assert_eq!(server.post("/tokenize", &body).json()["count"], 37);
    let again = server
        .post("/v1/completions", &completion(37).replace("\"stream\":true", "\"stream\":false"));
    assert_eq!(again.json()["choices"][0]["text"], text);
}

#[test]
fn a_connection_serves_many_requests_and_a_late_body() {
    let server = Running::start(quick());
    let mut socket = server.connect();
    for tokens in [3, 5] {
        let request = post("/v1/completions", &completion(tokens), "Expect: 100-continue\r\n");
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        socket.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
        let mut leave = [0; 25];
        socket.read_exact(&mut leave).unwrap();
        assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
        socket.write_all(body.as_bytes()).unwrap();
        let answer = read_chunked(&mut socket);
        assert_eq!(answer.events().len(), tokens as usize + 2);
        assert!(!answer.head.contains("connection: close"));
    }
}

#[test]
fn a_repeated_prompt_meets_the_prefix_cache_until_it_is_reset() {
    let server = Running::start(quick());
    let prompt = "word ".repeat(100).trim_end().to_owned();
    let body = json!({ "model": "tiny", "prompt": prompt, "max_tokens": 1 }).to_string();
    let hits = || {
        let page = server.get("/metrics").text();
        let line = page.lines().find(|line| line.starts_with("vllm:prefix_cache_hits_total{"));
        line.unwrap().rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    server.post("/v1/completions", &body);
    assert!(hits().abs() < 0.5);
    server.post("/v1/completions", &body);
    // Six full blocks of sixteen; the last four tokens are computed.
    assert!((hits() - 96.0).abs() < 0.5, "{}", hits());
    assert_eq!(server.post("/reset_prefix_cache", "").status, 200);
    server.post("/v1/completions", &body);
    assert!((hits() - 96.0).abs() < 0.5, "{}", hits());
}

#[test]
fn other_routes_answer_as_their_clients_expect() {
    let server = Running::start(SimConfig { loras: vec!["adapter".to_owned()], ..quick() });
    let models = server.get("/v1/models").json();
    let names: Vec<&str> =
        models["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["tiny", "adapter"]);
    for path in ["/health", "/server_info", "/get_server_info", "/model_info", "/info", "/version"]
    {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/flush_cache", "/start_profile", "/stop_profile"] {
        assert_eq!(server.post(path, "").status, 200, "{path}");
    }
    let ids = server.post("/tokenize", r#"{"prompt":"Hello there"}"#).json()["tokens"].clone();
    let back = server.post("/detokenize", &json!({ "tokens": ids }).to_string());
    assert_eq!(back.json(), json!({ "prompt": "Hello there" }));
    let mii = server.post("/mii", r#"{"prompt":"Hello there","max_tokens":3}"#).json();
    assert_eq!(mii["text"][0].as_str().unwrap().split_whitespace().count(), 3);
    let truss = server.post("/v1/models/model:predict", &completion(3));
    assert_eq!(truss.events().len(), 5);
    let triton = r#"{"text_input":"Hello","max_tokens":3,"stream":true,"end_id":1048576}"#;
    let triton = server.post("/v2/models/ensemble/generate_stream", triton);
    assert_eq!(triton.events().len(), 3);
    let lora = completion(2).replace("\"tiny\"", "\"adapter\"");
    assert_eq!(server.post("/v1/completions", &lora).events().len(), 4);
    assert_eq!(server.exchange(b"nonsense\r\n\r\n").status, 400);
}

#[test]
fn a_key_is_asked_for_where_one_is_set() {
    let server = Running::start(SimConfig { api_key: Some("secret".to_owned()), ..quick() });
    assert_eq!(server.get("/v1/models").status, 401);
    assert_eq!(server.get("/health").status, 200);
    let request =
        "GET /v1/models HTTP/1.1\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n";
    assert_eq!(server.exchange(request.as_bytes()).status, 200);
}

#[test]
fn the_truth_log_holds_every_event_of_every_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    let server = Running::start(SimConfig { truth: Some(path.clone()), ..quick() });
    let headers = "Connection: close\r\nX-Request-Id: bench-7\r\n";
    let request = post("/v1/completions", &completion(5), headers);
    let answer = server.exchange(request.as_bytes());
    assert!(answer.text().contains("cmpl-bench-7"));
    // Answers without tokens leave no trace.
    assert_eq!(server.get("/metrics").status, 200);
    assert_eq!(server.post("/v1/completions", "{").status, 400);
    assert_eq!(server.post("/generate_stream", "{}").status, 200);
    server.stop();
    let requests = truth::read(&path).unwrap();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(request.request_id.as_deref(), Some("bench-7"));
    assert_eq!((request.prompt_tokens, request.answer_tokens, request.nth), (4, 5, 0));
    assert_eq!(request.end.unwrap().1, StreamEnd::Complete);
    let kinds: Vec<SentKind> = request.events.iter().map(|event| event.kind).collect();
    let text = [SentKind::Text; 5];
    assert_eq!(
        kinds,
        [&[SentKind::Head][..], &text, &[SentKind::Usage, SentKind::Done, SentKind::End]].concat()
    );
    assert_eq!(request.events.iter().map(|event| event.tokens).sum::<u32>(), 5);
    assert!(request.first_byte <= request.complete);
    assert!(request.events.is_sorted_by_key(|event| event.before));
    assert!(request.events.iter().all(|event| event.before <= event.after));
}

#[test]
fn fixed_pacing_keeps_an_absolute_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth");
    let (ttft, itl) = (Nanos::from_millis(30), Nanos::from_millis(4));
    let pace = TokenTiming::Fixed { ttft, itl };
    let server = Running::start(SimConfig { pace, truth: Some(path.clone()), ..quick() });
    assert_eq!(server.post("/v1/completions", &completion(20)).events().len(), 22);
    server.stop();
    let request = truth::read(&path).unwrap().remove(0);
    let tokens = request.events.iter().filter(|event| event.kind == SentKind::Text);
    for (index, event) in tokens.enumerate() {
        let due = request.complete + ttft + Nanos(itl.0 * index as u64);
        // Late is the machine's doing; early would be ours.
        assert!(event.after >= due, "token {index} left {} early", due - event.after);
    }
}

#[test]
fn a_flood_sends_everything_it_was_asked_for() {
    for events_per_write in [1, 64] {
        let pace = TokenTiming::Flood { events_per_write };
        let server = Running::start(SimConfig { pace, ..quick() });
        let answer = server.post("/v1/completions", &completion(20_000));
        assert_eq!(answer.events().len(), 20_002);
        assert!(answer.is_complete);
    }
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    let server = Running::start(quick());
    let mut socket = server.connect();
    socket.write_all(post("/v1/completions", &completion(4000), "").as_bytes()).unwrap();
    let mut first = [0; 64];
    socket.read_exact(&mut first).unwrap();
    drop(socket);
    let running = || {
        let page = server.get("/metrics").text();
        page.lines().find(|line| line.starts_with("vllm:num_requests_running")).unwrap().to_owned()
    };
    // The engine would need four seconds for the answer; the slot is free after a few steps.
    let is_free = (0..200).any(|_| running().ends_with(" 0.0"));
    assert!(is_free, "{}", running());
}

#[test]
fn the_default_answer_of_each_flavour_is_read_to_its_end() {
    for flavour in Flavour::ALL {
        let server = Running::start(SimConfig { flavour, ..quick() });
        let body = r#"{"model":"tiny","prompt":"Hello","max_tokens":3,"stream":false}"#;
        let answer = server.post("/v1/completions", body).json();
        let text = answer["choices"][0]["text"].as_str().unwrap();
        assert_eq!(text.split_whitespace().count(), 3, "{flavour:?}");
        assert_eq!(answer["usage"]["completion_tokens"], 3, "{flavour:?}");
        let body = r#"{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_tokens":3}"#;
        let answer = server.post("/v1/chat/completions", body).json();
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert_eq!(text.split_whitespace().count(), 3, "{flavour:?}");
    }
}

#[test]
fn tls_carries_the_same_stream() {
    let server = Running::start(SimConfig { transport: Transport::Tls, ..quick() });
    let pem = server.certificate.clone().unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
    let mut roots = rustls::RootCertStore::empty();
    let certificate = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(pem.as_bytes()).unwrap();
    roots.add(certificate).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut tls = rustls::ClientConnection::new(std::sync::Arc::new(config), name).unwrap();
    let mut socket = server.connect();
    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
    stream.write_all(post("/v1/completions", &completion(9), "").as_bytes()).unwrap();
    let answer = read_chunked(&mut stream);
    assert_eq!(answer.events().len(), 11);
}

/// The quick configuration with a changed engine.
fn with_profile(change: impl FnOnce(&mut tokometer_sim::Profile)) -> SimConfig {
    let mut config = quick();
    if let TokenTiming::Engine(profile) = &mut config.pace {
        change(profile);
    }
    config
}

#[test]
fn an_answer_that_ends_by_itself_may_have_an_end_token_without_text() {
    let mut config = with_profile(|profile| profile.front_end.eos_step = true);
    config.answer = tokometer_sim::AnswerLength { median_tokens: 3.0, sigma: 0.0 };
    let server = Running::start(config);
    let body = completion(9).replace("\"ignore_eos\":true,", "");
    let events = server.post("/v1/completions", &body).events();
    // Three tokens, the end token, usage, the announced end.
    assert_eq!(events.len(), 6);
    let last: Value = serde_json::from_str(&events[3]).unwrap();
    assert_eq!(
        (&last["choices"][0]["text"], &last["choices"][0]["finish_reason"]),
        (&json!(""), &json!("stop"))
    );
    assert!(events[4].contains("\"completion_tokens\":3"), "{}", events[4]);
    let body = r#"{"inputs":"Hello","parameters":{"max_new_tokens":9,"details":true}}"#;
    let events = server.post("/generate_stream", body).events();
    assert_eq!(events.len(), 4);
    let last: Value = serde_json::from_str(&events[3]).unwrap();
    // This server counts the token that ended the answer.
    assert_eq!((&last["token"]["special"], &last["index"]), (&json!(true), &json!(4)));
    assert_eq!(last["details"]["generated_tokens"], 4);
    let whole = server.post("/generate", body).json();
    assert_eq!(whole["details"]["generated_tokens"], 4);
    assert_eq!(whole["details"]["tokens"].as_array().unwrap().len(), 4);
}

#[test]
fn coalesced_events_lose_no_token() {
    let server = Running::start(with_profile(|profile| profile.front_end.coalesce = 0.5));
    let events = server.post("/v1/completions", &completion(60)).events();
    let texts = events[..events.len() - 2].iter().map(|event| {
        let event: Value = serde_json::from_str(event).unwrap();
        event["choices"][0]["text"].as_str().unwrap().split_whitespace().count()
    });
    let counts: Vec<usize> = texts.collect();
    assert_eq!(counts.iter().sum::<usize>(), 60);
    // Half of 58 events wait for another: about 31 remain, and never as many as 55.
    assert!(counts.len() < 55, "{counts:?}");
}

#[test]
fn a_request_that_can_never_run_is_told_so() {
    let server = Running::start(with_profile(|profile| {
        if let Some(kv) = &mut profile.kv {
            kv.tokens = 64;
        }
    }));
    let answer = server.post("/v1/completions", &completion(100));
    assert!(answer.text().contains("the request can never run"), "{}", answer.text());
    assert!(answer.is_complete);
    let whole = completion(100).replace("\"stream\":true", "\"stream\":false");
    assert_eq!(server.post("/v1/completions", &whole).status, 400);
}
