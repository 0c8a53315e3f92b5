//! Each form with the edges of real files. All rows are invented.

use std::path::Path;

use proptest::prelude::*;
use tokometer_base::Nanos;

use super::*;
use crate::session::{Piece, PieceName, Session};

struct Read {
    sessions: Vec<Session>,
    flaws: Vec<FlawCount>,
    forms: Vec<&'static str>,
}

fn read_with(path: &Path, options: &TraceOptions) -> crate::Result<Read> {
    let mut reader = TraceReader::open(path, options)?;
    let mut sessions = Vec::new();
    while let Some(session) = reader.next_session()? {
        sessions.push(session);
    }
    Ok(Read { sessions, flaws: reader.flaws().to_vec(), forms: reader.forms().to_vec() })
}

fn skipping() -> TraceOptions {
    TraceOptions { on_flaw: OnFlaw::Skip, ..TraceOptions::default() }
}

fn read_text(text: impl AsRef<[u8]>, options: &TraceOptions) -> crate::Result<Read> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, text).unwrap();
    read_with(&path, options)
}

/// The sessions of a trace without flaws.
fn sound(form: &str, text: impl AsRef<[u8]>) -> Vec<Session> {
    let read = read_text(text, &TraceOptions::default()).unwrap();
    assert_eq!(read.forms, [form]);
    read.sessions
}

fn millis(nanos: Option<Nanos>) -> Option<u64> {
    nanos.map(|nanos| (nanos.0 + 500_000) / 1_000_000)
}

fn starts(sessions: &[Session]) -> Vec<Option<u64>> {
    sessions.iter().map(|session| millis(session.start)).collect()
}

/// A prompt in short: `b7:512` is 512 tokens of block 7, `new:88` tokens of its own, `a0` an answer.
fn prompt(session: &Session, turn: usize) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Made { name: PieceName::Block(id), tokens } if *id < 1_000 => {
            format!("b{id}:{tokens}")
        }
        Piece::Made { name: PieceName::Block(_), tokens } => format!("local:{tokens}"),
        Piece::Made { tokens, .. } => format!("new:{tokens}"),
        Piece::Text(text) => format!("{text:?}"),
        Piece::Messages(list) => list
            .iter()
            .map(|it| format!("{}={}", it.role, it.content))
            .collect::<Vec<_>>()
            .join("+"),
        Piece::Answer(answer) => format!("a{}", answer.turn),
        Piece::Given(_) => "given".to_owned(),
    };
    session.turns()[turn].pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
}

/// Which turns each turn waits for, and the pause behind them in milliseconds.
fn graph(session: &Session) -> Vec<(Vec<u32>, u64)> {
    let turns = session.turns().iter();
    turns.map(|turn| (turn.parents.clone(), millis(Some(turn.delay)).unwrap())).collect()
}

fn flaws(text: &str) -> Vec<(FlawKind, u64, u64)> {
    let read = read_text(text, &skipping()).unwrap();
    read.flaws.iter().map(|flaw| (flaw.kind, flaw.rows, flaw.line)).collect()
}

#[test]
fn mooncake_has_blocks_of_512_of_which_the_last_may_be_shorter() {
    let sessions = sound(
        "mooncake",
        r#"{"timestamp": 1000, "input_length": 1100, "output_length": 52, "hash_ids": [7, 8, 9]}
{"timestamp": 1412, "input_length": 1400, "output_length": 9, "hash_ids": [7, 8]}
{"timestamp": 1412.5, "input_length": 90.0, "output_length": 9}
"#,
    );
    assert_eq!(starts(&sessions), [Some(0), Some(412), Some(413)]);
    assert_eq!(prompt(&sessions[0], 0), "b7:512 b8:512 b9:76");
    assert_eq!(prompt(&sessions[1], 0), "b7:512 b8:512 new:376");
    assert_eq!(prompt(&sessions[2], 0), "new:90");
    assert_eq!(sessions[0].turns()[0].answer_tokens, Some(52));
}

