//! Transcriptions and translations of audio, as vLLM answers them.
//!
//! The audio is 50 tokens of prompt per second, as Whisper's encoder makes them. Streams have chunks with
//! `choices`; whole answers have no token counts.

use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, ReportedUsage,
    RequestedLength,
};
use super::event_buffer::EventBuffer;
use super::form;
use super::openai::RequestedUsage;
use super::route::{Accepted, RequestContext, Response, check_model};
use crate::http::HttpRequest;
use crate::truth::SentKind;
use crate::vocabulary::fingerprint;

/// Tokens that a second of audio becomes.
const TOKENS_PER_SECOND: f64 = 50.0;

/// Most tokens of an answer, as Whisper's decoder holds them.
const ANSWER_MAX: u32 = 448;

/// The task of a route; `None` when the path is none of these.
pub(super) fn task(path: &str) -> Option<&'static str> {
    match path {
        "/v1/audio/transcriptions" => Some("transcription"),
        "/v1/audio/translations" => Some("translation"),
        _ => None,
    }
}

pub(super) fn respond(
    context: &mut RequestContext<'_>,
    task: &'static str,
    request: &HttpRequest,
) -> Result<Accepted, ApiError> {
    let form = form::read(&request.content_type, &request.body)
        .ok_or_else(|| ApiError::field("body", "the body is not a form with a file"))?;
    let sound = form.file.ok_or_else(|| ApiError::field("file", "Field required: file"))?;
    for field in &context.config.faults.refused_fields {
        if form.text(field).is_some() {
            return Err(ApiError::field(field, format!("Unknown field `{field}` in the request")));
        }
    }
    check_model(context, &json!({ "model": form.text("model") }))?;
    let seconds = seconds(sound)
        .ok_or_else(|| ApiError::field("file", "Invalid or unsupported audio file."))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and below the size of the body"
    )]
    let tokens = ((seconds * TOKENS_PER_SECOND).ceil() as usize).max(1);
    let slice = sound.len().div_ceil(tokens).max(1);
    let prompt: Vec<u64> = sound.chunks(slice).map(fingerprint).collect();
    let limit = form.text("max_completion_tokens").and_then(|text| text.parse().ok());
    let requested =
        RequestedLength { limit: Some(limit.unwrap_or(ANSWER_MAX)), ..RequestedLength::default() };
    let is_streamed = form.is_set("stream");
    let usage = match () {
        () if form.is_set("stream_continuous_usage_stats") => RequestedUsage::Continuous,
        () if form.is_set("stream_include_usage") => RequestedUsage::AtEnd,
        () => RequestedUsage::Never,
    };
    let writer = Transcription {
        envelope: json!({
            "id": format!("{task}-{}", context.request_id), "object": format!("{task}.chunk"),
            "created": context.created, "model": form.text("model").unwrap_or(&context.config.model),
        }),
        usage,
        seconds,
        format: form.text("response_format").unwrap_or("json").to_owned(),
    };
    let ask = EngineRequest {
        length: context.length(prompt.len(), requested)?,
        prompt,
        delivery: if is_streamed { AnswerDelivery::Streamed } else { AnswerDelivery::Whole },
        lora: context.lora(form.text("model")),
        ..EngineRequest::default()
    };
    Ok((ask, Box::new(writer)))
}

/// How long a WAV file plays; other formats count as 16 kB per second.
fn seconds(sound: &[u8]) -> Option<f64> {
    const COMPRESSED: f64 = 16_000.0;
    let number = |at: usize| {
        Some(u32::from_le_bytes(sound.get(at..at + 4)?.try_into().ok()?)).filter(|it| *it > 0)
    };
    if sound.starts_with(b"RIFF") {
        return Some((sound.len().saturating_sub(44)) as f64 / f64::from(number(28)?));
    }
    let is_known = [&b"fLaC"[..], b"OggS", b"ID3"].iter().any(|start| sound.starts_with(start));
    (is_known || sound.first() == Some(&0xff)).then(|| sound.len() as f64 / COMPRESSED)
}

struct Transcription {
    envelope: Value,
    usage: RequestedUsage,
    seconds: f64,
    format: String,
}

impl Transcription {
    fn event(&self, choices: &[Value], usage: Option<ReportedUsage>) -> Value {
        let mut event = self.envelope.clone();
        event["choices"] = json!(choices);
        if let Some(usage) = usage {
            event["usage"] = usage.json();
        }
        event
    }
}

impl AnswerWriter for Transcription {
    fn write_piece(&mut self, piece: &AnswerPiece<'_>, buffer: &mut EventBuffer) {
        let choice = json!({
            "delta": { "content": piece.text }, "finish_reason": piece.finish_reason(),
            "stop_reason": null,
        });
        let is_counted = self.usage == RequestedUsage::Continuous;
        let event = self.event(&[choice], is_counted.then_some(piece.usage));
        buffer.event(&event, SentKind::Text).tokens = piece.tokens;
    }

    fn end(&mut self, ending: &AnswerEnd, buffer: &mut EventBuffer) {
        if ending.usage.is_some() && self.usage != RequestedUsage::Never {
            buffer.event(&self.event(&[], ending.usage), SentKind::Usage);
        }
        buffer.done();
    }

    fn whole(&mut self, piece: &AnswerPiece<'_>, _ending: &AnswerEnd) -> Response {
        if self.format == "text" {
            return Response::text(200, piece.text);
        }
        let seconds = self.seconds.ceil();
        let mut body =
            json!({ "text": piece.text, "usage": { "type": "duration", "seconds": seconds } });
        if self.format == "verbose_json" {
            body["duration"] = json!(self.seconds.to_string());
            body["language"] = json!("en");
        }
        Response::json(200, &body)
    }
}
