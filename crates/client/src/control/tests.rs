//! Against a loopback server with prepared responses.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::thread::{self, JoinHandle};

use tokometer_base::MonotonicClock;

use super::*;
use crate::conn::testing::Silent;
use crate::conn::{AccessOptions, NamedAddresses};
use crate::secret::ApiKey;
use crate::url::Url;

/// Sends each connection the next response, and returns the requests.
fn serve(answers: Vec<Vec<u8>>) -> (Control, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server =
        thread::spawn(move || answers.iter().map(|answer| serve_one(&listener, answer)).collect());
    let mut settings = Settings::new(Url::http("127.0.0.1", port), "tiny");
    settings.api_key = Some(ApiKey::Bearer("hunter22".to_owned()));
    (
        Control::new(&settings, Arc::default(), Nanos::from_secs(10), Arc::new(MonotonicClock)),
        server,
    )
}

fn serve_one(listener: &TcpListener, answer: &[u8]) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_whole(&request) {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "the client closed the connection within its request");
        request.extend_from_slice(&buffer[..length]);
    }
    stream.write_all(answer).unwrap();
    String::from_utf8(request).unwrap()
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    length.is_none_or(|length| body.len() == length.parse::<usize>().unwrap())
}

fn json_answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn capture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/captures");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn models_are_listed_with_root_and_length() {
    let list = r#"{"data":[{"id":"tiny","root":"org/tiny","max_model_len":4096},{"id":"lora"}]}"#;
    let (control, server) = serve(vec![json_answer(200, list)]);
    let models = control.models().unwrap();
    assert_eq!(models[0].root.as_deref(), Some("org/tiny"));
    assert_eq!((models[0].max_model_len, models[1].id.as_str()), (Some(4096), "lora"));
    let request = &server.join().unwrap()[0];
    assert!(request.starts_with("GET /v1/models HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("Authorization: Bearer hunter22\r\n"), "{request}");
}

/// One refusal for a busy server cost the server's tokenizer, and a hanging one was asked in every form.
#[test]
fn a_busy_server_is_asked_once_more_to_tokenize_and_a_hanging_one_once() {
    let busy = || json_answer(503, "busy");
    let asked = |answers: Vec<Vec<u8>>| {
        let count = answers.len();
        let (mut control, server) = serve(answers);
        control.limit.clock = Arc::new(Hasty(MonotonicClock));
        let found = control.tokenize("Hi", SpecialTokens::Skip);
        assert_eq!(server.join().unwrap().len(), count);
        found
    };
    let answer = json_answer(200, r#"{"tokens":[5,6]}"#);
    assert_eq!(asked(vec![busy(), answer]).unwrap(), [5, 6]);
    let why = asked(vec![busy(), busy()]).unwrap_err();
    assert!(matches!(why, Error::Status { status: 503, .. }), "{why}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings =
        Settings::new(Url::http("127.0.0.1", listener.local_addr().unwrap().port()), "tiny");
    let limit = Nanos::from_secs(5);
    let control = Control::new(&settings, Arc::default(), limit, Arc::new(Ticking::default()));
    let hanging = control.cancelled_by(Arc::new(|| false));
    let why = hanging.tokenize("Hi", SpecialTokens::Skip).unwrap_err();
    assert!(matches!(why, Error::Silent { within, .. } if within == limit), "{why}");
    let _asked = listener.accept().unwrap();
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was asked again");
}

/// A server for plain HTTP that waits for the end of a line, which a TLS handshake does not have.
#[test]
fn a_server_that_does_not_answer_a_tls_handshake_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("https://127.0.0.1:{port}")).unwrap();
    let clock = Arc::new(Ticking::default());
    let control = Control::new(
        &Settings::new(url, "tiny"),
        Arc::default(),
        Nanos::from_secs(3_600),
        Arc::clone(&clock) as Arc<dyn Clock>,
    );
    let why = control.cancelled_by(Arc::new(|| false)).get("/health").unwrap_err().to_string();
    let expected = "no answer to the TLS handshake within 5 s; a server without TLS needs http:// in `--base-url`";
    assert!(why.ends_with(expected), "{why}");
    assert!(clock.now() < Nanos::from_secs(60), "it waited on");
}

/// Runs with the machine's clock, but never sleeps.
#[derive(Debug)]
struct Hasty(MonotonicClock);

impl Clock for Hasty {
    fn now(&self) -> Nanos {
        self.0.now()
    }

    fn wall(&self) -> tokometer_base::WallNanos {
        self.0.wall()
    }

    fn sleep(&self, _span: Nanos) {}
}

/// Goes on by a second with every look.
#[derive(Debug, Default)]
struct Ticking(std::sync::atomic::AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Nanos {
        Nanos::from_secs(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    fn wall(&self) -> tokometer_base::WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, _span: Nanos) {}
}

#[test]
fn the_form_of_a_tokenize_request_is_found_once_per_server() {
    let check = |answers: Vec<Vec<u8>>, expected: &[u32], bodies: &[&str]| {
        let (control, server) = serve(answers);
        for _ in 0..2 {
            assert_eq!(control.tokenize("Hi", SpecialTokens::Skip).unwrap(), expected);
        }
        let requests = server.join().unwrap();
        for (request, body) in requests.iter().zip(bodies) {
            assert!(request.ends_with(body), "{request}");
        }
        assert_eq!(requests.len(), bodies.len());
    };
    let vllm = r#"{"add_special_tokens":false,"model":"tiny","prompt":"Hi"}"#;
    let llamacpp = r#"{"add_special":false,"content":"Hi"}"#;
    let tgi = r#"{"add_special_tokens":false,"inputs":"Hi"}"#;
    let real = capture("vllm-tokenize.raw");
    check(vec![real.clone(), real], &[9707, 1052], &[vllm, vllm]);
    let (none, some) =
        (json_answer(200, r#"{"tokens":[]}"#), json_answer(200, r#"{"tokens":[5]}"#));
    check(vec![none, some.clone(), some], &[5], &[vllm, llamacpp, llamacpp]);
    let refusal = || json_answer(422, "missing field `inputs`");
    let some = json_answer(200, r#"[{"id":5,"text":"Hi","start":0,"stop":2}]"#);
    check(vec![refusal(), refusal(), some.clone(), some], &[5], &[vllm, llamacpp, tgi, tgi]);
}

#[test]
fn detokenized_text_is_found_under_any_known_key() {
    for answer in [r#"{"prompt":"Hi"}"#, r#"{"text":"Hi"}"#, r#"{"content":"Hi"}"#] {
        let (control, server) = serve(vec![json_answer(200, answer)]);
        assert_eq!(control.detokenize(&[5]).unwrap(), "Hi");
        assert_eq!(server.join().unwrap().len(), 1);
    }
}

#[test]
fn metrics_pages_of_real_servers_are_read_whole() {
    for name in ["vllm-metrics.raw", "llamacpp-metrics.raw"] {
        let page = capture(name);
        let body = page.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
        let (control, server) = serve(vec![page.clone()]);
        assert_eq!(control.metrics_text().unwrap().as_bytes(), &page[body..], "{name}");
        assert_eq!(server.join().unwrap().len(), 1);
    }
}

#[test]
fn errors_of_control_requests_name_server_and_reason_without_the_key() {
    let check = |answer: &[u8], expected: &str| {
        let (control, server) = serve(vec![answer.to_vec()]);
        let error = control.reset_prefix_cache().unwrap_err().to_string();
        let port = control.settings.base_url.port.to_string();
        assert_eq!(error.replace(&port, "PORT"), expected);
        assert_eq!(server.join().unwrap().len(), 1);
    };
    check(
        &json_answer(401, "wrong key hunter22"),
        "http://127.0.0.1:PORT/reset_prefix_cache responded with status 401: wrong key [redacted]",
    );
    check(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
        "cannot read the response of http://127.0.0.1:PORT/reset_prefix_cache: \
         the connection closed before its end",
    );
}

#[test]
fn a_refused_connection_is_reported_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let settings = Settings::new(Url::http("127.0.0.1", port), "tiny");
    let control =
        Control::new(&settings, Arc::default(), Nanos::from_secs(10), Arc::new(MonotonicClock));
    let error = control.ready("/health").unwrap_err();
    assert!(matches!(error, Error::Reach { .. }), "{error}");
    assert!(error.to_string().contains("/health"), "{error}");
}

#[test]
fn a_flush_sends_its_timeout_to_sglang_only() {
    let check = |timeout: Option<Nanos>, line: &str| {
        let (control, server) = serve(vec![json_answer(200, "Cache flushed.")]);
        control.with_timeout(Nanos::from_secs(9)).flush_cache(timeout).unwrap();
        let request = &server.join().unwrap()[0];
        assert!(request.starts_with(line), "{request}");
    };
    check(Some(Nanos::from_secs(7)), "POST /flush_cache?timeout=7 HTTP/1.1\r\n");
    check(Some(Nanos::from_millis(500)), "POST /flush_cache?timeout=0.5 HTTP/1.1\r\n");
    check(None, "POST /flush_cache HTTP/1.1\r\n");
}

/// One byte at a time, for ever: no single read is slow, so a limit per read never ended it.
fn drip(mut stream: std::net::TcpStream, head: &[u8]) {
    let _ = stream.write_all(head);
    let pause = std::time::Duration::from_millis(5);
    let _ = stream.set_read_timeout(Some(pause));
    while stream.write_all(b"x").is_ok() {
        // Nothing comes: the read is the pause.
        let _ = stream.read(&mut [0; 512]);
    }
}

fn dripping(head: &'static [u8], timeout: Nanos) -> Control {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || drip(stream.unwrap(), head));
        }
    });
    Control::new(
        &Settings::new(Url::http("127.0.0.1", port), "tiny"),
        Arc::default(),
        timeout,
        Arc::new(MonotonicClock),
    )
}

#[test]
fn every_request_has_a_limit_that_dripping_bytes_do_not_put_off() {
    let heads = [
        &b""[..],
        b"HTTP/1.1 200 OK\r\nx-slow: ",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
    ];
    // The first bytes must arrive before the limit, however busy the machine is.
    let check = |head: &'static [u8]| {
        let error = dripping(head, Nanos::from_secs(2)).models().unwrap_err();
        let is_timeout = matches!(&error, Error::Reach { source, .. }
            if source.kind() == io::ErrorKind::TimedOut);
        // Bytes that are no head are refused at once.
        assert!(is_timeout || head.is_empty(), "{error}");
        if is_timeout {
            let said = "timed out: no complete response within 2.00 s";
            assert!(error.to_string().contains(said), "{error}");
        }
    };
    thread::scope(|scope| {
        for head in heads {
            scope.spawn(move || check(head));
        }
    });
}