#[test]
fn sessions_of_aiperf_add_to_the_turn_before_unless_they_hold_all_of_it() {
    let sessions = sound(
        "mooncake",
        r#"{"session_id": "a", "timestamp": 0, "input_length": 100, "output_length": 10}
{"session_id": "b", "timestamp": 5, "input_length": 512, "output_length": 10, "hash_ids": [1]}
{"session_id": "a", "delay": 250, "input_length": 30, "output_length": 20}
{"session_id": "b", "delay": 9, "input_length": 1024, "output_length": 10, "hash_ids": [1, 2]}
{"session_id": "c", "timestamp": 7, "text_input": "hello", "output_length": 3}
{"session_id": "d", "timestamp": 8, "messages": [{"role": "user", "content": "x"}], "tools": [], "output_length": 3}
"#,
    );
    assert_eq!(starts(&sessions), [0, 5, 7, 8].map(Some));
    assert_eq!(prompt(&sessions[0], 1), "new:100 a0 new:30");
    assert_eq!(graph(&sessions[0]), [(vec![], 0), (vec![0], 250)]);
    assert_eq!(prompt(&sessions[1], 1), "b1:512 b2:512");
    assert_eq!(
        (prompt(&sessions[2], 0), prompt(&sessions[3], 0)),
        ("\"hello\"".into(), "user=x".into())
    );
}

#[test]
fn tables_are_read_by_the_names_of_their_columns() {
    let azure = sound(
        "azure",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n\
         2023-11-16 18:17:04.0319600,3180,8\r\n",
    );
    assert_eq!(azure[1].start, Some(Nanos::from_micros(52_000)));
    assert_eq!(
        (prompt(&azure[0], 0), prompt(&azure[1], 0)),
        ("new:4808".into(), "new:3180".into())
    );
    let burst = sound(
        "burstgpt",
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
         19440110.5,17,2.4,ChatGPT,472,18,490,Conversation log\n\
         19440120.0,,3.0,GPT-4,640,77,717,API log\n\
         19440161.5,17,3.0,ChatGPT,640,77,717,Conversation log\n",
    );
    assert_eq!(starts(&burst), [Some(0), Some(9_500)]);
    assert_eq!(graph(&burst[0]), [(vec![], 0), (vec![0], 48_600)]);
    assert_eq!(burst[1].class.as_deref(), Some("API log"));
}

#[test]
fn bailian_s_turns_wait_for_the_turn_that_they_name() {
    let rows = r#"{"chat_id": 4, "parent_chat_id": -1, "timestamp": 3.2, "input_length": 40, "output_length": 12, "type": "text", "turn": 1, "hash_ids": [5, 6, 7]}
{"chat_id": 9, "parent_chat_id": 4, "timestamp": 21.0, "input_length": 75, "output_length": 30, "type": "text", "turn": 2, "hash_ids": [5, 6, 7, 61, 62]}
{"chat_id": 10, "parent_chat_id": 4, "timestamp": 22.0, "input_length": 16, "output_length": 30, "type": "text", "turn": 2, "hash_ids": [5]}
"#;
    let sessions = sound("bailian", rows);
    assert_eq!(graph(&sessions[0]), [(vec![], 0), (vec![0], 0), (vec![0], 0)]);
    assert_eq!(prompt(&sessions[0], 1), "b5:16 b6:16 b7:16 b61:16 b62:11");
    assert_eq!(millis(sessions[0].turns()[2].recorded.map(|times| times.sent)), Some(18_800));
    // A child above its parent finds it within the read-ahead.
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.swap(0, 1);
    let swapped = sound("bailian", lines.join("\n"));
    assert_eq!(prompt(&swapped[0], 1), "b5:16 b6:16 b7:16 b61:16 b62:11");
}

