//! SGLang: its OpenAI routes, and its own `/generate`, which repeats the whole text in every event.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, Reason, ReportedUsage, RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::openai::{OpenAiRoute, RequestedUsage, delivery, is_set, token_id, whole_number};
use super::route::{Accepted, RequestContext, Response, hash_ids};
use crate::truth::SentKind;

struct SglangOpenAi {
    route: OpenAiRoute,
    /// `{"id":…,"object":…,"created":…,"model":…,"choices":[`
    opening: String,
    usage: RequestedUsage,
    has_begun: bool,
}

pub(super) fn writer(
    context: &RequestContext<'_>,
    route: OpenAiRoute,
    model: &str,
    usage: RequestedUsage,
) -> Box<dyn AnswerWriter> {
    let object = match route {
        OpenAiRoute::Completions => "text_completion",
        OpenAiRoute::Chat => "chat.completion.chunk",
    };
    let (id, created, model) = (json!(context.request_id), context.created, json!(model));
    let opening = format!(
        "{{\"id\":{id},\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":["
    );
    Box::new(SglangOpenAi { route, opening, usage, has_begun: false })
}

impl SglangOpenAi {
    fn usage_json(&self, usage: ReportedUsage) -> String {
        let (prompt, total, completion) =
            (usage.prompt_tokens, usage.total(), usage.completion_tokens);
        let (before, after) = match self.route {
            OpenAiRoute::Completions => ("", ""),
            OpenAiRoute::Chat => {
                ("\"prompt_tokens_details\":null,", ",\"completion_tokens_details\":null")
            }
        };
        format!(
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{completion},{before}\"reasoning_tokens\":0{after}}}"
        )
    }

    /// A chat event around the inside of its delta.
    fn put_delta(&self, buffer: &mut EventBuffer, delta: &str, text: Option<&str>, reason: &str) {
        buffer.put("data: ").put(&self.opening);
        buffer.put("{\"index\":0,\"delta\":{\"reasoning_content\":null").put(delta);
        if let Some(text) = text {
            buffer.put(",\"content\":\"").put(text).put("\"");
        }
        buffer.put("},\"logprobs\":null,\"finish_reason\":").put(reason);
        buffer.put(",\"matched_stop\":null}]}");
    }
}

impl AnswerWriter for SglangOpenAi {
    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match self.route {
            OpenAiRoute::Completions => {
                buffer
                    .put("data: ")
                    .put(&self.opening)
                    .put("{\"index\":0,\"text\":\"")
                    .put(piece.text)
                    .put("\",\"logprobs\":null,\"finish_reason\":")
                    .put(piece.finish_reason())
                    .put(",\"matched_stop\":null}],\"usage\":");
                match self.usage {
                    RequestedUsage::Continuous => {
                        buffer.put(&self.usage_json(piece.usage));
                    }
                    RequestedUsage::Never | RequestedUsage::AtEnd => {
                        buffer.put("null");
                    }
                }
                buffer.put("}").close(SentKind::Text, piece.tokens);
            }
            OpenAiRoute::Chat => {
                if is_first {
                    self.put_delta(buffer, ",\"role\":\"assistant\"", Some(""), "null");
                    buffer.close(SentKind::Role, 0);
                }
                self.put_delta(buffer, "", Some(piece.text), "null");
                buffer.close(SentKind::Text, piece.tokens);
            }
        }
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        if self.route == OpenAiRoute::Chat {
            self.put_delta(buffer, "", None, &format!("\"{}\"", ending.reason.name()));
            buffer.close(SentKind::Finish, 0);
        }
        if let Some(usage) = ending.usage.filter(|_| self.usage != RequestedUsage::Never) {
            let usage = self.usage_json(usage);
            buffer.put("data: ").put(&self.opening).put("],\"usage\":").put(&usage);
            buffer.put("}").close(SentKind::Usage, 0);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let reason = ending.reason.name();
        let choice = match self.route {
            OpenAiRoute::Completions => json!({
                "index": 0, "text": piece.text, "logprobs": null, "finish_reason": reason, "matched_stop": null,
            }),
            OpenAiRoute::Chat => {
                let message = json!({ "role": "assistant", "content": piece.text, "reasoning_content": null, "tool_calls": null });
                json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": reason, "matched_stop": null })
            }
        };
        let opening = self.opening.replace("chat.completion.chunk", "chat.completion");
        let usage = ending.usage.map_or_else(|| "null".to_owned(), |usage| self.usage_json(usage));
        Response::typed(200, "application/json", format!("{opening}{choice}],\"usage\":{usage}}}"))
    }
}

/// The native route.
pub(super) fn generate(
    context: &mut RequestContext<'_>,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let prompt = match (body.get("text"), body.get("input_ids")) {
        (Some(Value::String(text)), _) => context.hash_text(text),
        (_, Some(Value::Array(ids))) => {
            let ids = ids.iter().map(token_id).collect::<Option<Vec<u32>>>();
            let ids = ids.ok_or_else(|| ApiError::field("input_ids", "token ids are needed"))?;
            hash_ids(&ids)
        }
        _ => return Err(ApiError::field("text", "either `text` or `input_ids` is needed")),
    };
    let sampling = body.get("sampling_params").unwrap_or(&Value::Null);
    let asked = whole_number(sampling, "max_new_tokens")?.or(Some(128));
    let least = whole_number(sampling, "min_new_tokens")?.unwrap_or(0);
    let requested =
        RequestedLength { limit: asked, least, ignores_eos: is_set(sampling, "ignore_eos") };
    let length = context.length(prompt.len(), requested)?;
    let delivery = delivery(body);
    let lora = context.lora(body.get("lora_path").and_then(Value::as_str));
    let writer = SglangStream {
        id: json!(context.request_id).to_string(),
        created: context.created,
        returns_logprobs: is_set(body, "return_logprob"),
        text: String::new(),
        ids: Vec::new(),
    };
    Ok((
        EngineRequest { prompt, length, delivery, lora, ..EngineRequest::default() },
        Box::new(writer),
    ))
}

