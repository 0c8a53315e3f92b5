//! Servers on Unix-domain sockets.

use tokometer_record::{RunReader, StampSource};

use super::{bench, notes, succeeded};
use crate::program::{Server, ended};

#[test]
fn a_server_on_a_unix_domain_socket_is_measured_with_the_clients_own_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.sock");
    let server = Server::on_socket(&path, &["--ttft", "5ms", "--itl", "1ms"]);
    assert_eq!(server.url, format!("unix:{}", path.display()));
    let summary = succeeded(&mut bench(folder.path(), &server.url, ""));
    assert!(notes(&summary).contains(&"user-stamps"), "{summary:#}");
    let reader = RunReader::open(&folder.path().join("run")).unwrap();
    assert_eq!(reader.info().targets[0].base_url, server.url);
    for row in reader.timelines().unwrap() {
        assert_eq!((row.stamp_source, row.status), (StampSource::User, Some(200)));
    }
    server.stop();
    assert!(!path.exists(), "the server removes its socket");
}

/// More connections at once than the listener's queue holds.
#[test]
fn a_burst_on_a_unix_domain_socket_waits_for_room() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::on_socket(&folder.path().join("s"), &["--ttft", "5ms", "--itl", "1ms"]);
    let line = format!(
        "bench --base-url {} --num-prompts 400 --random-input-len 4 --random-output-len 2 \
         --tokenizer cl100k --no-run-dir --format json",
        server.url
    );
    let page = ended(&mut crate::program::command(folder.path(), &line)).succeeded().json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 400, "{page:#}");
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ended = ended(&mut bench(folder.path(), "http+unix://%2Fnowhere%2Fs.sock", ""));
    ended.says(3, &["cannot reach unix:/nowhere/s.sock:/", "No such file"]);
}
