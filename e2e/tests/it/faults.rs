//! Faults that a server, a network or a file can have, and how the program ends with each.

use crate::program::run;
use crate::scripted::{AfterResponse, Scripted};

#[test]
fn a_stream_that_is_cut_is_a_failed_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = Scripted::new(|mut asked| {
        if asked.number == 1 {
            asked.start_stream();
            asked.event(r#"{"choices":[{"index":0,"text":" word"}]}"#);
            return asked.reset();
        }
        asked.good_answer(4);
        AfterResponse::Close
    });
    let line = format!(
        "bench --base-url {} --num-prompts 3 --max-concurrency 1 --random-input-len 8 \
         --random-output-len 4 --tokenizer cl100k --no-run-dir --json",
        server.url
    );
    let page = run(folder.path(), &line).json();
    assert_eq!(page["summary"]["counts"]["succeeded"], 2, "{page:#}");
    assert_eq!(page["summary"]["counts"]["failed"], 1);
    assert_eq!(server.requests(), 3);
}