/// A sub-agent side by side with another; both end before the parent goes on.
const WEKA: &str = r#"{"id": "s1", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 0, "system_tokens": 64, "requests": [
 {"t": 0.0, "type": "s", "model": "m", "in": 150, "out": 20, "hash_ids": [1, 2], "stop": "tool_use", "api_time": 1.0, "ttft": 0.3},
 {"t": 1.5, "type": "subagent", "agent_id": "x", "status": "completed", "requests": [
   {"t": 0.0, "type": "n", "model": "m", "in": 70, "out": 5, "hash_ids": [1], "api_time": 2.0},
   {"t": 2.5, "type": "n", "model": "m", "in": 80, "out": 5, "hash_ids": [1], "api_time": 1.0}]},
 {"t": 1.5, "type": "subagent", "agent_id": "y", "status": null, "requests": [
   {"t": 1.6, "type": "n", "model": "m", "in": 70, "out": 5, "hash_ids": [1], "api_time": 0.4}]},
 {"t": 6.0, "type": "s", "model": "m", "in": 200, "out": 0, "hash_ids": [1, 2, 3], "api_time": 1.0},
 {"t": 6.0, "type": "s", "model": "m", "in": 200, "out": 7, "hash_ids": [1, 2, 3], "think_time": 0.5}]}"#;

#[test]
fn weka_s_sub_agents_branch_and_join() {
    let read = read_text(WEKA, &skipping()).unwrap();
    assert_eq!(read.forms, ["weka"]);
    assert_eq!(read.flaws.iter().map(|flaw| flaw.kind).collect::<Vec<_>>(), [FlawKind::ZeroLength]);
    let session = &read.sessions[0];
    assert_eq!(session.start, None);
    // 0: parent; 1: x; 2: y, which does not join; 3: x; 4: parent.
    let expected =
        [(vec![], 0), (vec![0], 500), (vec![0], 600), (vec![1], 500), (vec![3, 0], 1_000)];
    assert_eq!(graph(session), expected);
    let agents: Vec<bool> = session.turns().iter().map(|turn| turn.agent.is_some()).collect();
    assert_eq!(agents, [false, true, true, true, false]);
    assert_eq!(prompt(session, 0), "local:64 local:64 new:22");
    let first = |turn: usize| session.turns()[turn].pieces[0].clone();
    assert_eq!(first(0), first(4));
}

#[test]
fn tracelab_keeps_the_beginning_of_the_round_before() {
    let rounds = sound(
        "tracelab",
        r#"{"session_id": "s", "round_index": 0, "input_tokens_total": 100, "prefix_tokens": 0, "newly_append_tokens": 100, "output_tokens": 20, "timing_events": [{"event_type": "user_message", "timestamp": "2026-01-01T00:00:00Z"}, {"event_type": "text", "timestamp": "2026-01-01T00:00:02Z"}]}
{"session_id": "s", "round_index": 1, "input_tokens_total": 150, "prefix_tokens": 110, "newly_append_tokens": 40, "output_tokens": 5, "timing_events": [{"event_type": "tool_result", "timestamp": "2026-01-01T00:00:05Z"}, {"event_type": "tool_call", "timestamp": "2026-01-01T00:00:06Z"}]}
{"session_id": "s", "round_index": 2, "input_tokens_total": 180, "prefix_tokens": 155, "newly_append_tokens": 25, "output_tokens": 5, "timing_events": [{"event_type": "tool_result", "timestamp": "2026-01-01T00:00:07Z"}]}
"#,
    );
    assert_eq!(prompt(&rounds[0], 1), "new:100 new:50");
    assert_eq!(prompt(&rounds[0], 2), "new:100 new:50 a1 new:25");
    assert_eq!(graph(&rounds[0]), [(vec![], 0), (vec![0], 3_000), (vec![1], 1_000)]);
    let table = sound(
        "tracelab-table",
        "session_id,round_idx,prefix_len,input_len,output_len,tool_wait_after_ms\n\
         s,0,0,100,20,1500\ns,1,100,50,5,0\n",
    );
    assert_eq!(prompt(&table[0], 1), "new:100 new:50");
    assert_eq!(graph(&table[0]), [(vec![], 0), (vec![0], 1_500)]);
}

