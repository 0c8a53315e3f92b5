//! Control requests, outside the measurement: readiness, models, tokenization, caches, metrics.
//!
//! Blocking, with one connection per request. Only the form of `/tokenize` that a server accepts is
//! cached. Never used on a thread that measures requests. Responses are parsed by the same HTTP
//! reader as measured ones.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};
use tokometer_base::{Clock, Nanos};

use crate::Error;
use crate::conn::{Access, Channel, Endpoint, Peer, TimeLimit};
use crate::http::{BodyDecoder, BodyPart, ContentEncoding, HttpError, ResponseReader};
use crate::redirect::{MOST_REDIRECTS, Redirect, is_redirect};
use crate::request_head::{JSON, RequestHead};
use crate::server_message::{html_page, message};
use crate::settings::Settings;

/// Longest response that is read. Metrics pages of large fleets have a few megabytes.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Where the body of a success goes; `None`: into the response.
type Sink<'a> = Option<&'a mut dyn io::Write>;

/// Before a server that was too busy to tokenize is asked once more.
const BUSY_PAUSE: Nanos = Nanos::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// In the order received; names as the server spelled them.
    pub headers: Vec<(String, String)>,
    /// Without chunked coding and compression.
    pub body: Vec<u8>,
    /// Where the server sent us for it, and what to do about that. `None`: nowhere.
    pub redirected: Option<String>,
}

impl HttpResponse {
    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The same answer with its body decoded, or why that cannot be done.
    fn decoded(mut self) -> Result<Self, HttpError> {
        let encoding = self.header("content-encoding").unwrap_or_default().trim();
        let mut decoder = match ContentEncoding::parse(encoding) {
            ContentEncoding::Identity => return Ok(self),
            ContentEncoding::Unreadable(name) => return Err(HttpError::Encoding(name)),
            ContentEncoding::Gzip => BodyDecoder::default(),
        };
        let mut body = Vec::new();
        let mut keep = |plain: &[u8]| {
            let room = MAX_ANSWER_BYTES.saturating_sub(body.len());
            body.extend_from_slice(&plain[..plain.len().min(room)]);
        };
        decoder
            .feed(&self.body, &mut keep)
            .and_then(|()| decoder.finish(&mut keep))
            .map_err(|_| HttpError::Compressed)?;
        self.body = body;
        Ok(self)
    }

    /// `None` when the body is not JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    pub id: String,
    /// Origin of the weights, such as a hub id. `None` where the server does not report it.
    pub root: Option<String>,
    /// Limit on prompt and output tokens together. `None` where the server does not report it.
    pub max_model_len: Option<u32>,
}

/// Whether a tokenization includes the special tokens that the server adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Include them, as for a request.
    Add,
    /// Tokens of the text alone.
    Skip,
}

/// The names of the text and of the flag in the body of `/tokenize`: in vLLM and SGLang, llama.cpp, TGI.
const TOKENIZE_FORMS: [[&str; 2]; 3] = [
    ["prompt", "add_special_tokens"],
    ["content", "add_special"],
    ["inputs", "add_special_tokens"],
];

#[derive(Debug, Clone)]
pub struct Control {
    settings: Settings,
    access: Arc<Access>,
    limit: TimeLimit,
    /// The address that answered last. It is asked first, so that counters of one server follow each
    /// other and an address that is down costs time once.
    last: Arc<Mutex<Option<Peer>>>,
    /// The one of [`TOKENIZE_FORMS`] that the server accepts.
    tokenize_form: OnceLock<[&'static str; 2]>,
}

impl Control {
    /// Uses the address, headers and key of the run. `timeout` applies to a whole request, from
    /// connecting to the last byte of its response.
    pub fn new(
        settings: &Settings,
        access: Arc<Access>,
        timeout: Nanos,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            access,
            limit: TimeLimit { clock, span: timeout, is_cancelled: None },
            last: Arc::default(),
            tokenize_form: OnceLock::new(),
        }
    }

