//! What a run of several processes does once: in shard 0.

use serde_json::{Value, json};
use tokometer_record::{Phase, Timeline};

use crate::program::{Server, Started, ended, free_port, wait_until};
use crate::scripted::{AfterResponse, Scripted};
use crate::shards::{free_address, load, rows, scripted_load, shard, start};

/// Every shard sent canaries, shard 0 by the requests of all: the server had twice the share. They also
/// followed the warm-up, whose counters stay until the measured phase begins.
#[test]
fn canaries_follow_the_load_of_all_shards_and_not_the_warm_up() {
    let folder = tempfile::tempdir().unwrap();
    let row = r#"{"prompt":"The capital of France is","expected":"Paris"}"#;
    std::fs::write(folder.path().join("canary.jsonl"), row).unwrap();
    let server = Scripted::new(|mut asked| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        if body["stream"] == json!(true) {
            asked.good_answer(6);
        } else {
            let choice = json!({ "index": 0, "text": " Paris", "finish_reason": "stop" });
            let body = json!({ "choices": [choice], "usage": { "completion_tokens": 2 } });
            asked.answer("200 OK", "application/json", body.to_string());
        }
        AfterResponse::Close
    });
    let leader = free_address();
    let line = |rank: u32| {
        let more = format!(
            "--num-prompts 8 --num-warmups 20 --canary canary.jsonl --canary-share 0.5 --run-dir run \
             --quiet --shard {rank}/2 --leader {leader}"
        );
        scripted_load(&server, &more)
    };
    let leading = Started::of(&mut shard(folder.path(), &line(0)));
    // Shard 0 has made the warm-up and waits for the other one.
    wait_until("the warm-up and the first canary", || server.requests() >= 21);
    let following = ended(&mut shard(folder.path(), &line(1)));
    let leading = leading.wait();
    assert_eq!(following.code, Some(0), "{}", following.stderr);
    assert_eq!(leading.code, Some(0), "{}", leading.stderr);
    let rows = rows(&folder.path().join("run"));
    let of_phase = |phase| rows.iter().filter(move |row| row.identity.phase == phase);
    assert_eq!(of_phase(Phase::Measure).count(), 8);
    let canaries: Vec<&Timeline> = of_phase(Phase::Canary).collect();
    assert!((1..=4).contains(&canaries.len()), "{} canaries for 8 requests", canaries.len());
    assert!(canaries.iter().all(|row| row.identity.shard == 0), "of another shard");
}

/// On one machine the port was taken for all shards but the first, and the run was made without them.
#[test]
fn shard_0_alone_serves_counters() {
    let server = Server::quick();
    let folder = tempfile::tempdir().unwrap();
    let more = format!("--num-prompts 8 --run-dir run --quiet --prometheus-port {}", free_port());
    for end in start(folder.path(), &load(&server, &more), 2).into_iter().map(Started::wait) {
        assert_eq!(end.code, Some(0), "{}", end.stderr);
    }
    assert_eq!(rows(&folder.path().join("machine0/run")).len(), 8);
}
