//! Several choices (`n` above 1) inside one event.

use super::{letters, outcome_of, read_whole, streamed};

/// The choices behind the first were skipped, and with them their tokens and their failures.
#[test]
fn all_choices_of_one_event_are_read() {
    let check = |events: &[&str], kinds: &str| {
        let timeline = read_whole("vllm", &streamed(events));
        assert_eq!(
            (letters(&timeline.events).as_str(), outcome_of(&timeline).as_str()),
            (kinds, "ok")
        );
    };
    let both = |a: &str, b: &str| {
        format!(r#"{{"choices":[{{"index":0,"text":"{a}"}},{{"index":1,"text":"{b}"}}]}}"#)
    };
    let (two, second) = (both("a", "b"), both("", "c"));
    check(&[&two, &two, &second, "[DONE]"], "tftfef.");
    // An escape in a key leaves the event to the full parser.
    let escaped = two.replacen("choices", "\\u0063hoices", 1);
    check(&[&escaped, "[DONE]"], "tf.");
    let turned = r#"{"choices":[{"index":1,"text":"b"},{"index":0,"text":"a"}]}"#;
    check(&[turned, "[DONE]"], "ft.");
}

#[test]
fn a_further_choice_that_the_server_aborted_fails_the_request() {
    let aborted =
        r#"{"choices":[{"index":0,"text":"a"},{"index":1,"text":"","finish_reason":"abort"}]}"#;
    let timeline = read_whole("vllm", &streamed(&[aborted, "[DONE]"]));
    assert!(outcome_of(&timeline).starts_with("in-stream"), "{timeline:?}");
}
