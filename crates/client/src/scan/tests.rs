//! The fast path and the full parser agree on every event that a server might send.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Unescapes texts, so that both representations compare equal.
fn meaning(fields: Fields<'_>) -> Fields<'static> {
    let owned = |text: Option<Text<'_>>| text.map(|text| Text::Owned(text.to_text()));
    Fields {
        text: owned(fields.text),
        reasoning: owned(fields.reasoning),
        reasoning_alias: owned(fields.reasoning_alias),
        reasoning_parts: owned(fields.reasoning_parts),
        whole_text: owned(fields.whole_text),
        marks: fields.marks,
        token_ids: fields.token_ids,
        usage: fields.usage,
        total_tokens: fields.total_tokens,
        timings: fields.timings,
        further: fields.further.into_iter().map(meaning).collect(),
        event_type: owned(fields.event_type),
        status: owned(fields.status),
    }
}

/// Any JSON value, for unknown fields and for known fields of an unexpected type.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e6_f64..1e6).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "[\\\\\"\n\t\u{0}é😀]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,6}|[\"\\\\]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Usually a known value of a field, sometimes any value.
fn mostly(known: Vec<Value>) -> impl Strategy<Value = Value> {
    prop_oneof![8 => prop::sample::select(known), 1 => anything()]
}

/// An object with some of these fields and some unknown ones.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let known: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::of(value).prop_map(move |value| (name, value)))
        .collect();
    let unknown = prop::collection::btree_map("[a-zü]{1,5}x", anything(), 0..3);
    (known, unknown)
        .prop_map(|(known, unknown)| {
            let present =
                known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(unknown.into_iter().chain(present).collect::<Map<_, _>>())
        })
        .boxed()
}

fn text() -> BoxedStrategy<Value> {
    mostly(vec![json!(""), json!("a"), json!("\"%(\n\\"), json!("é😀"), Value::Null]).boxed()
}

fn count() -> BoxedStrategy<Value> {
    mostly(vec![json!(0), json!(7), json!(4_294_967_296_u64), json!(1.5), Value::Null]).boxed()
}

fn ids() -> BoxedStrategy<Value> {
    mostly(vec![json!([]), json!([1, 2]), Value::Null]).boxed()
}

fn finish() -> BoxedStrategy<Value> {
    mostly(vec![Value::Null, json!(""), json!("length"), json!({"type": "length"})]).boxed()
}

fn usage() -> BoxedStrategy<Value> {
    object(vec![
        ("prompt_tokens", count()),
        ("completion_tokens", count()),
        ("prompt_tokens_details", object(vec![("cached_tokens", count())])),
        ("prompt_cache_hit_tokens", count()),
        ("total_tokens", count()),
        ("completion_tokens_details", object(vec![("reasoning_tokens", count())])),
    ])
}

fn openai() -> BoxedStrategy<Value> {
    let delta = object(vec![
        ("role", mostly(vec![json!("assistant")]).boxed()),
        ("content", text()),
        ("reasoning_content", text()),
        ("reasoning", text()),
        ("thinking", text()),
        ("tool_calls", mostly(vec![json!([]), json!([{"index": 0}])]).boxed()),
    ]);
    let completion =
        object(vec![("text", text()), ("finish_reason", finish()), ("token_ids", ids())]);
    let chat = object(vec![
        ("message", delta.clone()),
        ("delta", delta),
        ("finish_reason", finish()),
        ("usage", usage()),
    ]);
    let choices = prop::collection::vec(prop_oneof![completion, chat], 0..3).prop_map(Value::from);
    object(vec![
        ("object", mostly(vec![json!("text_completion"), json!("error")]).boxed()),
        ("choices", choices.boxed()),
        ("usage", prop_oneof![Just(Value::Null), usage()].boxed()),
        ("x_groq", object(vec![("usage", usage())])),
        ("error", mostly(vec![Value::Null, json!("busy"), json!({"message": "no"})]).boxed()),
    ])
}

fn sglang() -> BoxedStrategy<Value> {
    let meta = object(vec![
        ("completion_tokens", count()),
        ("prompt_tokens", count()),
        ("cached_tokens", count()),
        ("finish_reason", finish()),
    ]);
    object(vec![("text", text()), ("output_ids", ids()), ("meta_info", meta)])
}

fn tgi() -> BoxedStrategy<Value> {
    let token = object(vec![
        ("text", text()),
        ("special", mostly(vec![json!(true), json!(false)]).boxed()),
    ]);
    let details = object(vec![("generated_tokens", count()), ("input_length", count())]);
    object(vec![("token", token), ("generated_text", text()), ("details", details)])
}

fn llamacpp() -> BoxedStrategy<Value> {
    let timings = object(vec![("prompt_ms", count()), ("predicted_ms", count())]);
    object(vec![
        ("content", text()),
        ("tokens", ids()),
        ("stop", mostly(vec![json!(true), json!(false)]).boxed()),
        ("tokens_predicted", count()),
        ("timings", timings),
    ])
}