#[test]
fn dynamo_s_events_are_put_in_order_of_their_requests() {
    let row = |session: &str, parent: &str, at: u64, took: u64, hashes: &str| {
        format!(
            r#"{{"timestamp": 1, "event": {{"event_type": "request_end", "event_time_unix_ms": {}, "agent_context": {{"session_id": "{session}"{parent}}}, "request": {{"request_received_ms": {at}, "total_time_ms": {took}, "input_tokens": 20, "output_tokens": 3, "replay": {{"trace_block_size": 16, "input_length": 20, "input_sequence_hashes": {hashes}}}}}}}}}"#,
            at + took
        )
    };
    let child = r#", "parent_session_id": "main""#;
    let text = [
        row("main", "", 1_000, 100, "[1, 2]"),
        row("child", child, 1_200, 100, "[1, 3]"),
        r#"{"event": {"event_type": "tool_end", "event_time_unix_ms": 1300}}"#.to_owned(),
        row("main", "", 1_500, 100, "[1, 2]"),
        row("other", "", 900, 3_000, "[4]"),
    ];
    let text = text.join("\n").replace(
        "\"input_length\": 20, \"input_sequence_hashes\": [4]",
        "\"input_length\": 9, \"input_sequence_hashes\": [4]",
    );
    let sessions = sound("dynamo", text);
    assert_eq!(starts(&sessions), [Some(0), Some(100)]);
    assert_eq!(graph(&sessions[1]), [(vec![], 0), (vec![0], 100), (vec![1, 0], 200)]);
    assert_eq!(prompt(&sessions[1], 1), "b1:16 b3:4");
}

#[test]
fn spans_of_opentelemetry_become_calls_in_both_ways_of_writing_them() {
    let sessions = sound(
        "opentelemetry",
        r#"{"trace_id": "a", "spans": [
 {"span_id": "1", "name": "chat m", "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:02Z", "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\", \"content\": \"hi\"}]}]", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 4}},
 {"span_id": "2", "name": "execute_tool ls", "start_time": "2026-01-01T00:00:02Z", "end_time": "2026-01-01T00:00:05Z", "attributes": {"gen_ai.operation.name": "execute_tool"}},
 {"span_id": "3", "name": "chat m", "start_time": "2026-01-01T00:00:05Z", "end_time": "2026-01-01T00:00:06Z", "attributes": {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 4}}]}"#,
    );
    assert_eq!(prompt(&sessions[0], 0), "user=hi");
    assert_eq!(prompt(&sessions[0], 1), "new:30");
    assert_eq!(graph(&sessions[0]), [(vec![], 0), (vec![0], 3_000)]);
    let otlp = sound(
        "opentelemetry",
        r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "name": "chat", "startTimeUnixNano": "1000000000", "endTimeUnixNano": "2000000000", "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "3"}}]}]}]}]}"#,
    );
    assert_eq!((prompt(&otlp[0], 0), otlp[0].turns()[0].answer_tokens), ("new:12".into(), Some(3)));
}

