//! Routes that answer with vectors, scores or classes, in the words of each server.
//!
//! One pass of the engine over all inputs makes the answer: its time is that of a prefill.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::api_error::ApiError;
use super::ask::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, LengthBounds,
};
use super::openai::{hash_conversation, token_ids, whole_number};
use super::route::{Accepted, RequestContext, Response, hash_ids};
use crate::config::Flavour;
use crate::vocabulary::scramble;

const DIMENSIONS: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `data[].embedding`, or with another word for the vector.
    Data {
        object: &'static str,
        vector: &'static str,
    },
    Classes,
    Scores,
    Results,
    /// SGLang's bare list of scores.
    SglangScores,
    /// Text Embeddings Inference's bare list of vectors.
    TeiVectors,
    /// Its bare list of scores.
    TeiScores,
    Cohere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VectorEncoding {
    Float,
    Base64,
    /// Plain bytes, with the header `metadata`.
    Bytes,
    BytesOnly,
}

impl VectorEncoding {
    fn asked(body: &Value) -> Result<Self, ApiError> {
        match body.get("encoding_format").and_then(Value::as_str) {
            None | Some("float") => Ok(Self::Float),
            Some("base64") => Ok(Self::Base64),
            Some("bytes") => Ok(Self::Bytes),
            Some("bytes_only") => Ok(Self::BytesOnly),
            Some(other) => Err(ApiError::field(
                "encoding_format",
                format!("encoding_format `{other}` is none of float, base64, bytes, bytes_only"),
            )),
        }
    }
}

/// Answers the route at `path`; `None` when it is none of these.
pub(super) fn respond(
    context: &mut RequestContext<'_>,
    path: &str,
    body: &Value,
) -> Option<Result<Accepted, ApiError>> {
    let flavour = context.config.flavour;
    let shape = match path {
        "/v1/embeddings" | "/embeddings" => {
            Shape::Data { object: "embedding", vector: "embedding" }
        }
        "/pooling" => Shape::Data { object: "pooling", vector: "data" },
        "/classify" | "/v1/classify" => Shape::Classes,
        "/score" | "/v1/score" => Shape::Scores,
        "/rerank" if body.get("texts").is_some() => Shape::TeiScores,
        "/v1/rerank" if flavour == Flavour::Sglang => Shape::SglangScores,
        "/rerank" | "/v1/rerank" | "/v2/rerank" => Shape::Results,
        "/embed" => Shape::TeiVectors,
        "/v2/embed" => Shape::Cohere,
        _ => return None,
    };
    Some(accept(context, shape, body))
}

fn accept(
    context: &mut RequestContext<'_>,
    shape: Shape,
    body: &Value,
) -> Result<Accepted, ApiError> {
    let inputs = match shape {
        Shape::Data { .. } | Shape::Classes if body.get("messages").is_some() => {
            Inputs::one(hash_conversation(context, &body["messages"])?)
        }
        Shape::Data { .. } | Shape::Classes => Inputs::read(context, body, "input")?,
        Shape::TeiVectors => Inputs::read(context, body, "inputs")?,
        Shape::Cohere => Inputs::read(context, body, "texts")?,
        Shape::Scores => {
            let [query, documents] = if body.get("queries").is_some() {
                ["queries", "documents"]
            } else {
                ["text_1", "text_2"]
            };
            Inputs::pairs(context, body, query, documents)?
        }
        Shape::TeiScores => Inputs::pairs(context, body, "query", "texts")?,
        Shape::Results | Shape::SglangScores => Inputs::pairs(context, body, "query", "documents")?,
    };
    let max = context.max_model_len;
    let prompt: Vec<u64> = inputs.hashes.concat();
    let longest = inputs.hashes.iter().map(Vec::len).max().unwrap_or(0);
    let longest = u32::try_from(longest.max(prompt.len() / 64)).unwrap_or(u32::MAX);
    if prompt.is_empty() {
        return Err(ApiError::field("input", "the input is empty"));
    }
    if longest > max {
        let message = format!(
            "This model's maximum context length is {max} tokens. However, your prompt contains at least {longest} input tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={longest})"
        );
        return Err(ApiError::field("input_tokens", message));
    }
    let encoding = VectorEncoding::asked(body)?;
    let top = whole_number(body, "top_n")?.filter(|top| *top > 0);
    let model = body.get("model").and_then(Value::as_str);
    let writer = Pooled {
        shape,
        encoding,
        id: context.request_id.clone(),
        model: model.unwrap_or(&context.config.model).to_owned(),
        created: context.created,
        seeds: inputs.hashes.iter().map(|hashes| seed(hashes)).collect(),
        texts: inputs.texts,
        top: top.map_or(usize::MAX, |top| top as usize),
    };
    let ask = EngineRequest {
        prompt,
        length: LengthBounds { limit: 1, least: 1, ignores_eos: true },
        delivery: AnswerDelivery::Whole,
        ..EngineRequest::default()
    };
    Ok((ask, Box::new(writer)))
}

