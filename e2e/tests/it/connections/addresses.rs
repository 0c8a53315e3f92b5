//! Several addresses behind one name.

use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::sys::socket::{Backlog, listen};
use serde_json::Value;
use tokometer_record::{RunReader, StampSource};

use super::{bench, succeeded};
use crate::program::ended;
use crate::scripted::{AfterResponse, Scripted};

/// A server that answers every request well.
fn replica(listener: TcpListener) -> Scripted {
    Scripted::on(listener, |mut request| {
        request.good_answer(4);
        AfterResponse::Close
    })
}

/// Two listeners with one port, at 127.0.0.1 and 127.0.0.2.
fn two_listeners() -> (TcpListener, TcpListener, u16) {
    for _ in 0..50 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        // Another program may have the port at the other address.
        if let Ok(second) = TcpListener::bind(("127.0.0.2", port)) {
            return (first, second, port);
        }
    }
    panic!("no port is free at both addresses");
}

fn shares(summary: &Value) -> Vec<(String, u64)> {
    let shares = summary["addresses"].as_array().unwrap();
    let share = |share: &Value| {
        (share["address"].as_str().unwrap().to_owned(), share["requests"].as_u64().unwrap())
    };
    shares.iter().map(share).collect()
}

/// With several A records all load went to the first replica.
#[test]
fn the_load_is_spread_over_all_addresses_and_the_record_says_which_served() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second, port) = two_listeners();
    let servers = [replica(first), replica(second)];
    let flags = format!("--resolve replicas.test:{port}:127.0.0.1,127.0.0.2");
    let url = format!("http://replicas.test:{port}");
    let summary = succeeded(&mut bench(folder.path(), &url, &flags));
    let sent: Vec<u64> = servers.iter().map(|server| u64::from(server.requests())).collect();
    let expected =
        vec![(format!("127.0.0.1:{port}"), sent[0]), (format!("127.0.0.2:{port}"), sent[1])];
    assert_eq!(shares(&summary), expected);
    assert_eq!(sent, [6, 6], "each request has a connection of its own here");
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    assert_eq!(reader.info().targets[0].addresses.len(), 2);
    let text = ended(&mut crate::program::command(
        folder.path(),
        "report run --layout tokometer --details",
    ));
    assert!(text.stdout.contains(&format!("127.0.0.2:{port} (6 requests)")), "{}", text.stdout);
}

/// A listener whose backlog is full, with the connections that fill it.
fn black_hole(address: SocketAddr) -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind(address).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let mut waiting = Vec::new();
    let timeout = std::time::Duration::from_millis(100);
    while let Ok(stream) = TcpStream::connect_timeout(&address, timeout) {
        waiting.push(stream);
    }
    (listener, waiting)
}

/// The ready check passed by the second address, and then every request timed out at the first.
#[test]
fn an_address_that_never_answers_loses_no_request_and_stamps_stay_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _server = replica(listener);
    let _hole = black_hole(SocketAddr::from(([127, 0, 0, 3], port)));
    let flags = format!("--resolve host.test:{port}:127.0.0.3,127.0.0.1");
    let url = format!("http://host.test:{port}");
    let summary = succeeded(&mut bench(folder.path(), &url, &flags));
    let expected = vec![(format!("127.0.0.3:{port}"), 0), (format!("127.0.0.1:{port}"), 12)];
    assert_eq!(shares(&summary), expected);
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    for row in reader.timelines().unwrap() {
        assert_eq!(row.stamp_source, StampSource::Kernel, "{row:?}");
        assert_eq!(row.connection.address, Some(1));
    }
}

#[test]
fn a_wrong_resolve_flag_says_how_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let ended = ended(&mut bench(folder.path(), "http://h", "--resolve h:80:nowhere"));
    ended.says(2, &["`nowhere` is not an IP address"]);
}