/// The second call repeats the first, its answer with a tool call, and has the tool's result.
#[test]
fn parts_of_messages_become_calls_of_tools_and_their_results() {
    let sessions = sound(
        "opentelemetry",
        r#"{"trace_id": "a", "spans": [
 {"name": "chat m", "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:02Z", "attributes": {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}], "gen_ai.output.messages": "[{\"role\": \"assistant\", \"parts\": [{\"type\": \"tool_call\", \"id\": \"c1\", \"name\": \"ls\", \"arguments\": {\"p\": 1}}], \"finish_reason\": \"tool_call\"}]", "gen_ai.tool.definitions": [{"type": "function", "name": "ls", "parameters": {}}]}},
 {"name": "chat m", "start_time": "2026-01-01T00:00:05Z", "end_time": "2026-01-01T00:00:06Z", "attributes": {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}, {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"p": 1}}]}, {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "7"}]}], "gen_ai.output.text": "done"}}]}"#,
    );
    assert_eq!(prompt(&sessions[0], 1), "user=hi a0 tool=7");
    let [first, second] = sessions[0].turns() else { panic!("two turns") };
    let call = first.answer.as_ref().unwrap().verbatim.as_deref().unwrap();
    assert!(call.contains(r#""arguments":"{\"p\":1}""#) && call.contains("c1"), "{call}");
    assert_eq!(
        first.extra_body.as_deref(),
        Some(r#"{"tools":[{"function":{"name":"ls","parameters":{}},"type":"function"}]}"#)
    );
    assert_eq!(second.answer.as_ref().unwrap().content, "done");
}

#[test]
fn conversations_add_each_question_to_what_was_said() {
    let sharegpt = sound(
        "conversations",
        r#"[{"id": "1", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}]}]"#,
    );
    assert_eq!(sharegpt[0].turns().len(), 2);
    assert_eq!(prompt(&sharegpt[0], 1), "user=a a0 user=c");
    let agentic = sound(
        "conversations",
        r#"{"metadata": {}, "conversations": [[{"messages": [{"role": "user", "content": "x"}], "prompt_tokens": 3}, {"messages": [{"role": "tool", "content": "y"}], "prompt_tokens": 9}], [{"messages": [{"role": "user", "content": "z"}]}]]}"#,
    );
    assert_eq!(agentic.len(), 2);
    assert_eq!(prompt(&agentic[0], 1), "user=x a0 tool=y");
}

#[test]
fn any_other_rows_are_read_by_a_map() {
    let map = |text: &str| TraceOptions {
        map: Some(FieldMap::parse(text).unwrap()),
        ..TraceOptions::default()
    };
    let json = r#"{"usage": {"prompt_tokens": 12, "completion_tokens": 3}, "at": 1500, "user": "u"}
{"usage": {"prompt_tokens": 20, "completion_tokens": 4}, "at": 2500, "user": "u"}"#;
    let options = map("in=usage.prompt_tokens,out=usage.completion_tokens,time=at:ms,session=user");
    let sessions = read_text(json, &options).unwrap().sessions;
    assert_eq!((sessions.len(), prompt(&sessions[0], 1)), (1, "new:20".into()));
    let csv = "When,P,C,Took\n2026-01-01 00:00:00,5,6,1\n2026-01-01 00:00:03,7,8,1\n";
    let sessions = read_text(csv, &map("in=p,out=C,time=when,duration=took")).unwrap().sessions;
    assert_eq!(starts(&sessions), [Some(0), Some(3_000)]);
    for (text, expected) in
        [("in=a", "`out=PLACE` is missing"), ("x=a", "not a field"), ("in", "not FIELD=PLACE")]
    {
        assert!(FieldMap::parse(text).unwrap_err().contains(expected), "{text}");
    }
    let error = read_text("{\"a\": 1}", &TraceOptions::default()).err().unwrap().to_string();
    assert!(error.contains("no form of trace has the fields a"), "{error}");
    assert!(error.contains("--map"), "{error}");
}

#[test]
fn compressed_files_and_folders_of_them_are_read_in_the_order_of_their_names() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let row = |at: u32, input: u32| {
        format!("{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": 1}}\n")
    };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(row(0, 1).as_bytes()).unwrap();
    std::fs::write(folder.path().join("a.jsonl.gz"), gzip.finish().unwrap()).unwrap();
    std::fs::write(folder.path().join("b.jsonl"), row(5, 2)).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "no trace").unwrap();
    let read = read_with(folder.path(), &TraceOptions::default()).unwrap();
    assert_eq!(starts(&read.sessions), [Some(0), Some(5)]);
}

