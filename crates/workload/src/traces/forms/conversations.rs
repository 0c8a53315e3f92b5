//! Conversations with their texts: `ShareGPT`'s, lists of messages, and SGLang's agentic traces.
//!
//! They have no times. Each question is a call that adds to the one before it; the recorded answers are known.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::call::{Call, Content};
use super::super::flaw::Flaw;
use super::super::form::{self, Form, Found, Setting, TraceClock};
use super::super::stream::Row;

pub(in super::super) const FORM: Form = Form {
    name: "conversations",
    is: |names| names.have_any(&["conversations", "messages"]),
    read,
    clock: TraceClock::Session,
};

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    conversations: Vec<Entry>,
    #[serde(default)]
    messages: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Said {
        from: String,
        value: String,
    },
    /// A conversation of SGLang's: each turn has only the messages that are new.
    Turns(Vec<NewMessages>),
    Message(Value),
}

#[derive(Deserialize)]
struct NewMessages {
    messages: Value,
    prompt_tokens: Option<u32>,
}

fn read(row: Row<'_>, setting: &Setting, found: &mut Found) -> Result<(), Flaw> {
    let line: Line = form::json(row)?;
    let mut messages = line.messages;
    for (number, entry) in (0..).zip(line.conversations) {
        match entry {
            Entry::Said { from, value } => {
                let role = match from.as_str() {
                    "human" | "user" => "user",
                    "gpt" | "chatgpt" | "bard" | "bing" | "assistant" => "assistant",
                    other => other,
                };
                messages.push(json!({ "role": role, "content": value }));
            }
            Entry::Message(message) => messages.push(message),
            Entry::Turns(turns) => {
                let session = setting.place.wrapping_add(number);
                found.calls.extend(turns.into_iter().map(|turn| Call {
                    session: Some(session),
                    input: turn.prompt_tokens.filter(|tokens| *tokens > 0),
                    prompt: Content::Messages { list: turn.messages.to_string(), adds: true },
                    ..Call::default()
                }));
            }
        }
    }
    conversation(messages, setting.place, found);
    Ok(())
}

/// A call for each answer, with the messages since the one before it. What follows the last answer is a call too.
fn conversation(messages: Vec<Value>, session: u64, found: &mut Found) {
    let mut new = Vec::new();
    let call = |new: &mut Vec<Value>, answer: Option<Value>| Call {
        session: Some(session),
        prompt: Content::Messages {
            list: Value::Array(std::mem::take(new)).to_string(),
            adds: true,
        },
        answer: answer.map(|message| message.to_string()),
        ..Call::default()
    };
    for message in messages {
        let is_answer = message.get("role").and_then(Value::as_str) == Some("assistant");
        if is_answer && !new.is_empty() {
            found.calls.push(call(&mut new, Some(message)));
        } else {
            new.push(message);
        }
    }
    if !new.is_empty() {
        found.calls.push(call(&mut new, None));
    }
}
