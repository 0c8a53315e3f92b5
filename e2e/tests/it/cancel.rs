//! `--cancel`: requests that their users give up, by their outcome, their server and the plan.

use std::path::Path;

use serde_json::Value;
use tokometer_record::{Outcome, RunReader};

use crate::program::{Server, command, ended, run};

/// A run of forty requests with these further words, and its summary.
fn summary(folder: &Path, server: &Server, name: &str, more: &[&str]) -> Value {
    let line = format!(
        "bench --base-url {} -n 40 -c 4 --random-input-len 30 --random-output-len 24 --ignore-eos \
         --scrape-interval 0.05 --seed 3 --quiet --run-dir {name}",
        server.url
    );
    ended(command(folder, &line).args(more)).succeeded();
    let report = format!("report {name} --format json --goodput ttft:60000");
    let report = run(folder, &report).succeeded().json();
    report["summary"].clone()
}

/// Which requests of a run were cancelled.
fn cancelled(run: &Path) -> Vec<u64> {
    let rows = RunReader::open(run).unwrap().timelines().unwrap();
    let cancelled = rows.filter(|row| row.outcome == Outcome::Cancelled);
    let mut indexes: Vec<u64> = cancelled.map(|row| row.identity.index).collect();
    indexes.sort_unstable();
    indexes
}

#[test]
fn the_server_aborts_what_is_cancelled_and_nothing_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(&[]);
    let found = summary(folder.path(), &server, "a", &["--cancel", "40% after 6 tokens"]);
    let drawn = cancelled(&folder.path().join("a"));
    assert!((5..30).contains(&drawn.len()), "{drawn:?}");
    let counts = &found["counts"];
    assert_eq!(counts["cancelled"], drawn.len());
    assert_eq!(counts["succeeded"], 40 - drawn.len());
    assert_eq!(counts["failed"], 0);
    let told = &found["cancelled"];
    assert_eq!(told["server_aborts"], drawn.len() as f64, "{told:#}");
    assert!(told["tokens_after_each"].as_f64().is_some_and(|tokens| tokens < 18.0), "{told:#}");
    assert_eq!(found["distributions"]["ttft_ms"]["count"], 40, "TTFT was seen of all");
    assert_eq!(found["distributions"]["e2e_ms"]["count"], 40 - drawn.len());
    // The prediction gives up the same ones.
    run(folder.path(), "predict --engine default --plan a/plan.json --run-dir p -q").succeeded();
    assert_eq!(cancelled(&folder.path().join("p")), drawn);
    let text = run(folder.path(), "report a --details").succeeded().stdout;
    assert!(text.contains("cancelled    "), "{text}");
}

#[test]
fn a_time_cancels_before_the_first_token_and_a_comparison_takes_it_for_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let found = summary(folder.path(), &server, "a", &["--cancel", "30% after 0s"]);
    let count = cancelled(&folder.path().join("a")).len();
    assert!(count > 3, "{count}");
    assert_eq!(found["cancelled"]["before_first_token"], count);
    assert_eq!(found["goodput"]["share"], 1.0, "the others met the objective");
    let _plain = summary(folder.path(), &server, "b", &[]);
    let both = run(folder.path(), "compare a b");
    assert!(both.stdout.contains("failures 0 and 0"), "{both:?}");
}

#[test]
fn a_cancellation_that_nobody_could_see_is_refused_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    for (words, why) in [
        (&["--cancel", "10% after 128 tokens"][..], "no answer has more than 128 tokens"),
        (&["--cancel", "10% after 5 tokens", "--disable-stream"], "answers come in one piece"),
        (&["--cancel", "10%"], "write `10% after 20 tokens`"),
    ] {
        let refused = ended(command(folder.path(), "bench --random-output-len 128").args(words));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}