#[test]
fn each_flaw_is_refused_with_its_row_or_counted() {
    let row = |fields: &str| format!("{{{fields}, \"output_length\": 1}}\n");
    let good = row("\"timestamp\": 5, \"input_length\": 3");
    let check = |bad: &str, kind: FlawKind, expected: &str| {
        let text = format!("{good}{bad}\n{bad}");
        let error = read_text(&text, &TraceOptions::default()).err().unwrap().to_string();
        assert!(error.contains("line 2: ") && error.contains(expected), "{error}");
        assert_eq!(flaws(&text), [(kind, 2, 2)], "{bad}");
    };
    let row = |fields: &str| row(fields).trim().to_owned();
    check("{\"timestamp\": 6", FlawKind::Malformed, "EOF");
    check(&row("\"timestamp\": -1, \"input_length\": 3"), FlawKind::NegativeTime, "below zero");
    check(&row("\"input_length\": 3"), FlawKind::NoTime, "has no time");
    check(&row("\"timestamp\": 6, \"input_length\": 0"), FlawKind::ZeroLength, "0 tokens");
    check(
        &row("\"timestamp\": 6, \"input_length\": 100, \"hash_ids\": [1,2,3,4,5,6,7]"),
        FlawKind::BlockSize,
        "`--trace-block-size 16`",
    );
}

#[test]
fn parents_that_are_missing_or_lead_back_are_named() {
    let row = |id: u32, parent: i32| {
        format!(
            "{{\"chat_id\": {id}, \"parent_chat_id\": {parent}, \"timestamp\": 1, \"input_length\": 3, \"output_length\": 1}}\n"
        )
    };
    let text = [row(1, -1), row(2, 77), row(3, 4), row(4, 3), row(1, -1)].concat();
    let expected = [
        (FlawKind::RepeatedId, 1, 5),
        (FlawKind::UnknownParent, 1, 2),
        (FlawKind::CyclicParent, 2, 3),
    ];
    assert_eq!(flaws(&text), expected);
}

#[test]
fn rows_are_put_in_order_within_the_read_ahead_and_refused_beyond_it() {
    let row = |at: usize, session: &str| {
        format!("{{\"timestamp\": {at}, \"input_length\": 3, \"output_length\": 1{session}}}\n")
    };
    let late: String = (0..50).map(|at| row(100 - at, "")).collect();
    assert!(sound("mooncake", &late).is_sorted_by_key(|session| session.start));
    let small = TraceOptions { read_ahead: Some(10 * 40 * 8), ..skipping() };
    let read = read_text(&late, &small).unwrap();
    assert_eq!(read.flaws[0].kind, FlawKind::OutOfOrder);
    assert_eq!(read.sessions.len() as u64 + read.flaws[0].rows, 50);
    let mut split: String = row(0, ", \"session_id\": 7");
    split.extend((1..50).map(|at| row(at, "")));
    split.push_str(&row(60, ", \"session_id\": 7"));
    let read = read_text(&split, &small).unwrap();
    assert_eq!((read.flaws[0].kind, read.flaws[0].line), (FlawKind::LateTurn, 51));
}

#[test]
fn our_own_form_gives_back_what_was_read() {
    let read = read_text(WEKA, &skipping()).unwrap();
    let lines: Vec<String> =
        read.sessions.iter().map(|session| serde_json::to_string(session).unwrap()).collect();
    assert_eq!(sound("tokometer", lines.join("\n")), read.sessions);
    let bad = lines[0].replace("\"tokens\":22", "\"tokens\":0");
    assert_eq!(flaws(&bad), [(FlawKind::ZeroLength, 1, 1)]);
}

