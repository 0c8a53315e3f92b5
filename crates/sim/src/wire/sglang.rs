//! SGLang: its OpenAI routes, and its own `/generate`, which repeats the whole text in every event.

use serde_json::{Value, json};

use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, Reason, ReportedUsage,
    RequestedLength,
};
use super::complaint::Complaint;
use super::openai::{OpenAiRoute, RequestedUsage, is_set, token_id, whole_number};
use super::route::{Accepted, Desk, Response, hash_ids};
use super::sheet::Sheet;
use super::vllm::headers;
use crate::truth::SentKind;

struct SglangOpenAi {
    route: OpenAiRoute,
    /// `{"id":…,"object":…,"created":…,"model":…,"choices":[`
    opening: String,
    usage: RequestedUsage,
    has_begun: bool,
}

pub(super) fn script(
    desk: &Desk<'_>,
    route: OpenAiRoute,
    model: &str,
    usage: RequestedUsage,
) -> Box<dyn AnswerWriter> {
    let object = match route {
        OpenAiRoute::Completions => "text_completion",
        OpenAiRoute::Chat => "chat.completion.chunk",
    };
    let (id, created, model) = (json!(desk.request_id), desk.created, json!(model));
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
    fn put_delta(&self, sheet: &mut Sheet, delta: &str, text: Option<&str>, reason: &str) {
        sheet.put("data: ").put(&self.opening);
        sheet.put("{\"index\":0,\"delta\":{\"reasoning_content\":null").put(delta);
        if let Some(text) = text {
            sheet.put(",\"content\":\"").put(text).put("\"");
        }
        sheet.put("},\"logprobs\":null,\"finish_reason\":").put(reason);
        sheet.put(",\"matched_stop\":null}]}");
    }
}

impl AnswerWriter for SglangOpenAi {
    fn headers(&self) -> Vec<(&'static str, String)> {
        headers()
    }

