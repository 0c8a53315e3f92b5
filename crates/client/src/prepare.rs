//! Builds the bytes of a request before it is due.
//!
//! In: the run's [`Settings`] and an [`RequestInput`] (one prompt, its index, its adapter). Out: a
//! [`PreparedRequest`] whose `bytes` are the header and body of an HTTP/1.1 request: JSON, or a form where
//! the prompt is an audio clip. It lists the fields that the client adds by itself, so that the request can
//! be sent without one that a server refuses.

use serde_json::Value;
use serde_json::value::to_raw_value;
use tokometer_base::{Conventions, Prompt, PromptContent};
use tokometer_record::RequestedLengths;

use crate::dialect::{BodyContext, Dialect, rules_of, sound_file};
use crate::error::Error;
use crate::framing::EventFraming;
use crate::json_body::{ExtraFields, JsonBody};
use crate::multipart::{self, FormBody};
use crate::request_head::{JSON, RequestHead};
use crate::settings::{Delivery, Settings};

/// Servers take a temperature below this as 0.
const GREEDY_BELOW: f64 = 1e-5;

/// The part of a request that differs from the others of its run.
#[derive(Debug, Clone, Copy)]
pub struct RequestInput<'a> {
    pub prompt: &'a Prompt,
    /// Index in the plan; the last part of the request id.
    pub index: u64,
    /// LoRA adapter to use. `None` uses the base model.
    pub lora: Option<&'a str>,
}

impl<'a> RequestInput<'a> {
    pub fn new(prompt: &'a Prompt, index: u64) -> Self {
        Self { prompt, index, lora: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreparedRequest {
    pub bytes: Vec<u8>,
    pub body_start: usize,
    pub requested: RequestedLengths,
    /// Body fields that can be removed or renamed if the server refuses them.
    pub optional_fields: Vec<&'static str>,
    pub index: u64,
    /// LoRA adapter; `None` for the base model.
    pub lora: Option<String>,
    /// Tools that only this request offers, for the record.
    pub own_tools: Option<String>,
}

impl PreparedRequest {
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..]
    }
}

impl Dialect {
    /// An error when the protocol has no field for this form of prompt.
    pub fn prepare(
        &self,
        settings: &Settings,
        ask: &RequestInput<'_>,
    ) -> Result<PreparedRequest, Error> {
        let extra = merged_extra(settings, ask.prompt)?;
        let is_greedy = self.is_greedy(settings, &extra);
        let mut body = JsonBody::new(&extra);
        let context = self.context(settings, ask);
        let rules = rules_of(self.protocol());
        (rules.write_body)(&mut body, &context)?;
        rules.write_structured(&mut body, &context)?;
        let (body, optional_fields) = body.finish();
        let sound = match &ask.prompt.content {
            PromptContent::Sound(sound) => Some(sound),
            _ => None,
        };
        let (content_type, body) = match sound {
            None => (JSON.to_owned(), body),
            Some(sound) => {
                let FormBody { content_type, bytes } = multipart::encode(&body, sound_file(sound))?;
                (content_type, bytes)
            }
        };
        let mut bytes = head(*self, settings, ask, &content_type).finish(Some(body.len()))?;
        let body_start = bytes.len();
        bytes.extend_from_slice(&body);
        let requested = RequestedLengths {
            prompt_tokens: ask.prompt.prompt_tokens,
            // Where nothing is generated, an answer has no length.
            output_tokens: ask.prompt.output_tokens.filter(|_| !self.is_pooling()),
            body_bytes: body.len() as u64,
            items: self.is_pooling().then(|| ask.prompt.content.items()),
            audio: sound.and_then(|sound| sound.length),
            prompt_script: ask.prompt.content.script(),
            prompt_hash: is_greedy.then(|| ask.prompt.content.fingerprint()),
            session_recorded: None,
            possible_cached_tokens: None,
        };
        let lora = ask.lora.map(str::to_owned);
        Ok(PreparedRequest {
            bytes,
            body_start,
            requested,
            optional_fields,
            index: ask.index,
            lora,
            own_tools: own_tools(ask.prompt),
        })
    }

    pub fn request_path(&self, settings: &Settings) -> String {
        let own = match settings.delivery {
            Delivery::Streamed => self.path(),
            Delivery::Whole => self.whole_path(),
        };
        let path = settings.path.as_deref().unwrap_or(own);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = &settings.base_url;
        // A route that the user named without `/v1` is meant below the address as it is.
        let is_from_root = settings.path.is_none() || format!("{slash}{path}").starts_with("/v1/");
        let prefix = if is_from_root { url.root_prefix() } else { &url.path_prefix };
        url.with_query(&format!("{prefix}{slash}{path}"))
    }

    fn context<'a>(self, settings: &'a Settings, ask: &RequestInput<'a>) -> BodyContext<'a> {
        BodyContext {
            backend: self.row(),
            conventions: self.conventions().map(|own| settings.conventions.unwrap_or(own)),
            settings,
            prompt: ask.prompt,
            lora: ask.lora,
        }
    }