    /// A client for another server that is reached in the same way.
    #[must_use]
    pub fn with_settings(&self, settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            last: Arc::default(),
            tokenize_form: OnceLock::new(),
            ..self.clone()
        }
    }

    #[must_use]
    pub fn with_timeout(&self, timeout: Nanos) -> Self {
        let limit = TimeLimit { span: timeout, ..self.limit.clone() };
        Self { limit, ..self.clone() }
    }

    #[must_use]
    pub fn cancelled_by(&self, is_cancelled: Arc<dyn Fn() -> bool + Send + Sync>) -> Self {
        let limit = TimeLimit { is_cancelled: Some(is_cancelled), ..self.limit.clone() };
        Self { limit, ..self.clone() }
    }

    /// `GET path`, whatever the status of the answer. Redirects are followed; another server than this
    /// one is sent neither the key nor the user's headers.
    pub fn get(&self, path: &str) -> Result<HttpResponse, Error> {
        self.follow(path, &mut None, &mut Vec::new())
    }

    /// The same for a file of any size: the body of a success is written to `sink` as it comes, and the
    /// timeout applies to each wait for more of it. Returns the redirects, and the answer as the last.
    pub fn download(
        &self,
        path: &str,
        sink: &mut dyn io::Write,
    ) -> Result<Vec<HttpResponse>, Error> {
        let mut answers = Vec::new();
        let last = self.follow(path, &mut Some(sink), &mut answers)?;
        answers.push(last);
        Ok(answers)
    }

    /// Follows redirects, which are added to `redirects`, to the answer.
    fn follow(
        &self,
        path: &str,
        sink: &mut Sink<'_>,
        redirects: &mut Vec<HttpResponse>,
    ) -> Result<HttpResponse, Error> {
        let mut settings = self.settings.clone();
        let mut path = path.to_owned();
        let mut redirected = None;
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.ask(&settings, &path, None, sink)?;
            let location = answer.header("location").filter(|_| is_redirect(answer.status));
            let Some(location) = location else { return Ok(HttpResponse { redirected, ..answer }) };
            let address = settings.base_url.at(&path);
            let route = path.split('?').next().unwrap_or_default();
            let redirect = Redirect::parse(&settings.base_url, route, location)?;
            let reason = redirect.describe(&settings.base_url);
            // A server is measured as it was named; a file may be anywhere.
            let is_named = sink.is_none();
            if is_named && redirect.base.is_encrypted() && !settings.base_url.is_encrypted() {
                return Err(Error::Redirect { address, reason });
            }
            if !redirect.stays_at(&settings.base_url) {
                settings.api_key = None;
                settings.headers.0.clear();
            }
            settings.base_url = redirect.base;
            path = redirect.path;
            redirected = Some(reason);
            redirects.push(answer);
        }
        let reason = format!("it redirected {MOST_REDIRECTS} times without an answer");
        Err(Error::Redirect { address: settings.base_url.at(&path), reason })
    }

    /// `POST path` with a JSON body or none, whatever the status of the answer.
    pub fn post(&self, path: &str, body: Option<&Value>) -> Result<HttpResponse, Error> {
        let body = Some(body.map(Value::to_string).unwrap_or_default());
        self.ask(&self.settings, path, body, &mut None)
    }

    /// A `POST` of `body`, or a `GET` where there is none.
    fn ask(
        &self,
        settings: &Settings,
        path: &str,
        body: Option<String>,
        sink: &mut Sink<'_>,
    ) -> Result<HttpResponse, Error> {
        let url = &settings.base_url;
        let endpoint = self.access.endpoint(url)?;
        let method = if body.is_some() { "POST" } else { "GET" };
        let route = url.with_query(&format!("{}{path}", url.root_prefix()));
        let mut head = RequestHead::new(method, url, &route, endpoint.forward.as_ref());
        if body.is_some() {
            head.header("Content-Type", JSON);
        }
        head.header("Accept", "*/*");
        head.header("Accept-Encoding", "identity");
        head.header("Connection", "close");
        if let Some(key) = &settings.api_key {
            head.header("Authorization", key.header_value());
        }
        for (name, value) in &settings.headers.0 {
            head.header(name, value);
        }
        let mut request = head.finish(body.as_ref().map(String::len))?;
        request.extend_from_slice(body.unwrap_or_default().as_bytes());
        let mut address = url.at(path);
        if let Some(proxy) = endpoint.proxy() {
            address = format!("{address} through the proxy {proxy}");
        }
        let reach = |source| Error::Reach { address: address.clone(), source };
        let mut channel = self.connect(&endpoint).map_err(reach)?;
        self.exchange(&mut channel, &request, &address, sink)
    }

    fn connect(&self, endpoint: &Endpoint) -> io::Result<Channel> {
        let addresses = &endpoint.addresses;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let first = last.and_then(|last| addresses.iter().position(|address| *address == last));
        let others = (0..addresses.len()).filter(|index| Some(*index) != first);
        let order = first.into_iter().chain(others);
        let (channel, index) = Channel::open(endpoint, order, self.limit.start())?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = addresses.get(index).cloned();
        Ok(channel)
    }

    fn exchange(
        &self,
        channel: &mut Channel,
        request: &[u8],
        address: &str,
        sink: &mut Sink<'_>,
    ) -> Result<HttpResponse, Error> {
        let reach = |source| Error::Reach { address: address.to_owned(), source };
        let broken = |reason: String| Error::Answer { address: address.to_owned(), reason };
        channel.send(request).map_err(reach)?;
        let mut reader = ResponseReader::default();
        let mut answer =
            HttpResponse { status: 0, headers: Vec::new(), body: Vec::new(), redirected: None };
        let mut input = Vec::new();
        let mut has_heard = false;
        loop {
            input.clear();
            let is_last = match channel.receive(&mut input) {
                Ok(is_last) => is_last,
                Err(error) if error.kind() == io::ErrorKind::TimedOut && !has_heard => {
                    let address = address.to_owned();
                    return Err(Error::Silent { address, within: self.limit.span });
                }
                Err(error) => return Err(reach(error)),
            };
            has_heard |= !input.is_empty();
            let is_complete = !input.is_empty()
                && take(&mut reader, &input, &mut answer).map_err(|why| broken(why.to_string()))?;
            if let Some(sink) = sink.as_mut().filter(|_| (200..300).contains(&answer.status)) {
                channel.restart(self.limit.start());
                let unwritten = |why: io::Error| broken(format!("it cannot be written: {why}"));
                sink.write_all(&answer.body).map_err(unwritten)?;
                answer.body.clear();
            }
            if is_last && !has_heard {
                return Err(reach(io::ErrorKind::UnexpectedEof.into()));
            }
            if is_complete || (is_last && answer.status != 0 && reader.ends_at_eof()) {
                return answer.decoded().map_err(|why| broken(why.to_string()));
            }
            if is_last {
                return Err(Error::Cut { address: address.to_owned() });
            }
            if answer.body.len() > MAX_ANSWER_BYTES {
                return Err(broken(format!("it is longer than {MAX_ANSWER_BYTES} bytes")));
            }
        }
    }

    /// An error unless the status is 2xx.
    fn accepted(&self, path: &str, answer: HttpResponse) -> Result<HttpResponse, Error> {
        if (200..300).contains(&answer.status) {
            return Ok(answer);
        }
        let address = self.settings.base_url.at(path);
        let body = match answer.header("location").filter(|_| is_redirect(answer.status)) {
            Some(location) => match Redirect::parse(&self.settings.base_url, path, location) {
                Ok(redirect) => redirect.describe(&self.settings.base_url),
                Err(why) => why.to_string(),
            },
            None => message(&answer.body, &self.settings.secrets()),
        };
        let body = if body.is_empty() { "its body is empty".to_owned() } else { body };
        Err(Error::Status { address, status: answer.status, body })
    }

    fn unexpected(&self, path: &str, reason: &str) -> Error {
        Error::Answer { address: self.settings.base_url.at(path), reason: reason.to_owned() }
    }

    fn get_json(&self, path: &str) -> Result<Value, Error> {
        let answer = self.accepted(path, self.get(path)?)?;
        answer.json().ok_or_else(|| match html_page(&answer.body) {
            Some(_) => Error::WebPage {
                address: self.settings.base_url.at(path),
                what: message(&answer.body, &self.settings.secrets()),
            },
            None if answer.body.is_empty() => self.unexpected(path, "its body is empty"),
            None => self.unexpected(path, "it is not JSON"),
        })
    }

    fn post_accepted(&self, path: &str, body: Option<&Value>) -> Result<(), Error> {
        self.accepted(path, self.post(path, body)?).map(|_answer| ())
    }

    /// An error unless `GET path` returns 2xx.
    pub fn ready(&self, path: &str) -> Result<(), Error> {
        self.accepted(path, self.get(path)?).map(|_answer| ())
    }

    pub fn models(&self) -> Result<Vec<ModelEntry>, Error> {
        let list = self.get_json("/v1/models")?;
        let models = list["data"].as_array();
        let models = models.ok_or_else(|| self.unexpected("/v1/models", "it lists no models"))?;
        Ok(models.iter().filter_map(model).collect())
    }

    /// Token ids of a text, from the server. The first call finds out which form of request the
    /// server accepts.
    pub fn tokenize(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, Error> {
        if let Some(form) = self.tokenize_form.get() {
            return self.tokenize_as(*form, text, special);
        }
        let mut failure = None;
        for form in TOKENIZE_FORMS {
            match self.tokenize_as(form, text, special) {
                // llama.cpp returns an empty list for a request that it does not understand.
                Ok(ids) if ids.is_empty() && !text.is_empty() => {}
                Ok(ids) => {
                    self.tokenize_form.get_or_init(|| form);
                    return Ok(ids);
                }
                // It does not matter to these how the text was named.
                Err(
                    error @ (Error::Reach { .. }
                    | Error::Silent { .. }
                    | Error::Status { status: 429 | 503, .. }),
                ) => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| self.unexpected("/tokenize", "it has no tokens")))
    }

    fn tokenize_as(
        &self,
        [prompt, flag]: [&str; 2],
        text: &str,
        special: SpecialTokens,
    ) -> Result<Vec<u32>, Error> {
        let add = special == SpecialTokens::Add;
        let mut body = json!({ prompt: text, flag: add });
        if prompt == "prompt" {
            body["model"] = self.settings.model.as_str().into();
        }
        let mut answer = self.post("/tokenize", Some(&body))?;
        if matches!(answer.status, 429 | 503) {
            self.limit.clock.sleep(BUSY_PAUSE);
            answer = self.post("/tokenize", Some(&body))?;
        }
        let answer = self.accepted("/tokenize", answer)?;
        let refused = || self.unexpected("/tokenize", "it has no tokens");
        let answer = answer.json().ok_or_else(refused)?;
        let tokens = answer.get("tokens").unwrap_or(&answer).as_array().ok_or_else(refused)?;
        let id = |token: &Value| token.get("id").unwrap_or(token).as_u64();
        let ids = tokens.iter().map(|token| id(token).and_then(|id| u32::try_from(id).ok()));
        ids.collect::<Option<Vec<u32>>>().ok_or_else(refused)
    }

    pub fn detokenize(&self, ids: &[u32]) -> Result<String, Error> {
        let path = "/detokenize";
        let body = json!({"model": self.settings.model, "tokens": ids});
        let answer = self.accepted(path, self.post(path, Some(&body))?)?;
        let answer = answer.json().unwrap_or(Value::Null);
        // vLLM, SGLang and llama.cpp use different keys.
        let text = ["prompt", "text", "content"].iter().find_map(|key| answer[key].as_str());
        text.map(str::to_owned).ok_or_else(|| self.unexpected(path, "it has no text"))
    }

    pub fn metrics_text(&self) -> Result<String, Error> {
        let answer = self.accepted("/metrics", self.get("/metrics")?)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// vLLM's `POST /reset_prefix_cache`, available in its development mode.
    pub fn reset_prefix_cache(&self) -> Result<(), Error> {
        self.post_accepted("/reset_prefix_cache", None)
    }

    /// SGLang's `POST /flush_cache`. SGLang itself waits up to `timeout` for running requests; other
    /// servers are sent no timeout.
    pub fn flush_cache(&self, timeout: Option<Nanos>) -> Result<(), Error> {
        let query = timeout.map(|timeout| format!("?timeout={}", timeout.as_secs_f64()));
        self.post_accepted(&format!("/flush_cache{}", query.unwrap_or_default()), None)
    }

    /// SGLang's `GET /server_info`, or `GET /get_server_info` of older versions.
    pub fn server_info(&self) -> Result<Value, Error> {
        match self.get_json("/server_info") {
            Err(Error::Status { .. } | Error::Answer { .. }) => self.get_json("/get_server_info"),
            info => info,
        }
    }

    /// `POST /start_profile`, with a body for SGLang.
    pub fn start_profile(&self, options: Option<&Value>) -> Result<(), Error> {
        self.post_accepted("/start_profile", options)
    }

    pub fn stop_profile(&self) -> Result<(), Error> {
        self.post_accepted("/stop_profile", None)
    }
}

fn model(entry: &Value) -> Option<ModelEntry> {
    let length = [&entry["max_model_len"], &entry["meta"]["n_ctx"], &entry["meta"]["n_ctx_train"]];
    let length = length.into_iter().find_map(Value::as_u64);
    Some(ModelEntry {
        id: entry["id"].as_str()?.to_owned(),
        root: entry["root"].as_str().map(str::to_owned),
        max_model_len: length.and_then(|length| u32::try_from(length).ok()),
    })
}

/// Appends the bytes of one read to the response. Returns true at its end.
fn take(
    reader: &mut ResponseReader,
    mut input: &[u8],
    answer: &mut HttpResponse,
) -> Result<bool, HttpError> {
    if answer.status == 0 {
        let headers = &mut answer.headers;
        let head = reader.read_head(&mut input, |name, value| {
            headers.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        })?;
        let Some(head) = head else { return Ok(false) };
        answer.status = head.status;
    }
    loop {
        match reader.read_body(&mut input)? {
            BodyPart::More => return Ok(false),
            BodyPart::Data(data) => answer.body.extend_from_slice(data),
            BodyPart::End => return Ok(true),
        }
    }
}

#[cfg(test)]
mod tests;
