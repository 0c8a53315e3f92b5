//! Errors inside a stream of status 200, in the forms of servers that have no `error`.

use super::*;

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn read(backend: &str, body: &str) -> Timeline {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    read_whole(backend, format!("{head}{body}").as_bytes())
}

fn outcome(body: &str) -> String {
    outcome_of(&read("openai-chat", body))
}

fn data(event: &str) -> String {
    format!("data: {event}\n\n")
}

/// They counted as successes, and the text of `FastChat`'s as tokens of the answer.
#[test]
fn an_error_code_fails_the_answer_in_the_servers_words() {
    for error in [
        r#"{"text":"**NETWORK ERROR**\n\n(CUDA out of memory)","error_code":50002}"#,
        r#"{"error_code":18,"error_msg":"**NETWORK ERROR** (CUDA out of memory)"}"#,
        r#"{"code":500,"msg":"**NETWORK ERROR** (CUDA out of memory)"}"#,
        r#"{"success":false,"message":"**NETWORK ERROR** (CUDA out of memory)","data":null}"#,
        r#"{"base_resp":{"status_code":1002,"status_msg":"**NETWORK ERROR** (CUDA out of memory)"}}"#,
        r#"{"choices":null,"base_resp":{"status_code":1002,"status_msg":"**NETWORK ERROR** (CUDA out of memory)"}}"#,
    ] {
        let error = data(error);
        let expected = "in-stream **NETWORK ERROR** (CUDA out of memory)";
        assert_eq!(outcome(&format!("{TOKEN}{error}{DONE}")), expected, "{error}");
        assert_eq!(outcome(&format!("{error}{DONE}")), expected, "{error}");
        // Whatever comes behind it, a part of the answer is missing.
        assert_eq!(outcome(&format!("{TOKEN}{error}{TOKEN}{STOP}{DONE}")), expected, "{error}");
    }
}

#[test]
fn codes_of_success_are_no_errors() {
    for state in [
        r#"{"base_resp":{"status_code":0,"status_msg":"success"}}"#,
        r#"{"code":0,"msg":"ok","success":true}"#,
        r#"{"code":200,"message":"ok"}"#,
        r#"{"code":null,"message":"","error_code":null}"#,
        r#"{"code":"","msg":"waiting","error_code":0}"#,
        r#"{"code":"success","msg":"ok","error_code":"0"}"#,
    ] {
        let state = data(state);
        assert_eq!(outcome(&format!("{state}{TOKEN}{state}{DONE}")), "ok", "{state}");
    }
    let healthy = TOKEN.replace("{\"choices", "{\"base_resp\":{\"status_code\":0},\"choices");
    assert_eq!(outcome(&format!("{healthy}{healthy}{STOP}{DONE}")), "ok");
}

/// A state of the queue was taken for the first token, and TTFT ended with it.
#[test]
fn text_beside_the_choices_is_no_part_of_an_answer() {
    let queued = data(r#"{"content":"queue position 3","type":"status"}"#);
    let timeline = read("openai-chat", &format!("{queued}{TOKEN}{STOP}{DONE}"));
    assert_eq!(letters(&timeline.events), "ote.");
    assert_eq!(timeline.text.as_deref(), Some("a"));
    let native = data(r#"{"content":"a","stop":false}"#) + &data(r#"{"content":"","stop":true}"#);
    assert_eq!(outcome_of(&read("llamacpp", &native)), "ok");
}

/// Every event looked like the last, so an answer that was cut after two tokens was complete.
#[test]
fn a_finish_reason_of_null_in_the_form_of_a_text_ends_nothing() {
    for null in ["null", "None"] {
        let token = TOKEN.replace("\"delta\"", &format!("\"finish_reason\":\"{null}\",\"delta\""));
        let cut = "cut the stream ended without its end marker";
        assert_eq!(outcome(&format!("{token}{token}")), cut);
        assert_eq!(outcome(&format!("{token}{token}{STOP}")), "ok");
    }
}