    /// Whether the same request always has the same answer: it asks for temperature 0, by itself or as
    /// SGLang's client does, and generates a text.
    fn is_greedy(self, settings: &Settings, extra: &ExtraFields) -> bool {
        let stated = extra.get("temperature").and_then(|value| value.get().parse().ok());
        let is_sglang = |own| settings.conventions.unwrap_or(own) == Conventions::Sglang;
        let implied = self.conventions().is_some_and(is_sglang).then_some(0.0);
        let temperature: Option<f64> = stated.or(settings.sampling.temperature).or(implied);
        temperature.is_some_and(|temperature| temperature < GREEDY_BELOW) && !self.is_pooling()
    }

    pub(crate) fn is_streamed(self, settings: &Settings) -> bool {
        settings.delivery == Delivery::Streamed
            && rules_of(self.protocol()).framing != EventFraming::WholeJson
    }
}

/// The tools that a prompt's own body offers, as JSON text. `None` where it offers none.
fn own_tools(prompt: &Prompt) -> Option<String> {
    let body: ExtraFields = serde_json::from_str(prompt.extra_body.as_deref()?).ok()?;
    let choice = body.get("tool_choice").map(|choice| format!(r#","tool_choice":{choice}"#));
    Some(format!(r#"{{"tools":{}{}}}"#, body.get("tools")?, choice.unwrap_or_default()))
}

fn merged_extra(settings: &Settings, prompt: &Prompt) -> Result<ExtraFields, Error> {
    let refused = |error: serde_json::Error| Error::ExtraBody(error.to_string());
    let shared = &settings.extra_body.0;
    let text = |(name, value): (&String, &Value)| Ok((name.clone(), to_raw_value(value)?));
    let mut extra = shared.iter().map(text).collect::<Result<_, _>>().map_err(refused)?;
    if let Some(text) = &prompt.extra_body {
        let own: ExtraFields = serde_json::from_str(text).map_err(refused)?;
        ExtraFields::extend(&mut extra, own);
    }
    Ok(extra)
}

fn head(
    dialect: Dialect,
    settings: &Settings,
    ask: &RequestInput<'_>,
    content_type: &str,
) -> RequestHead {
    let (forward, path) = (settings.forward.as_ref(), dialect.request_path(settings));
    let mut head = RequestHead::new("POST", &settings.base_url, &path, forward);
    head.header("Content-Type", content_type);
    let accept = if dialect.is_streamed(settings) { "text/event-stream" } else { JSON };
    head.header("Accept", accept);
    head.header("Accept-Encoding", "identity");
    if let Some(key) = &settings.api_key {
        head.header("Authorization", key.header_value());
    }
    (rules_of(dialect.protocol()).write_head)(&mut head, settings.api_key.as_ref());
    if let Some(prefix) = &settings.request_id_prefix {
        head.header("x-request-id", format_args!("{prefix}{}", ask.index));
    }
    for (name, value) in settings.headers.0.iter().chain(&ask.prompt.headers) {
        head.header(name, value);
    }
    head
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::secret::{ApiKey, ExtraBody, Headers};
    use crate::url::Url;
    use tokometer_base::{Message, PromptContent};

    pub(crate) fn settings() -> Settings {
        Settings::new(Url::http("127.0.0.1", 8000), "tiny")
    }

    pub(crate) fn text_prompt() -> Prompt {
        Prompt { prompt_tokens: Some(3), output_tokens: Some(7), ..Prompt::text("Say \"hi\"") }
    }

    fn prepared(
        name: &str,
        settings: &Settings,
        ask: &RequestInput<'_>,
    ) -> Result<PreparedRequest, Error> {
        Dialect::named(name).unwrap().prepare(settings, ask)
    }

    pub(crate) fn body_of(name: &str, settings: &Settings, prompt: &Prompt) -> String {
        let request = prepared(name, settings, &RequestInput::new(prompt, 0)).unwrap();
        String::from_utf8(request.body().to_vec()).unwrap()
    }

    /// The body after the server has refused these fields one after the other.
    pub(crate) fn body_after(name: &str, prompt: &Prompt, refused: &[&str]) -> String {
        let request = prepared(name, &settings(), &RequestInput::new(prompt, 0)).unwrap();
        let request =
            refused.iter().fold(request, |request, field| request.without(field).unwrap());
        String::from_utf8(request.body().to_vec()).unwrap()
    }

    pub(crate) fn refused(name: &str, settings: &Settings, prompt: &Prompt) -> String {
        prepared(name, settings, &RequestInput::new(prompt, 0)).unwrap_err().to_string()
    }

    #[test]
    fn a_request_is_whole_and_its_head_has_everything() {
        let mut settings = settings();
        settings.base_url = Url::parse("http://[::1]:8000/proxy?x=1").unwrap();
        settings.api_key = Some(ApiKey::Bearer("k".to_owned()));
        settings.request_id_prefix = Some("bench-".to_owned());
        settings.headers = Headers(vec![("accept".to_owned(), "*/*".to_owned())]);
        let prompt = text_prompt();
        let request = prepared("llamacpp-oai", &settings, &RequestInput::new(&prompt, 12)).unwrap();
        let head = std::str::from_utf8(&request.bytes[..request.body_start]).unwrap();
        assert_eq!(
            head.replace(env!("CARGO_PKG_VERSION"), "VERSION"),
            "POST /proxy/v1/completions?x=1 HTTP/1.1\r\nHost: [::1]:8000\r\n\
             User-Agent: tokometer/VERSION\r\nContent-Type: application/json\r\n\
             Accept-Encoding: identity\r\n\
             Authorization: Bearer k\r\nx-request-id: bench-12\r\naccept: */*\r\n\
             Content-Length: 107\r\n\r\n"
        );
        assert_eq!(request.body().len(), 107);
        assert_eq!(request.requested.body_bytes, 107);
        assert_eq!(request.requested.output_tokens, Some(7));
    }

    #[test]
    fn a_header_value_cannot_inject_another_header() {
        let mut settings = settings();
        settings.headers = Headers(vec![("x-a".to_owned(), "1\r\nx-b: 2".to_owned())]);
        assert!(matches!(
            prepared("vllm", &settings, &RequestInput::new(&text_prompt(), 0)),
            Err(Error::Header(_))
        ));
    }

    #[test]
    fn extra_bodies_win_over_everything_and_the_prompts_own_over_the_runs() {
        let mut settings = settings();
        let extra = serde_json::json!({"model": "other", "min_tokens": 3, "stream_options": null});
        settings.extra_body = ExtraBody(extra.as_object().unwrap().clone());
        let mut prompt = text_prompt();
        prompt.extra_body = Some(r#"{"min_tokens":4}"#.to_owned());
        assert_eq!(
            body_of("llamacpp-oai", &settings, &prompt),
            r#"{"prompt":"Say \"hi\"","max_tokens":7,"stream":true,"min_tokens":4,"model":"other","stream_options":null}"#
        );
        prompt.extra_body = Some("[1]".to_owned());
        assert!(refused("vllm", &settings, &prompt).starts_with("cannot merge the extra body"));
    }

    /// Tool calls, names and parts were dropped, and the keys of tools were sorted.
    #[test]
    fn messages_and_bodies_of_a_row_are_sent_as_they_are() {
        let json = r#"{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}],"content":null}"#;
        let said = Message { verbatim: Some(json.to_owned()), ..Message::new("assistant", "") };
        let mut prompt = text_prompt();
        prompt.content = PromptContent::Messages(vec![Message::new("user", "a"), said]);
        prompt.extra_body = Some(r#"{"tools":[{"type":"function","a":{"z":1,"y":2}}]}"#.to_owned());
        for (name, key) in
            [("openai-chat", "messages"), ("openai-responses", "input"), ("anthropic", "messages")]
        {
            let body = body_of(name, &settings(), &prompt);
            let expected = format!(r#""{key}":[{{"role":"user","content":"a"}},{json}]"#);
            assert!(body.contains(&expected), "{name}: {body}");
            assert!(
                body.ends_with(r#""tools":[{"type":"function","a":{"z":1,"y":2}}]}"#),
                "{body}"
            );
        }
    }

    #[test]
    fn an_adapter_replaces_the_model_and_is_sent_as_lora_path_to_sglang() {
        let prompt = text_prompt();
        let ask = RequestInput { lora: Some("ad"), ..RequestInput::new(&prompt, 0) };
        let body = |name| {
            let request = prepared(name, &settings(), &ask).unwrap();
            serde_json::from_slice::<Value>(request.body()).unwrap()
        };
        assert_eq!(
            (&body("vllm")["model"], &body("vllm")["lora_path"]),
            (&"ad".into(), &Value::Null)
        );
        let sglang = body("sglang-oai");
        assert_eq!((&sglang["model"], &sglang["lora_path"]), (&"ad".into(), &"ad".into()));
        assert_eq!(body("sglang")["lora_path"], "ad");
    }

    #[test]
    fn only_what_is_said_of_tools_is_kept() {
        let check = |body: Option<&str>, expected: Option<&str>| {
            let prompt = Prompt { extra_body: body.map(str::to_owned), ..Prompt::text("x") };
            assert_eq!(own_tools(&prompt).as_deref(), expected, "{body:?}");
        };
        check(None, None);
        check(Some(r#"{"temperature":0}"#), None);
        check(Some(r#"{"top_k":1,"tools":[{"b":1,"a":2}]}"#), Some(r#"{"tools":[{"b":1,"a":2}]}"#));
        check(
            Some(r#"{"tool_choice":"required","tools":[]}"#),
            Some(r#"{"tools":[],"tool_choice":"required"}"#),
        );
    }
}