struct SglangStream {
    /// Quoted.
    id: String,
    created: u64,
    returns_logprobs: bool,
    text: String,
    ids: Vec<u32>,
}

impl SglangStream {
    /// The object of an event, with everything said so far.
    fn put_object(&self, buffer: &mut EventBuffer, piece: &AnswerPiece<'_>) {
        let (usage, last) = (piece.usage, piece.last);
        // Only the first message of an answer says when it was sent.
        let has_time = usage.completion_tokens == piece.tokens;
        buffer.put("{\"text\":\"").put(&self.text).put("\",\"output_ids\":");
        buffer.put_numbers(&self.ids).put(",\"meta_info\":{\"id\":").put(&self.id);
        buffer.put(",\"finish_reason\":");
        let completion = usage.completion_tokens;
        let _ = match last {
            None => buffer.put("null"),
            Some(Reason::Length) => {
                buffer.put(&format!("{{\"type\":\"length\",\"length\":{completion}}}"))
            }
            Some(Reason::Stop) => buffer.put("{\"type\":\"stop\",\"matched\":0}"),
        };
        buffer.put(",\"prompt_tokens\":").put_number(usage.prompt_tokens);
        buffer.put(",\"weight_version\":\"default\",\"num_retractions\":0");
        if self.returns_logprobs {
            let pairs: Vec<String> =
                self.ids.iter().map(|id| format!("[-1.0,{id},null]")).collect();
            let (pairs, count) = (pairs.join(","), self.ids.len());
            buffer.put(&format!(
                ",\"input_token_logprobs\":[],\"output_token_logprobs\":[{pairs}],\"output_token_logprobs_length\":{count}"
            ));
        }
        buffer.put(",\"reasoning_tokens\":0,\"completion_tokens\":");
        buffer.put_number(completion).put(",\"cached_tokens\":0");
        if last.is_some() {
            buffer.put(&format!(
                ",\"weight_versions\":[{{\"version\":\"default\",\"start\":0,\"end\":{completion}}}]"
            ));
        }
        buffer.put(",\"cached_tokens_details\":null,\"dp_rank\":null");
        if last.is_some() {
            buffer.put(",\"e2e_latency\":0.0");
        }
        if has_time {
            let created = self.created;
            buffer.put(&format!(",\"response_sent_to_client_ts\":{created}.0"));
        }
        buffer.put("}}");
    }
}

impl AnswerWriter for SglangStream {
    fn wants_ids(&self) -> bool {
        true
    }

    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        self.text.push_str(piece.text);
        self.ids.extend_from_slice(piece.ids);
        buffer.put("data: ");
        self.put_object(buffer, piece);
        buffer.close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, _: &AnswerEnd, buffer: &mut EventBuffer) {
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        piece.text.clone_into(&mut self.text);
        self.ids = piece.ids.to_vec();
        let mut buffer = EventBuffer::default();
        self.put_object(&mut buffer, piece);
        let body = String::from_utf8_lossy(&buffer.bytes).into_owned();
        Response::typed(200, "application/json", body)
    }
}