/// An event of the Responses API or of the Messages API.
fn typed() -> BoxedStrategy<Value> {
    let usage = object(vec![
        ("input_tokens", mostly(vec![json!(3)]).boxed()),
        ("output_tokens", mostly(vec![json!(7)]).boxed()),
        ("cache_read_input_tokens", mostly(vec![json!(2)]).boxed()),
        ("cache_creation_input_tokens", mostly(vec![json!(1)]).boxed()),
        ("input_tokens_details", mostly(vec![json!({"cached_tokens": 1})]).boxed()),
        ("output_tokens_details", mostly(vec![json!({"reasoning_tokens": 4})]).boxed()),
    ]);
    let inner = object(vec![
        ("usage", usage.clone()),
        ("status", mostly(vec![json!("completed"), json!("failed")]).boxed()),
        ("error", mostly(vec![json!(null), json!({"message": "no"})]).boxed()),
    ]);
    let delta = object(vec![
        ("text", mostly(vec![json!("a"), json!("")]).boxed()),
        ("thinking", mostly(vec![json!("hm")]).boxed()),
        ("partial_json", mostly(vec![json!(""), json!("{")]).boxed()),
        ("stop_reason", mostly(vec![json!(null), json!("end_turn")]).boxed()),
    ]);
    let types = [
        "response.created",
        "response.output_text.delta",
        "response.reasoning_text.delta",
        "response.function_call_arguments.delta",
        "response.output_text.done",
        "response.completed",
        "response.failed",
        "message_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    ];
    object(vec![
        ("type", mostly(types.into_iter().map(Value::from).collect()).boxed()),
        ("delta", prop_oneof![delta, mostly(vec![json!("a"), json!("")])].boxed()),
        ("response", inner.clone()),
        ("message", inner),
        ("usage", usage),
        ("error", mostly(vec![json!(null), json!({"message": "no"})]).boxed()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn both_parsers_agree_on_events_that_name_their_type(event in prop_oneof![typed(), anything()]) {
        let data = serde_json::to_vec(&event).unwrap();
        for schema in [EventSchema::Responses, EventSchema::Messages] {
            let mut parsed = document::fields(schema.root(), &data).unwrap();
            parsed.settle(schema);
            let parsed = meaning(parsed);
            prop_assert_eq!(scan(schema, &data).map(meaning), Ok(parsed));
            prop_assert!(scan_whole(schema, &data).is_ok());
        }
    }

    #[test]
    fn the_quick_pass_and_the_full_parse_agree(
        event in prop_oneof![openai(), sglang(), tgi(), llamacpp(), anything()],
        is_pretty: bool,
    ) {
        let data = if is_pretty { serde_json::to_vec_pretty(&event) } else { serde_json::to_vec(&event) };
        let data = data.unwrap();
        let parsed = meaning(document::fields(EventSchema::Shared.root(), &data).unwrap());
        if let Ok(scanned) = cursor::fields(EventSchema::Shared.root(), &data) {
            prop_assert_eq!(meaning(scanned), parsed.clone());
        }
        prop_assert_eq!(scan(EventSchema::Shared, &data).map(meaning), Ok(parsed));
    }

    #[test]
    fn a_template_match_equals_a_scan(
        first in "\\PC{1,4}", second in "\\PC{0,9}", after in "[\"\\\\a,:]{0,6}",
    ) {
        let event = |text: &str| format!(r#"{{"choices":[{{"text":{},"f":0}}]}}"#, json!(text));
        let learned = event(&first);
        let mut template = EventTemplate::default();
        let fields = scan(EventSchema::Shared, learned.as_bytes()).unwrap();
        template.learn(learned.as_bytes(), fields.text.as_ref().unwrap(), tokometer_record::EventKind::Text);
        let broken = learned.replace(&first, &format!("{first}{after}"));
        for data in [event(&second), broken] {
            let Some((_, text)) = template.matched(data.as_bytes()) else { continue };
            let Ok(scanned) = scan(EventSchema::Shared, data.as_bytes()) else {
                // An escape that JSON does not define is accepted; only its meaning is undefined.
                prop_assert!(matches!(text, Text::Escaped(_)));
                continue;
            };
            prop_assert_eq!(scanned.text, Some(text));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        for schema in [EventSchema::Shared, EventSchema::Responses, EventSchema::Messages] {
            let _fields = scan(schema, &bytes);
            let _fields = scan_whole(schema, &bytes);
        }
        let _fields = scan(EventSchema::Shared, &[b"{\"choices\":", &bytes[..]].concat());
    }
}

#[test]
fn captured_shapes_need_no_full_parse() {
    for event in [
        r#"{"id":"x","choices":[{"index":0,"delta":{"content":"\"%("},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
        r#"{"index":1,"token":{"id":3,"text":"N","logprob":-1.0,"special":false},"generated_text":null,"details":null}"#,
        r#"{"text":"a","output_ids":[1],"meta_info":{"finish_reason":null,"completion_tokens":1,"e2e_latency":0.44}}"#,
        r#"{"index":0,"content":" s","tokens":[5],"stop":false,"id_slot":-1,"tokens_predicted":1}"#,
    ] {
        assert!(cursor::fields(EventSchema::Shared.root(), event.as_bytes()).is_ok(), "{event}");
    }
    assert_eq!(scan(EventSchema::Shared, b"not json"), Err(NotJson));
    let escaped_key = scan(EventSchema::Shared, br#"{"\u0063hoices":[{"text":"a"}]}"#).unwrap();
    assert_eq!(escaped_key.text, Some(Text::Owned("a".to_owned())));
}