#[test]
fn a_request_that_is_no_longer_wanted_ends_early() {
    let control = dripping(b"HTTP/1.1 200 OK\r\n\r\n", Nanos::from_secs(3_600));
    let looks = std::sync::atomic::AtomicU32::new(0);
    let is_cancelled = move || looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 3;
    let error = control.cancelled_by(Arc::new(is_cancelled)).metrics_text().unwrap_err();
    assert!(error.to_string().ends_with("interrupted"), "{error}");
}

/// A client of `host` at `port`, whose name has these addresses.
fn named(port: u16, addresses: Vec<IpAddr>) -> Control {
    let host = "host".to_owned();
    let names = vec![NamedAddresses { host: host.clone(), port, addresses }];
    let settings = Settings::new(Url::http(host, port), "tiny");
    let access = Access::new(AccessOptions { names, ..AccessOptions::default() });
    Control::new(&settings, Arc::new(access), Nanos::from_secs(10), Arc::new(MonotonicClock))
}

#[test]
fn an_address_that_refuses_or_is_silent_gives_way_and_is_asked_last_from_then_on() {
    let loopback = |last: u8| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
    let silent = Silent::new();
    let port = silent.address.port();
    // Nobody listens at .3, .1 is silent, and .2 answers.
    let listener = TcpListener::bind((loopback(2), port)).unwrap();
    let answer = json_answer(200, "{}");
    let server = thread::spawn(move || {
        for _ in 0..2 {
            serve_one(&listener, &answer);
        }
    });
    let control = named(port, vec![loopback(3), loopback(1), loopback(2)]);
    for _ in 0..2 {
        assert_eq!(control.get("/health").unwrap().status, 200);
        let last = control.last.lock().unwrap().clone();
        assert_eq!(last.unwrap().to_string(), format!("127.0.0.2:{port}"));
    }
    server.join().unwrap();
}

