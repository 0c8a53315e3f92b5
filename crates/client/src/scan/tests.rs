//! The fast path and the full parser agree on every event that a server might send.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokometer_base::backend::Protocol;

use super::fields::JsonValue;
use super::keys::{KeyUse, ObjectRole};
use super::*;
use crate::dialect::rules_of;

/// Reads a document with a full parser, by the same declarations.
fn parsed(role: ObjectRole, keys: &[Key], json: &Value, fields: &mut Fields<'static>) {
    if let (ObjectRole::Choice, Value::Array(items)) = (role, json) {
        for item in items.iter().skip(1).filter(|item| item.is_object()) {
            let mut further = Fields::default();
            parsed(role, keys, item, &mut further);
            fields.further.push(further);
        }
    }
    let json = if json.is_array() { &json[0] } else { json };
    let Some(known) = json.as_object() else { return };
    role.begin(fields);
    for (key, json) in known {
        match keys::meaning(keys, key.as_bytes()) {
            None | Some(KeyUse::Quirks(_)) => {}
            Some(KeyUse::Enter(role, inner)) => parsed(role, inner, json, fields),
            Some(KeyUse::EnterOrTake(inner, _)) if json.is_object() => {
                parsed(ObjectRole::Finish, inner, json, fields);
            }
            Some(KeyUse::Take(field @ (Field::Text | Field::Reasoning))) if json.is_array() => {
                parts::take_list(fields, field, json.as_array().unwrap());
            }
            Some(KeyUse::Take(field) | KeyUse::EnterOrTake(_, field)) => {
                fields.take(field, value(json));
            }
        }
    }
}

fn value(json: &Value) -> JsonValue<'static> {
    match json {
        Value::Null => JsonValue::Null,
        Value::Bool(value) => JsonValue::Bool(*value),
        Value::Number(number) => JsonValue::Number(number.as_f64().unwrap()),
        Value::String(text) => JsonValue::Text(Text::Owned(text.clone())),
        Value::Array(items) => JsonValue::Array(u32::try_from(items.len()).unwrap()),
        Value::Object(fields) => JsonValue::Object { is_empty: fields.is_empty() },
    }
}

/// Checks that the quick pass over an event finds what a full parser does.
fn check_agreement(protocols: &[Protocol], event: &Value, data: &[u8]) {
    for protocol in protocols {
        let rules = rules_of(*protocol);
        let mut expected = Fields::default();
        parsed(ObjectRole::Plain, rules.event, event, &mut expected);
        let scanned = scan(rules.event, data).map(Fields::into_owned);
        assert_eq!(scanned, Ok(expected.into_owned()), "{protocol:?} {event}");
        assert!(rules.read_whole(data).is_ok(), "{protocol:?} {event}");
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
    fn the_quick_pass_and_a_full_parser_agree(
        openai in prop_oneof![openai(), anything()],
        native in prop_oneof![sglang(), tgi(), llamacpp(), anything()],
        typed in prop_oneof![typed(), anything()],
        is_pretty: bool,
    ) {
        use Protocol::{Chat, Completions, LlamaCpp, Messages, Responses, SglangGenerate, TgiGenerate};
        let written = |event: &Value| {
            let text = if is_pretty { serde_json::to_vec_pretty(event) } else { serde_json::to_vec(event) };
            text.unwrap()
        };
        check_agreement(&[Completions, Chat], &openai, &written(&openai));
        check_agreement(&[SglangGenerate, TgiGenerate, LlamaCpp], &native, &written(&native));
        check_agreement(&[Responses, Messages], &typed, &written(&typed));
    }

    #[test]
    fn a_template_match_equals_a_scan(
        first in "\\PC{1,4}", second in "\\PC{0,9}", after in "[\"\\\\a,:]{0,6}",
    ) {
        let event = |text: &str| format!(r#"{{"choices":[{{"text":{},"f":0}}]}}"#, json!(text));
        let learned = event(&first);
        let mut template = EventTemplate::default();
        let fields = scan(completions(), learned.as_bytes()).unwrap();
        template.learn(learned.as_bytes(), fields.text.as_ref().unwrap(), tokometer_record::EventKind::Text);
        let broken = learned.replace(&first, &format!("{first}{after}"));
        for data in [event(&second), broken] {
            let Some((_, text)) = template.matched(data.as_bytes()) else { continue };
            let Ok(scanned) = scan(completions(), data.as_bytes()) else {
                // An escape that JSON does not define is accepted; only its meaning is undefined.
                prop_assert!(matches!(text, Text::Escaped(_)));
                continue;
            };
            prop_assert_eq!(scanned.text, Some(text));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        for protocol in [Protocol::Chat, Protocol::Responses, Protocol::Messages] {
            let _fields = scan(rules_of(protocol).event, &bytes);
            let _fields = rules_of(protocol).read_whole(&bytes);
        }
        let _fields = scan(completions(), &[b"{\"choices\":", &bytes[..]].concat());
    }
}

fn completions() -> &'static [Key] {
    rules_of(Protocol::Completions).event
}

#[test]
fn captured_shapes_need_no_full_parse() {
    for (protocol, event) in [
        (
            Protocol::Chat,
            r#"{"id":"x","choices":[{"index":0,"delta":{"content":"\"%("},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
        ),
        (
            Protocol::TgiGenerate,
            r#"{"index":1,"token":{"id":3,"text":"N","logprob":-1.0,"special":false},"generated_text":null,"details":null}"#,
        ),
        (
            Protocol::SglangGenerate,
            r#"{"text":"a","output_ids":[1],"meta_info":{"finish_reason":null,"completion_tokens":1,"e2e_latency":0.44}}"#,
        ),
        (
            Protocol::LlamaCpp,
            r#"{"index":0,"content":" s","tokens":[5],"stop":false,"id_slot":-1,"tokens_predicted":1}"#,
        ),
    ] {
        assert!(cursor::fields(rules_of(protocol).event, event.as_bytes()).is_ok(), "{event}");
    }
    assert_eq!(scan(completions(), b"not json"), Err(NotJson));
    assert_eq!(scan(completions(), b"oops"), Err(NotJson));
    let escaped_key = scan(completions(), br#"{"\u0063hoices":[{"text":"a"}]}"#).unwrap();
    assert_eq!(escaped_key.text, Some(Text::Plain(b"a")));
}
