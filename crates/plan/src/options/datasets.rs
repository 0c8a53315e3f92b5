//! Options of datasets from files, of shared prefixes, traces and conversations.

use serde_json::Value;
use tokometer_workload::OrNone;

use super::row::Kind::{Choice, Count, CountUnlessZero, Counts, Number, Parsed, Text, Time};
use super::row::{option, other, switch};
use super::{Fragment, Group, MOST_PARTS, MOST_TOKENS, number};

const TRACE: &[&str] = &["trace"];
const SHARED: &[&str] = &["generated-shared-prefix"];
const REPEATED: &[&str] = &["prefix_repetition"];
const CONVERSATION: &[&str] = &["multi-turn"];

/// Turns of a conversation in vLLM's Rust client.
const TURNS: u32 = 3;

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Workload: files", rows: &[
        option("sharegpt-output-len", "TOKENS", Count, "Output length for sharegpt [default: that of the recorded answer]")
            .sets("workload.output_len").of(&["sharegpt", "openai", "custom"]).known("PRSO"),
        option("sharegpt-context-len", "TOKENS", Count, "Maximum prompt plus output length for sharegpt, with SGLang's conventions")
            .sets("workload.context_len").of(&["sharegpt", "custom"]).known("S"),
        option("custom-output-len", "TOKENS", Parsed(length_or_none), "Output length for custom; -1 uses each row's own [default: 256]")
            .signed().sets("workload.output_len").of(&["custom", "custom_image", "custom_audio"])
            .known("PR"),
        option("book-input-len", "TOKENS", Counts, "Prompt length for book")
            .sets("workload.input_len").of(&["book"]).known("O").remark("a list makes a sweep"),
        option("book-output-len", "TOKENS", Count, "Output length for book [default: 150]")
            .sets("workload.output_len").of(&["book"]),
        option("sonnet-input-len", "TOKENS", Count, "Prompt length for sonnet [default: 550]")
            .sets("workload.input_len").of(&["sonnet"]).known("PRO"),
        option("sonnet-output-len", "TOKENS", Count, "Output length for sonnet [default: 150]")
            .sets("workload.output_len").of(&["sonnet"]).known("PRO"),
        option("sonnet-prefix-len", "TOKENS", Count, "Length of the shared prefix for sonnet [default: 200]")
            .sets("workload.prefix_len").of(&["sonnet"]).known("PRO"),
        option("spec-bench-category", "NAME", Text, "Category of the questions for `spec_bench` [default: all]")
            .sets("workload.category").of(&["spec_bench"]).known("P"),
        option("hf-subset", "NAME", Text, "Subset of a hub dataset")
            .sets("workload.subset").of(&["hf"]).known("PR"),
        option("hf-split", "NAME", Text, "Split of a hub dataset")
            .sets("workload.split").of(&["hf"]).known("PR"),
        option("hf-output-len", "TOKENS", Count, "Output length for hf")
            .sets("workload.output_len").of(&["hf"]).known("PR"),
        option("hf-text-column", "NAME", Text, "Column of a hub dataset that holds the prompt")
            .sets("workload.text_column").of(&["hf"]).known("R"),
    ]},
    Group { title: "Workload: shared prefixes", rows: &[
        option("prefix-repetition-prefix-len", "TOKENS", Count, "Length of each prefix for `prefix_repetition` [default: 256]")
            .sets("workload.prefix_len").of(REPEATED).known("PR"),
        option("prefix-repetition-suffix-len", "TOKENS", Count, "Length of each suffix for `prefix_repetition` [default: 256]")
            .sets("workload.suffix_len").of(REPEATED).most(MOST_TOKENS).known("PR"),
        option("prefix-repetition-num-prefixes", "N", Count, "Number of prefixes for `prefix_repetition` [default: 10]")
            .sets("workload.num_prefixes").of(REPEATED).most(MOST_PARTS).known("PR"),
        option("prefix-repetition-output-len", "TOKENS", Count, "Output length for `prefix_repetition` [default: 128]")
            .sets("workload.output_len").of(REPEATED).known("PR"),
        option("gsp-num-groups", "N", Count, "Groups for generated-shared-prefix [default: 64]")
            .sets("workload.num_groups").of(SHARED).most(MOST_PARTS).known("S"),
        option("gsp-prompts-per-group", "N", Count, "Prompts per group [default: 16]")
            .sets("workload.prompts_per_group").of(SHARED).known("S"),
        option("gsp-system-prompt-len", "TOKENS", Count, "Length of a group's system prompt [default: 2048]")
            .sets("workload.system_prompt_len").of(SHARED).most(MOST_TOKENS).known("S"),
        option("gsp-question-len", "TOKENS", Count, "Length of a question [default: 128]")
            .sets("workload.question_len").of(SHARED).most(MOST_TOKENS).known("S"),
        option("gsp-output-len", "TOKENS", Count, "Output length [default: 256]")
            .sets("workload.output_len").of(SHARED).known("S"),
        option("gsp-range-ratio", "RATIO", Number, "Range of the lengths; 1 means fixed lengths [default: 1]")
            .sets("workload.range_ratio").of(SHARED).known("S"),
        option("gsp-num-turns", "N", Count, "Turns of a conversation; each is sent after the previous answer [default: 1]")
            .sets("workload.num_turns").of(SHARED).most(MOST_PARTS).known("S")
            .remark("on any endpoint; chat endpoints get messages"),
        switch("gsp-ordered", "grouped", "Send group after group instead of shuffled")
            .sets("workload.order").of(SHARED).known("S"),
        switch("gsp-send-routing-key", "send", "Send each group's name as a routing key")
            .sets("workload.routing_key").of(SHARED).known("S"),
        option("gsp-group-distribution", "HOW", Choice(&["uniform", "zipf"]), "How prompts are distributed over groups [default: uniform]")
            .sets("workload.group_distribution").of(SHARED).known("S"),
        option("gsp-zipf-alpha", "ALPHA", Number, "Zipf exponent of the group sizes")
            .sets("workload.zipf_alpha").of(SHARED).known("S"),
    ]},
    Group { title: "Workload: traces", rows: &[
        option("trace", "PATH", Text, "Replay the sessions of this trace: a file or a folder, whose form is recognised, or the folder of an earlier run")
            .put(trace),
        option("pace", "HOW", Choice(&["think", "clock", "none"]), "When a turn is sent after the answers that it waits for: after the recorded pause, at the recorded time, or at once [default: think, where pauses are known]")
            .sets("workload.pace").of(TRACE),
        option("trace-speed", "FACTOR", Number, "Divide the start times of sessions by this factor; pauses stay [default: 1]")
            .sets("workload.trace_speed").of(TRACE),
        option("trace-from", "TIME", Time, "Skip sessions that start before this time of the trace")
            .sets("workload.trace_from_s").of(TRACE),
        option("trace-to", "TIME", Time, "Skip sessions that start at this time of the trace or later")
            .sets("workload.trace_to_s").of(TRACE),
        option("max-gap", "TIME", Time, "Shorten longer pauses to this time [default: as recorded]")
            .sets("workload.max_gap_s").of(TRACE),
        switch("spread", "even", "Spread sessions that start at one tick of a coarse clock over the time to the next tick")
            .sets("workload.spread").of(TRACE),
        option("map", "FIELDS", Text, "Where a trace of another form has its fields, such as in=usage.prompt_tokens,out=usage.completion_tokens")
            .sets("workload.map").of(TRACE),
        option("trace-block-size", "TOKENS", Count, "Tokens of a block of the trace [default: those of its form]")
            .sets("workload.block_tokens").of(TRACE).most(MOST_TOKENS),
        option("dataset-offset", "N", CountUnlessZero, "Begin with session N of the trace, and go on with the first behind the last [default: 0]")
            .sets("workload.session_offset").of(TRACE).known("S"),
        option("agentic-max-turns", "N", CountUnlessZero, "Leave out the turns of a session behind the first N [default: all]")
            .sets("workload.max_turns").of(TRACE).known("S"),
        switch("self-timed", "trace", "Send requests at the timestamps of the trace")
            .sets("load.timing").replaces("no-self-timed").known("P")
            .also(&[other("use-trace-timestamps", "S")]),
        switch("no-self-timed", "rate", "Send requests at --request-rate instead of the timestamps of the trace")
            .sets("load.timing").replaces("self-timed").known("P"),
        option("timed-trace-chunk-hash-size", "TOKENS", Count, "Tokens per hash id of a `timed_trace` [default: 16]")
            .sets("workload.chunk_hash_size").of(&["timed_trace"]).most(MOST_TOKENS).known("P"),
        option("timed-trace-sec-multiplier", "FACTOR", Number, "Multiply the timestamps of a `timed_trace` by this factor [default: 1]")
            .sets("workload.sec_multiplier").of(&["timed_trace"]).known("P"),
        option("timed-trace-label-timestamp", "NAME", Text, "Field of a `timed_trace` with the time [default: timestamp]")
            .sets("workload.label_timestamp").of(&["timed_trace"]).known("P"),
        option("timed-trace-label-input-length", "NAME", Text, "Field of a `timed_trace` with the prompt length [default: input_length]")
            .sets("workload.label_input_length").of(&["timed_trace"]).known("P"),
        option("timed-trace-label-output-length", "NAME", Text, "Field of a `timed_trace` with the output length [default: output_length]")
            .sets("workload.label_output_length").of(&["timed_trace"]).known("P"),
        option("timed-trace-label-hash-ids", "NAME", Text, "Field of a `timed_trace` with the hash ids [default: hash_ids]")
            .sets("workload.label_hash_ids").of(&["timed_trace"]).known("P"),
        option("mooncake-slowdown-factor", "FACTOR", Number, "Multiply the timestamps of a mooncake trace by this factor [default: 1]")
            .sets("workload.slowdown_factor").of(&["mooncake"]).known("S"),
        option("mooncake-num-rounds", "N", Count, "Number of rounds of each mooncake request [default: 1]")
            .sets("workload.num_rounds").of(&["mooncake"]).most(MOST_PARTS).known("S")
            .remark("rounds are sent as a burst, as in SGLang"),
    ]},
    Group { title: "Workload: conversations", rows: &[
        switch("multi-turn", "", "Send the prompts as multi-turn conversations; each turn waits for the previous answer")
            .put(|to, _| turns(to, TURNS)).known("R")
            .remark("on any endpoint; chat endpoints get messages"),
        option("multi-turn-num-turns", "N", Count, "Number of turns of a conversation [default: 3]")
            .put(|to, count| turns(to, number(count)?)).only_with(CONVERSATION).known("R"),
        option("multi-turn-min-turns", "N", CountUnlessZero, "Minimum number of turns; 0 means the value of --multi-turn-num-turns")
            .sets("prompts.turns.least").only_with(CONVERSATION).known("R"),
        option("multi-turn-max-turns", "N", CountUnlessZero, "Maximum number of turns; 0 means the value of --multi-turn-num-turns")
            .sets("prompts.turns.most").only_with(CONVERSATION).most(MOST_PARTS).known("R"),
        option("multi-turn-concurrency", "N", Counts, "Maximum number of requests in flight; same as --max-concurrency")
            .sets("load.max_concurrency").only_with(CONVERSATION).known("R"),
        option("multi-turn-delay-ms", "MS", Number, "Milliseconds between an answer and the next turn [default: 0]")
            .sets("prompts.turns.think_ms").only_with(CONVERSATION).known("R"),
        option("per-turn-input-len", "TOKENS", CountUnlessZero, "Prompt length of later turns for random; 0 means the length of the first turn")
            .sets("prompts.turns.later_input_len").only_with(CONVERSATION).most(MOST_TOKENS)
            .known("R"),
        option("multi-turn-prefix-global-ratio", "SHARE", Number, "Share of a turn that all turns have in common, instead of repeating the conversation; for random [default: 0]")
            .sets("prompts.turns.global_ratio").only_with(CONVERSATION).most(1.0).known("R"),
        option("multi-turn-prefix-conversation-ratio", "SHARE", Number, "Share of a turn that the turns of its conversation have in common; for random [default: 0]")
            .sets("prompts.turns.conversation_ratio").only_with(CONVERSATION).most(1.0).known("R"),
        option("answers", "WHICH", Choice(&["recorded", "live"]), "Answers that later turns repeat: recorded ones (or made text of their length), or those of the server [default: recorded for a trace, live otherwise]")
            .sets("prompts.answers"),
    ]},
];

/// Below zero each row's own length counts, so a default is taken away.
fn length_or_none(text: &str) -> Result<Value, String> {
    let tokens: i64 = number(text)?;
    Ok(if tokens < 0 { Value::from("none") } else { Value::from(tokens) })
}

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that may fail")]
fn trace(to: &mut Fragment, path: &str) -> Result<(), String> {
    let workload = &mut to.part.workload;
    workload.dataset = Some("trace".to_owned());
    workload.path = Some(OrNone(Some(path.into())));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "it ends functions that may fail")]
fn turns(to: &mut Fragment, count: u32) -> Result<(), String> {
    let turns = to.part.prompts.turns.get_or_insert_default();
    (turns.least, turns.most) = (Some(count), Some(count));
    Ok(())
}