struct Inputs {
    hashes: Vec<Vec<u64>>,
    /// The documents, where the answer repeats them.
    texts: Vec<String>,
}

impl Inputs {
    fn one(hashes: Vec<u64>) -> Self {
        Self { hashes: vec![hashes], texts: Vec::new() }
    }

    /// A text, a list of texts, token ids or a list of them.
    fn read(context: &mut RequestContext<'_>, body: &Value, field: &str) -> Result<Self, ApiError> {
        let bad = || {
            let message = format!("`{field}` must be a text, token ids, or a list of either");
            ApiError::field(field, message)
        };
        match body.get(field) {
            Some(Value::String(text)) => Ok(Self::one(context.hash_text(text))),
            Some(Value::Array(items)) if items.first().is_some_and(Value::is_number) => {
                Ok(Self::one(hash_ids(&token_ids(items).ok_or_else(bad)?)))
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                let mut one = |item: &Value| match item {
                    Value::String(text) => Ok(context.hash_text(text)),
                    Value::Array(list) => Ok(hash_ids(&token_ids(list).ok_or_else(bad)?)),
                    _ => Err(bad()),
                };
                let hashes = items.iter().map(&mut one).collect::<Result<_, _>>()?;
                Ok(Self { hashes, texts: Vec::new() })
            }
            _ => Err(bad()),
        }
    }

    /// A query with each of some documents. The query is read once.
    fn pairs(
        context: &mut RequestContext<'_>,
        body: &Value,
        query: &str,
        documents: &str,
    ) -> Result<Self, ApiError> {
        let missing = |field: &str| ApiError::field(field, format!("`{field}` is required"));
        let asked = body.get(query).and_then(Value::as_str).ok_or_else(|| missing(query))?;
        let list = match body.get(documents) {
            Some(Value::Array(list)) if !list.is_empty() => list.clone(),
            Some(one @ Value::String(_)) => vec![one.clone()],
            _ => return Err(missing(documents)),
        };
        let texts: Option<Vec<String>> =
            list.iter().map(|one| one.as_str().map(str::to_owned)).collect();
        let texts = texts.ok_or_else(|| missing(documents))?;
        let mut hashes: Vec<Vec<u64>> = texts.iter().map(|text| context.hash_text(text)).collect();
        if let Some(first) = hashes.first_mut() {
            let mut both = context.hash_text(asked);
            both.append(first);
            *first = both;
        }
        Ok(Self { hashes, texts })
    }
}

fn seed(hashes: &[u64]) -> u64 {
    hashes.iter().fold(1, |seed, hash| scramble(seed ^ hash))
}

fn number(seed: u64) -> f64 {
    f64::from(u32::try_from(scramble(seed) >> 40).unwrap_or(0)) / f64::from(1 << 23) - 1.0
}

struct Pooled {
    shape: Shape,
    encoding: VectorEncoding,
    id: String,
    model: String,
    created: u64,
    seeds: Vec<u64>,
    texts: Vec<String>,
    top: usize,
}

impl Pooled {
    fn vector(seed: u64) -> Vec<f64> {
        (0..DIMENSIONS).map(|index| number(seed.wrapping_add(index))).collect()
    }

    /// The same numbers as 32-bit floats.
    #[expect(clippy::cast_possible_truncation, reason = "24 bits were drawn")]
    fn bytes(seed: u64) -> Vec<u8> {
        Self::vector(seed).into_iter().flat_map(|number| (number as f32).to_le_bytes()).collect()
    }

    fn written_vector(&self, seed: u64) -> Value {
        match self.encoding {
            VectorEncoding::Base64 => json!(STANDARD.encode(Self::bytes(seed))),
            _ => json!(Self::vector(seed)),
        }
    }

    fn octets(&self, prompt_tokens: Option<u32>) -> Response {
        let size = DIMENSIONS * 4;
        let item = |index: u64| {
            let start = index * size;
            json!({
                "index": index, "embed_dtype": "float32", "endianness": "native",
                "start": start, "end": start + size, "shape": [DIMENSIONS],
            })
        };
        let mut headers = vec![("content-type", "application/octet-stream".to_owned())];
        if self.encoding == VectorEncoding::Bytes {
            let usage = prompt_tokens
                .map(|tokens| json!({ "prompt_tokens": tokens, "total_tokens": tokens }));
            let metadata = json!({
                "id": format!("embd-{}", self.id), "created": self.created, "model": self.model,
                "data": (0..self.seeds.len() as u64).map(item).collect::<Vec<_>>(), "usage": usage,
            });
            headers.push(("metadata", metadata.to_string()));
        }
        let body = self.seeds.iter().flat_map(|seed| Self::bytes(*seed)).collect();
        Response { status: 200, headers, body }
    }

