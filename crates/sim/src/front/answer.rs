//! From requests to streams: what the loop does with the requests it has read.

use base::Nanos;
use tokometer_base as base;

use super::connection::LastEvent;
use super::reactor::Reactor;
use super::stream::{OpeningStream, ResponseStream};
use super::timers::Alarm;
use crate::config::TokenTiming;
use crate::engine::Job;
use crate::faults::PacketFault;
use crate::http::{BodyFraming, HttpRequest, Persistence, RequestProgress, head};
use crate::profile::Profile;
use crate::truth::{Fact, SentKind, TrueRequest};
use crate::vocabulary::{block_hashes, scramble};
use crate::wire::{
    AnswerDelivery, AnswerWriter, ApiError, EngineRequest, Hex, Reply, RequestContext, Response,
    refuse, route,
};

impl Reactor<'_> {
    /// Takes requests from a connection, one after another, while none is being answered.
    pub(super) fn read_requests(&mut self, key: u64) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            if connection.stream.is_some() {
                return;
            }
            match connection.reader.next() {
                RequestProgress::Incomplete => return,
                RequestProgress::WantsContinue => {
                    connection.queue(b"HTTP/1.1 100 Continue\r\n\r\n");
                    connection.seal();
                    self.flush(key);
                }
                RequestProgress::Complete(request) => self.answer(key, &request),
                RequestProgress::Broken(reason) => {
                    let api_error = ApiError::new(400, reason);
                    let response = api_error.response(self.config.flavour);
                    self.respond(key, None, &response, Persistence::Close);
                    return;
                }
            }
        }
    }

    pub(super) fn answer(&mut self, key: u64, request: &HttpRequest) {
        let now = self.clock.now();
        let number = self.requests;
        let is_generation = request.method == "POST";
        if is_generation {
            self.requests += 1;
            if self.config.faults.die_after_requests.is_some_and(|limit| self.requests > limit) {
                self.is_dying = true;
                return;
            }
        }
        let reply = match self.injected_error(request, number) {
            Some(reply) => reply,
            None => self.route(request, number),
        };
        match reply {
            Reply::Now(response) => self.respond(key, None, &response, request.persistence),
            Reply::ResetPrefixCache(response) => {
                if let Some(engine) = &mut self.engine {
                    engine.reset_prefix_cache();
                }
                self.respond(key, None, &response, request.persistence);
            }
            Reply::Events { headers, buffer } => {
                let Some(connection) = self.connections.get_mut(key) else { return };
                let text = head(200, &headers, BodyFraming::Chunked, request.persistence);
                connection.queue(text.as_bytes());
                connection.seal();
                connection.persistence = request.persistence;
                self.post(key, None, &buffer, Hex::Lower);
                self.finish_answer(key, None);
            }
            Reply::Later(ask, writer) => {
                let faults = &self.config.faults;
                let is_hit = faults.breaks(base::Seed(self.config.seed), number);
                let opening = OpeningStream {
                    number,
                    connection: key,
                    persistence: request.persistence,
                    arrived: now,
                    seed: base::Seed(self.config.seed),
                    answer: self.config.answer,
                    reasoning_tokens: self.config.reasoning_tokens,
                    malformed_after: faults.malformed_after_tokens.filter(|_| is_hit),
                    broken_after: faults.broken_after().filter(|_| is_hit),
                };
                self.open_stream(opening, &ask, writer, request);
            }
        }
    }

    fn injected_error(&self, request: &HttpRequest, number: u64) -> Option<Reply> {
        let errors = self.config.faults.errors.as_ref()?;
        let is_hit = errors.hits(base::Seed(self.config.seed), number);
        if request.method != "POST" || !is_hit {
            return None;
        }
        let message = match errors.status {
            401 => "Invalid API key",
            404 => "No such model or route",
            429 => "Too many requests",
            _ => "Injected engine error",
        };
        let api_error = ApiError::new(errors.status, message);
        let mut reply =
            refuse(self.config.flavour, &request.path, &api_error, AnswerDelivery::Whole);
        if let (Reply::Now(response), Some(seconds)) = (&mut reply, errors.retry_after_s) {
            response.headers.push(("retry-after", seconds.to_string()));
        }
        Some(reply)
    }

    pub(super) fn route(&mut self, request: &HttpRequest, number: u64) -> Reply {
        if let Some(engine) = &self.engine {
            self.snapshot.load = engine.load();
            self.snapshot.counters = engine.counters();
        } else {
            // With a fixed pace no request waits: every open stream is active.
            self.snapshot.load.running = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        }
        let made_id = || format!("{:016x}", scramble(self.config.seed ^ scramble(number)));
        let request_id = request.request_id.clone().unwrap_or_else(made_id);
        let max_model_len = match &self.config.pace {
            TokenTiming::Engine(profile) => profile.max_model_len,
            TokenTiming::Fixed { .. } | TokenTiming::Flood { .. } => 1 << 20,
        };
        let wall = self.clock.wall();
        let mut context = RequestContext {
            config: &self.config,
            vocabulary: &mut self.vocabulary,
            max_model_len,
            created: wall.0 / 1_000_000_000,
            request_id,
            snapshot: &self.snapshot,
        };
        route(&mut context, request)
    }

    /// Sends a whole answer; `last` is its entry in the truth log, if it has one.
    pub(super) fn respond(
        &mut self,
        key: u64,
        last: Option<LastEvent>,
        response: &Response,
        persistence: Persistence,
    ) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let framing = BodyFraming::Length(response.body.len());
        let text = head(response.status, &response.headers, framing, persistence);
        connection.queue(text.as_bytes());
        connection.queue(&response.body);
        if let Some(last) = last.filter(|_| self.truth.is_some()) {
            connection.note_last(last, SentKind::Whole);
        }
        connection.seal();
        connection.persistence = persistence;
        connection.end_answer(self.clock.now());
        self.flush(key);
    }

    fn open_stream(
        &mut self,
        opening: OpeningStream,
        ask: &EngineRequest,
        writer: Box<dyn AnswerWriter>,
        request: &HttpRequest,
    ) {
        let mut stream = ResponseStream::new(opening, ask, writer);
        if matches!(&self.config.pace, TokenTiming::Engine(profile) if profile.front_end.eos_step) {
            stream.expect_end_token();
        }
        let (answer_tokens, seed) = (stream.answer_tokens, stream.seed());
        let connection_key = opening.connection;
        let key = self.streams.insert(stream);
        let Some(connection) = self.connections.get_mut(connection_key) else { return };
        connection.stream = Some(key);
        if let Some(log) = &mut self.truth {
            let fact = TrueRequest {
                stream: opening.number,
                connection: connection.number,
                peer_port: connection.peer_port,
                nth: connection.served,
                first_byte: connection.first_byte.unwrap_or(opening.arrived),
                complete: opening.arrived,
                prompt_tokens: u32::try_from(ask.prompt.len()).unwrap_or(u32::MAX),
                answer_tokens,
                request_id: request.request_id.clone(),
                path: request.path.clone(),
                events: Vec::new(),
                end: None,
            };
            log.push(Fact::Request(Box::new(fact)));
        }
        if let Some(delay) = self.config.faults.first_byte_delay {
            self.hold(connection_key, opening.arrived + delay);
        }
        let waits_for_token = self.config.faults.packets == PacketFault::TightStart;
        if ask.delivery == AnswerDelivery::Streamed && !waits_for_token {
            self.send_head(key);
        }
        if let Some(interval) = self.config.faults.comment_interval {
            self.timers.set(opening.arrived + interval, Alarm::Comment(key));
        }
        self.schedule(key, opening.arrived, ask, seed);
    }

    pub(super) fn schedule(&mut self, key: u64, now: Nanos, ask: &EngineRequest, seed: u64) {
        match &self.config.pace {
            TokenTiming::Fixed { ttft, .. } => self.timers.set(now + *ttft, Alarm::Token(key)),
            TokenTiming::Flood { .. } => self.ready.push(key),
            TokenTiming::Engine(profile) => {
                let front_end = &profile.front_end;
                let serial = Nanos::from_millis_f64(front_end.serial_ms);
                let arrival = Nanos::from_millis_f64(front_end.arrival_ms);
                let at = (now + arrival).max(self.last_arrival + serial);
                self.last_arrival = at;
                let job = self.job(profile, key, ask, seed);
                if let Some(stream) = self.streams.get_mut(key) {
                    stream.job = Some(Box::new(job));
                }
                self.timers.set(at, Alarm::Arrival(key));
            }
        }
    }

    fn job(&self, profile: &Profile, key: u64, ask: &EngineRequest, seed: u64) -> Job {
        let stream = self.streams.get(key);
        let (answer_tokens, output_tokens) =
            stream.map_or((1, 1), |stream| (stream.answer_tokens, stream.engine_tokens()));
        let block_tokens = profile.kv.as_ref().map_or(16, |kv| kv.block_tokens);
        let answer = self.vocabulary.answer_hashes(seed, answer_tokens);
        Job {
            id: key,
            prompt_tokens: u32::try_from(ask.prompt.len()).unwrap_or(u32::MAX),
            output_tokens,
            output_limit: ask.length.limit,
            block_hashes: block_hashes(ask.prompt.iter().copied().chain(answer), block_tokens),
            priority: ask.priority,
            lora: ask.lora,
            has_kv: false,
        }
    }
}
