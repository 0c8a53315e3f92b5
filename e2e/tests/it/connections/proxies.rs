//! Proxies that the environment names.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::{bench, notes, succeeded};
use crate::program::{Server, ended};

/// The heads of requests that a proxy has seen.
type Seen = Arc<Mutex<Vec<String>>>;

/// A proxy on loopback that takes every name for this machine. With `refusal` it answers everything
/// with that status line.
fn proxy(refusal: Option<&'static str>) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || serve(stream.unwrap(), refusal, &log));
        }
    });
    (address, seen)
}

fn serve(mut client: TcpStream, refusal: Option<&str>, seen: &Seen) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    seen.lock().unwrap().push(head.clone());
    if let Some(status) = refusal {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        client.write_all(answer.as_bytes()).ok()?;
        return client.shutdown(Shutdown::Both).ok();
    }
    let target = head.split_whitespace().nth(1)?;
    let authority = target.strip_prefix("http://").unwrap_or(target).split('/').next()?;
    let port: u16 = authority.rsplit(':').next()?.parse().ok()?;
    let mut server = TcpStream::connect(("127.0.0.1", port)).ok()?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    } else {
        // One request per connection: the server is told to close behind it.
        let path = target.strip_prefix(&format!("http://{authority}"))?;
        let head = head.replacen(target, path, 1).replacen("\r\n", "\r\nConnection: close\r\n", 1);
        server.write_all(head.as_bytes()).ok()?;
    }
    server.write_all(reader.buffer()).ok()?;
    let (mut from_server, mut to_client) = (server.try_clone().ok()?, client.try_clone().ok()?);
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        to_client.shutdown(Shutdown::Both)
    });
    let _ = std::io::copy(&mut client, &mut server);
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    Some(())
}

fn port_of(url: &str) -> &str {
    url.rsplit(':').next().unwrap()
}

#[test]
fn plain_requests_go_to_the_proxy_with_their_whole_url_and_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let (address, seen) = proxy(None);
    let url = format!("http://server.test:{}", port_of(&server.url));
    let mut command = bench(folder.path(), &url, "");
    command.env("http_proxy", format!("http://me:topsecret@{address}"));
    let summary = succeeded(&mut command);
    assert!(notes(&summary).contains(&"proxy"), "{summary:#}");
    let seen = seen.lock().unwrap();
    let posts = seen.iter().filter(|head| head.starts_with(&format!("POST {url}/v1/completions ")));
    assert_eq!(posts.count(), 12, "{seen:?}");
    let password = "Proxy-Authorization: Basic bWU6dG9wc2VjcmV0\r\n";
    assert!(seen.iter().all(|head| head.contains(password)), "{seen:?}");
    let plan = std::fs::read_to_string(folder.path().join("run/plan.json")).unwrap();
    assert!(plan.contains(&format!("\"proxy\": \"http://{address}\"")), "{plan}");
    assert!(!plan.contains("topsecret") && !plan.contains("bWU6dG9wc2VjcmV0"), "{plan}");
}

#[test]
fn requests_over_tls_go_through_the_proxys_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&["--ttft", "5ms", "--itl", "1ms", "--tls"]);
    let (address, seen) = proxy(None);
    let authority = format!("server.test:{}", port_of(&server.url));
    let mut command = bench(folder.path(), &format!("https://{authority}"), "--insecure");
    let summary = succeeded(command.env("HTTPS_PROXY", address));
    assert!(notes(&summary).contains(&"proxy"), "{summary:#}");
    let seen = seen.lock().unwrap();
    let connect = format!("CONNECT {authority} HTTP/1.1\r\n");
    assert!(!seen.is_empty() && seen.iter().all(|head| head.starts_with(&connect)), "{seen:?}");
}

#[test]
fn a_proxy_that_refuses_is_named_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let check = |url: &str, status: &'static str, expected: &[&str]| {
        let (address, _seen) = proxy(Some(status));
        let ended = ended(bench(folder.path(), url, "--model m").env("ALL_PROXY", address));
        assert_eq!(ended.code, Some(3), "{ended:?}");
        for text in expected {
            assert!(ended.stderr.contains(text), "{}", ended.stderr);
        }
    };
    let wants_password = "407 Proxy Authentication Required";
    check(
        "https://s.test",
        wants_password,
        &["the proxy http://127.0.0.1:", "s.test:443: status 407"],
    );
    check("https://s.test", "502 Bad Gateway", &["s.test:443: status 502 Bad Gateway"]);
    check("http://s.test", wants_password, &["status 407", "user and password", "--no-proxy"]);
}

#[test]
fn exempt_hosts_this_machine_and_a_flag_go_around_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let port = port_of(&server.url);
    let (address, seen) = proxy(Some("403 Forbidden"));
    let named = format!("http://server.test:{port}");
    let resolve = format!("--resolve server.test:{port}:127.0.0.1 --overwrite");
    let check = |url: &str, flags: &str, exempt: &str| {
        let mut command = bench(folder.path(), url, flags);
        let summary = succeeded(command.env("HTTP_PROXY", &address).env("NO_PROXY", exempt));
        assert!(!notes(&summary).contains(&"proxy"), "{summary:#}");
    };
    check(&named, &resolve, "other,.test");
    check(&named, &format!("{resolve} --no-proxy"), "");
    check(&server.url, "--overwrite", "");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn a_proxy_that_cannot_be_used_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench(folder.path(), "http://server.test", "");
    let ended = ended(command.env("ALL_PROXY", "socks5://me:topsecret@127.0.0.1:1"));
    ended.says(2, &["only proxies with http:// URLs", "--no-proxy"]);
    assert!(!ended.stderr.contains("topsecret"), "{}", ended.stderr);
}