    fn score(seed: u64) -> f64 {
        f64::midpoint(number(seed), 1.0)
    }

    /// The documents by their scores, the best first.
    fn ranked(&self) -> Vec<(usize, f64)> {
        let mut ranked: Vec<(usize, f64)> =
            self.seeds.iter().map(|seed| Self::score(*seed)).enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(self.top);
        ranked
    }

    fn list(&self, kind: &str, entry: impl Fn(u64) -> Value, usage: &Value) -> Value {
        let object = |(index, seed): (usize, &u64)| {
            let mut object = entry(*seed);
            object["index"] = index.into();
            object
        };
        let data: Vec<Value> = self.seeds.iter().enumerate().map(object).collect();
        json!({
            "id": format!("{kind}-{}", self.id), "object": "list", "created": self.created,
            "model": self.model, "data": data, "usage": usage,
        })
    }

    fn body(&self, prompt_tokens: Option<u32>) -> Value {
        let usage = prompt_tokens.map(|tokens| {
            json!({
                "prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0,
                "prompt_tokens_details": null, "completion_tokens_details": null,
            })
        });
        let usage = json!(usage);
        let text = |index: usize| self.texts.get(index);
        match self.shape {
            Shape::Data { object, vector } => {
                let kind = if object == "embedding" { "embd" } else { object };
                self.list(
                    kind,
                    |seed| json!({ "object": object, vector: self.written_vector(seed) }),
                    &usage,
                )
            }
            Shape::Classes => {
                let entry = |seed: u64| {
                    let first = Self::score(seed);
                    json!({ "label": "LABEL_0", "probs": [first, 1.0 - first], "num_classes": 2 })
                };
                self.list("classify", entry, &usage)
            }
            Shape::Scores => {
                let entry = |seed| json!({ "object": "score", "score": Self::score(seed) });
                self.list("score", entry, &usage)
            }
            Shape::Results => {
                let result = |(index, score): (usize, f64)| {
                    let document = json!({ "text": text(index), "multi_modal": null });
                    json!({ "index": index, "document": document, "relevance_score": score })
                };
                let results: Vec<Value> = self.ranked().into_iter().map(result).collect();
                let usage = prompt_tokens
                    .map(|tokens| json!({ "prompt_tokens": tokens, "total_tokens": tokens }));
                json!({
                    "id": format!("score-{}", self.id), "model": self.model, "usage": usage,
                    "results": results,
                })
            }
            Shape::SglangScores => {
                let result = |(index, score): (usize, f64)| {
                    let tokens = prompt_tokens.filter(|_| index == 0).unwrap_or(0);
                    let meta = json!({ "id": self.id, "prompt_tokens": tokens });
                    json!({ "score": score, "document": text(index), "index": index, "meta_info": meta })
                };
                self.ranked().into_iter().map(result).collect()
            }
            Shape::TeiVectors => self.seeds.iter().map(|seed| json!(Self::vector(*seed))).collect(),
            Shape::TeiScores => {
                let result = |(index, score)| json!({ "index": index, "score": score });
                self.ranked().into_iter().map(result).collect()
            }
            Shape::Cohere => {
                let vectors: Vec<Vec<f64>> =
                    self.seeds.iter().map(|seed| Self::vector(*seed)).collect();
                json!({
                    "id": self.id, "embeddings": { "float": vectors },
                    "meta": { "billed_units": { "input_tokens": prompt_tokens } },
                })
            }
        }
    }
}

impl AnswerWriter for Pooled {
    fn whole(&mut self, _: &AnswerPiece<'_>, ending: &AnswerEnd) -> Response {
        let tokens = ending.usage.map(|usage| usage.prompt_tokens);
        let is_data = matches!(self.shape, Shape::Data { .. });
        if is_data && matches!(self.encoding, VectorEncoding::Bytes | VectorEncoding::BytesOnly) {
            return self.octets(tokens);
        }
        let mut response = Response::json(200, &self.body(tokens));
        let is_tei = matches!(self.shape, Shape::TeiVectors | Shape::TeiScores);
        if let Some(tokens) = tokens.filter(|_| is_tei) {
            response.headers.push(("x-compute-tokens", tokens.to_string()));
        }
        response
    }
}