    fn speak(&mut self, piece: &AnswerPiece<'_>, sheet: &mut Sheet) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match self.route {
            OpenAiRoute::Completions => {
                sheet
                    .put("data: ")
                    .put(&self.opening)
                    .put("{\"index\":0,\"text\":\"")
                    .put(piece.text)
                    .put("\",\"logprobs\":null,\"finish_reason\":")
                    .put(piece.finish_reason())
                    .put(",\"matched_stop\":null}],\"usage\":");
                match self.usage {
                    RequestedUsage::Continuous => {
                        sheet.put(&self.usage_json(piece.usage));
                    }
                    RequestedUsage::Never | RequestedUsage::AtEnd => {
                        sheet.put("null");
                    }
                }
                sheet.put("}").close(SentKind::Text, piece.tokens);
            }
            OpenAiRoute::Chat => {
                if is_first {
                    self.put_delta(sheet, ",\"role\":\"assistant\"", Some(""), "null");
                    sheet.close(SentKind::Role, 0);
                }
                self.put_delta(sheet, "", Some(piece.text), "null");
                sheet.close(SentKind::Text, piece.tokens);
            }
        }
    }

    fn end(&mut self, ending: &AnswerEnd, sheet: &mut Sheet) {
        if self.route == OpenAiRoute::Chat {
            self.put_delta(sheet, "", None, &format!("\"{}\"", ending.reason.name()));
            sheet.close(SentKind::Finish, 0);
        }
        if let Some(usage) = ending.usage.filter(|_| self.usage != RequestedUsage::Never) {
            let usage = self.usage_json(usage);
            sheet.put("data: ").put(&self.opening).put("],\"usage\":").put(&usage);
            sheet.put("}").close(SentKind::Usage, 0);
        }
        sheet.done();
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
pub(super) fn generate(desk: &mut Desk<'_>, body: &Value) -> Result<Accepted, Complaint> {
    let prompt = match (body.get("text"), body.get("input_ids")) {
        (Some(Value::String(text)), _) => desk.hash_text(text),
        (_, Some(Value::Array(ids))) => {
            let ids = ids.iter().map(token_id).collect::<Option<Vec<u32>>>();
            let ids = ids.ok_or_else(|| Complaint::field("input_ids", "token ids are needed"))?;
            hash_ids(&ids)
        }
        _ => return Err(Complaint::field("text", "either `text` or `input_ids` is needed")),
    };
    let sampling = body.get("sampling_params").unwrap_or(&Value::Null);
    let asked = whole_number(sampling, "max_new_tokens")?.or(Some(128));
    let least = whole_number(sampling, "min_new_tokens")?.unwrap_or(0);
    let requested =
        RequestedLength { limit: asked, least, ignores_eos: is_set(sampling, "ignore_eos") };
    let length = desk.length(prompt.len(), requested)?;
    let delivery =
        if is_set(body, "stream") { AnswerDelivery::Streamed } else { AnswerDelivery::Whole };
    let lora = desk.lora(body.get("lora_path").and_then(Value::as_str));
    let script = SglangStream {
        id: json!(desk.request_id).to_string(),
        created: desk.created,
        returns_logprobs: is_set(body, "return_logprob"),
        text: String::new(),
        ids: Vec::new(),
    };
    Ok((
        EngineRequest { prompt, length, delivery, lora, ..EngineRequest::default() },
        Box::new(script),
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
    fn put_object(&self, sheet: &mut Sheet, piece: &AnswerPiece<'_>) {
        let (usage, last) = (piece.usage, piece.last);
        // Only the first message of an answer says when it was sent.
        let has_time = usage.completion_tokens == piece.tokens;
        sheet.put("{\"text\":\"").put(&self.text).put("\",\"output_ids\":");
        let _sheet = sheet.put_numbers(&self.ids).put(",\"meta_info\":{\"id\":").put(&self.id);
        sheet.put(",\"finish_reason\":");
        let completion = usage.completion_tokens;
        let _ = match last {
            None => sheet.put("null"),
            Some(Reason::Length) => {
                sheet.put(&format!("{{\"type\":\"length\",\"length\":{completion}}}"))
            }
            Some(Reason::Stop) => sheet.put("{\"type\":\"stop\",\"matched\":0}"),
        };
        sheet.put(",\"prompt_tokens\":").put_number(usage.prompt_tokens);
        sheet.put(",\"weight_version\":\"default\",\"num_retractions\":0");
        if self.returns_logprobs {
            let pairs: Vec<String> =
                self.ids.iter().map(|id| format!("[-1.0,{id},null]")).collect();
            let (pairs, count) = (pairs.join(","), self.ids.len());
            sheet.put(&format!(
                ",\"input_token_logprobs\":[],\"output_token_logprobs\":[{pairs}],\"output_token_logprobs_length\":{count}"
            ));
        }
        sheet.put(",\"reasoning_tokens\":0,\"completion_tokens\":");
        sheet.put_number(completion).put(",\"cached_tokens\":0");
        if last.is_some() {
            sheet.put(&format!(
                ",\"weight_versions\":[{{\"version\":\"default\",\"start\":0,\"end\":{completion}}}]"
            ));
        }
        sheet.put(",\"cached_tokens_details\":null,\"dp_rank\":null");
        if last.is_some() {
            sheet.put(",\"e2e_latency\":0.0");
        }
        if has_time {
            let created = self.created;
            sheet.put(&format!(",\"response_sent_to_client_ts\":{created}.0"));
        }
        sheet.put("}}");
    }
}

impl AnswerWriter for SglangStream {
    fn headers(&self) -> Vec<(&'static str, String)> {
        headers()
    }

    fn wants_ids(&self) -> bool {
        true
    }

    fn speak(&mut self, piece: &AnswerPiece<'_>, sheet: &mut Sheet) {
        self.text.push_str(piece.text);
        self.ids.extend_from_slice(piece.ids);
        sheet.put("data: ");
        self.put_object(sheet, piece);
        sheet.close(SentKind::Text, piece.tokens);
    }

    fn end(&mut self, _: &AnswerEnd, sheet: &mut Sheet) {
        sheet.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, _: &AnswerEnd) -> Response {
        piece.text.clone_into(&mut self.text);
        self.ids = piece.ids.to_vec();
        let mut sheet = Sheet::default();
        self.put_object(&mut sheet, piece);
        let body = String::from_utf8_lossy(&sheet.bytes).into_owned();
        Response::typed(200, "application/json", body)
    }
}