#[test]
fn a_server_behind_a_unix_domain_socket_is_asked_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let length = stream.read(&mut request).unwrap();
        stream.write_all(&json_answer(200, "{}")).unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let url = Url::parse(&format!("unix:{}:/api", path.display())).unwrap();
    let settings = Settings::new(url, "tiny");
    let control =
        Control::new(&settings, Arc::default(), Nanos::from_secs(10), Arc::new(MonotonicClock));
    assert_eq!(control.get("/health").unwrap().status, 200);
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /api/health HTTP/1.1\r\nHost: localhost\r\n"), "{request}");
    let gone = Settings::new(Url::parse("unix:/nowhere/s.sock").unwrap(), "tiny");
    let control =
        Control::new(&gone, Arc::default(), Nanos::from_secs(10), Arc::new(MonotonicClock));
    let refusal = control.get("/health").unwrap_err().to_string();
    assert!(refusal.contains("unix:/nowhere/s.sock:/health: No such file"), "{refusal}");
}

#[test]
fn a_proxy_is_given_the_whole_url_and_its_own_key() {
    let (through, server) = serve(vec![json_answer(200, "{}")]);
    let proxy = format!("http://me:secret@127.0.0.1:{}", through.settings.base_url.port);
    let proxies = crate::proxy::Proxies { http: Some(proxy), ..Default::default() };
    let access = Access::new(AccessOptions { proxies, ..AccessOptions::default() });
    let settings = Settings::new(Url::parse("http://server.test:8000/v").unwrap(), "tiny");
    let control =
        Control::new(&settings, Arc::new(access), Nanos::from_secs(10), Arc::new(MonotonicClock));
    assert_eq!(control.get("/health").unwrap().status, 200);
    let request = &server.join().unwrap()[0];
    let line = "GET http://server.test:8000/v/health HTTP/1.1\r\nHost: server.test:8000\r\n";
    assert!(request.starts_with(line), "{request}");
    assert!(request.contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{request}");
}

fn moved(status: u16, location: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

#[test]
fn redirects_are_followed_on_the_same_server_with_the_key() {
    let list = r#"{"data":[{"id":"tiny"}]}"#;
    let (control, server) =
        serve(vec![moved(307, "/new/v1/models?a=1"), moved(302, "/x"), json_answer(200, list)]);
    let answer = control.get("/v1/models").unwrap();
    assert_eq!(answer.status, 200);
    let port = control.settings.base_url.port;
    let redirected = answer.redirected.unwrap();
    assert!(
        redirected.contains(&format!("redirects to http://127.0.0.1:{port}/x")),
        "{redirected}"
    );
    let requests = server.join().unwrap();
    let lines: Vec<&str> = requests.iter().map(|text| text.lines().next().unwrap()).collect();
    assert_eq!(lines[1..], ["GET /new/v1/models?a=1 HTTP/1.1", "GET /x HTTP/1.1"]);
    assert!(requests[2].contains("Authorization: Bearer hunter22\r\n"), "{requests:?}");
}

#[test]
fn another_server_is_followed_without_the_key_and_a_circle_ends() {
    let (other, stranger) = serve(vec![json_answer(200, "{}")]);
    let elsewhere = other.settings.base_url.at("/health");
    let (control, server) = serve(vec![moved(301, &elsewhere)]);
    let answer = control.get("/health").unwrap();
    let base = other.settings.base_url.at("");
    assert!(answer.redirected.unwrap().ends_with(&format!("use `--base-url {base}`")));
    let asked = &stranger.join().unwrap()[0];
    assert!(asked.starts_with("GET /health") && !asked.contains("hunter22"), "{asked}");
    assert_eq!(server.join().unwrap().len(), 1);

    let (control, server) = serve(vec![moved(301, "/again"); MOST_REDIRECTS + 1]);
    let error = control.get("/again").unwrap_err().to_string();
    assert!(error.contains("redirected 5 times"), "{error}");
    assert_eq!(server.join().unwrap().len(), MOST_REDIRECTS + 1);

    let (control, server) = serve(vec![moved(301, "https://h.example/health")]);
    let error = control.get("/health").unwrap_err().to_string();
    assert!(error.ends_with("use `--base-url https://h.example`"), "{error}");
    assert_eq!(server.join().unwrap().len(), 1);
}

#[test]
fn compressed_answers_and_web_pages_are_read_or_named() {
    use flate2::write::GzEncoder;
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(br#"{"data":[{"id":"tiny"}]}"#).unwrap();
    let body = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (control, server) = serve(vec![[head.as_bytes(), &body].concat()]);
    assert_eq!(control.models().unwrap()[0].id, "tiny");
    let request = &server.join().unwrap()[0];
    assert!(request.contains("Accept-Encoding: identity\r\n"), "{request}");

    let check = |answer: Vec<u8>, part: &str| {
        let (control, server) = serve(vec![answer]);
        let error = control.models().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert_eq!(server.join().unwrap().len(), 1);
    };
    check(b"HTTP/1.1 200 X\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx".to_vec(), "(br)");
    check(json_answer(200, "<html><title>Login</title></html>"), "HTML page (title: Login)");
    check(json_answer(502, "<html><title>Bad</title></html>"), "502: the server answered with an");
    check(b"\x15\x03\x01\x00\x02\x02\x46".to_vec(), "speaks TLS on this port; use https://");
    check(Vec::new(), "closed the connection without a response");
}

#[test]
fn a_server_that_never_answers_is_given_up_with_the_time_it_had() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = Settings::new(Url::http("127.0.0.1", port), "tiny");
    let control =
        Control::new(&settings, Arc::default(), Nanos::from_millis(50), Arc::new(MonotonicClock));
    let error = control.get("/health").unwrap_err().to_string();
    assert!(error.starts_with("no answer from http://127.0.0.1"), "{error}");
    assert!(error.ends_with("/health within 50.0 ms"), "{error}");
}