fn survey(text: impl AsRef<[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    std::fs::write(&path, text).unwrap();
    let reader = TraceReader::open(&path, &skipping()).unwrap();
    let keep = |_: Session| Ok::<(), crate::Error>(());
    let text = Survey::of(reader, keep).unwrap().to_text();
    text.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn a_survey_shows_lengths_sharing_bursts_and_the_ticks_of_a_coarse_clock() {
    let row = |at: u32, ids: &str| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 1024, \"output_length\": 9, \"hash_ids\": {ids}}}\n"
        )
    };
    let rows = (0..20).map(|at| row(at / 5 * 3_000, &format!("[1, {}]", 2 + at % 2)));
    let bad = row(3, "[1]").replace("1024", "0");
    let text = survey(rows.chain([bad]).collect::<String>());
    assert_eq!(
        text,
        "\
form        mooncake, 21 rows
sessions    20 with 20 requests: mean 1.0, p50 1, p90 1, p99 1, max 1
prompts     mean 1024.0, p50 1024, p90 1024, p99 1024, max 1024 tokens
answers     mean 9.0, p50 9, p90 9, p99 9, max 9 tokens
shared      92.5 % of prompt tokens begin as an earlier prompt did
starts      over 9.0 s, 2.111 per second
burstiness  gaps vary by 2.31 of their mean (Poisson: 1)
clock ticks of 3 s: 4 times, up to 5 starts at one
in progress up to 5 sessions at once; durations are not recorded
left out    rows that have a length of zero: 1
            first trace, line 21: its prompt has 0 tokens
sessions by their start, in milliseconds
     0 -  511  5  ########################################
   512 - 1023  0
  1024 - 1535  0
  1536 - 2047  0
  2048 - 2559  0
  2560 - 3071  5  ########################################
  3072 - 3583  0
  3584 - 4095  0
  4096 - 4607  0
  4608 - 5119  0
  5120 - 5631  0
  5632 - 6143  5  ########################################
  6144 - 6655  0
  6656 - 7167  0
  7168 - 7679  0
  7680 - 8191  0
  8192 - 8703  0
  8704 - 9215  5  ########################################
"
    );
}

#[test]
fn a_survey_counts_what_was_in_progress_where_durations_are_recorded() {
    let text = "Timestamp,Session ID,Elapsed time,Request tokens,Response tokens\n0,a,4,5,5\n2,b,4,5,5\n8,a,2,5,5\n";
    let text = survey(text);
    assert!(text.contains("up to 2 sessions at once, 5.00 requests on average"), "{text}");
    assert!(text.contains("sessions    2 with 3 requests"), "{text}");
    assert!(survey(SAMPLES[4]).contains("given as text: 1"), "{}", survey(SAMPLES[4]));
}

#[test]
fn an_export_has_no_text_and_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let export = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let reader = TraceReader::open(&path, &skipping()).unwrap();
        let mut out = Vec::new();
        let tokenizer = || Ok::<_, crate::Error>(crate::DatasetContext::for_test(1, 0).tokenizer);
        Survey::exported(reader, &mut out, tokenizer).unwrap().unwrap();
        String::from_utf8(out).unwrap()
    };
    for sample in SAMPLES {
        let lines = export(sample);
        assert_eq!(export(&lines), lines, "{sample}");
    }
    let lines = export(SAMPLES[4]);
    assert!(!lines.contains("text"), "{lines}");
    assert_eq!(prompt(&sound("tokometer", &lines)[0], 0), "new:1");
}

const SAMPLES: [&str; 5] = [
    WEKA,
    r#"{"timestamp": 412, "input_length": 1400, "output_length": 9, "hash_ids": [7, 8, 31]}"#,
    "Timestamp,Session ID,Request tokens,Response tokens\n5,17,472,18\n61,17,640,77\n",
    r#"{"chat_id": 4, "parent_chat_id": -1, "timestamp": 3.2, "input_length": 40, "output_length": 12, "hash_ids": [5, 6, 7]}"#,
    r#"{"id": "1", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}"#,
];

proptest! {
    /// Whatever a file holds, it is read or refused.
    #[test]
    fn damaged_traces_never_panic(
        sample in 0..SAMPLES.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9\"{}\\[\\],:a.\n]{0,3}"), 1..6),
    ) {
        let mut text = SAMPLES[sample].to_owned();
        for (at, new) in cuts {
            let at = at.index(text.len());
            text.replace_range(at..=at, &new);
            if text.is_empty() {
                break;
            }
        }
        let _ = read_text(&text, &skipping());
    }
}
