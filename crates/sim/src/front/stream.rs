//! One answer in progress: its content, its position, and its injected faults.

use std::ops::Range;

use base::seed::{Generator, normal, unit_float};
use base::{Nanos, Seed};
use tokometer_base as base;

use crate::config::AnswerLength;
use crate::engine::Job;
use crate::faults::{DoneFault, Faults, UsageFault};
use crate::http::Persistence;
use crate::truth::SentKind;
use crate::vocabulary::{Vocabulary, scramble};
use crate::wire::{
    AnswerDelivery, AnswerEnd, AnswerPiece, AnswerWriter, EngineRequest, EventBuffer, LengthBounds,
    PieceKind, Reason, ReportedUsage, Response,
};

pub(super) struct ResponseStream {
    pub(super) opening: OpeningStream,
    pub(super) writer: Box<dyn AnswerWriter>,
    pub(super) delivery: AnswerDelivery,
    /// What its words are drawn from.
    seed: u64,
    /// Its tokens, where the request constrains them.
    constrained: Option<Vec<String>>,
    pub(super) prompt_tokens: u32,
    /// Of the prompt; `None` until it is admitted, and where they are not reported.
    pub(super) cached_tokens: Option<u32>,
    pub(super) answer_tokens: u32,
    /// Those of them that are reasoning, ahead of the others.
    reasoning_tokens: u32,
    pub(super) sent_tokens: u32,
    /// Tokens that are ready but wait for the next event.
    withheld_tokens: u32,
    /// Whether a token without text is still to come.
    awaits_end_token: bool,
    /// Tokens without text that end the answer.
    end_tokens: u32,
    reason: Reason,
    first_token: Option<Nanos>,
    pub(super) has_head: bool,
    /// What the engine will be asked, until it has been.
    pub(super) job: Option<Box<Job>>,
    /// Draws whether an event waits for the next.
    generator: Generator,
}

pub(super) struct SendContext<'a> {
    pub(super) now: Nanos,
    pub(super) faults: &'a Faults,
    pub(super) vocabulary: &'a Vocabulary,
}

#[derive(Clone, Copy)]
pub(super) struct OpeningStream {
    pub(super) number: u64,
    pub(super) connection: u64,
    pub(super) persistence: Persistence,
    pub(super) arrived: Nanos,
    pub(super) seed: Seed,
    pub(super) answer: AnswerLength,
    pub(super) reasoning_tokens: u32,
    /// The token after which one event is not JSON.
    pub(super) malformed_after: Option<u32>,
    /// The token after which the connection is closed or reset.
    pub(super) broken_after: Option<u32>,
}

fn plan(length: LengthBounds, answer: AnswerLength, generator: &mut Generator) -> (u32, Reason) {
    if length.ignores_eos {
        return (length.limit, Reason::Length);
    }
    let drawn = answer.median_tokens * libm::exp(answer.sigma * normal(generator));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and the limit cuts what is too long"
    )]
    let drawn = (drawn as u32).max(length.least).max(1);
    if drawn < length.limit { (drawn, Reason::Stop) } else { (length.limit, Reason::Length) }
}

impl ResponseStream {
    pub(super) fn new(
        opening: OpeningStream,
        ask: &EngineRequest,
        writer: Box<dyn AnswerWriter>,
    ) -> Self {
        // The same prompt gets the same answer, whenever it comes.
        let content = ask.prompt.iter().fold(opening.seed.0, |hash, token| scramble(hash ^ token));
        let mut generator = Seed(content).stream("answer").at(0);
        let (answer_tokens, reason) = match &ask.constrained {
            // It ends by itself, whatever else the request says of its length.
            Some(pieces) => {
                let tokens = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
                let is_cut = tokens > ask.length.limit;
                let reason = if is_cut { Reason::Length } else { Reason::Stop };
                (tokens.min(ask.length.limit), reason)
            }
            None => plan(ask.length, opening.answer, &mut generator),
        };
        let can_reason = writer.can_reason() && ask.constrained.is_none();
        let reasoning_tokens = if can_reason { opening.reasoning_tokens } else { 0 };
        Self {
            writer,
            delivery: ask.delivery,
            seed: content,
            constrained: ask.constrained.clone(),
            prompt_tokens: u32::try_from(ask.prompt.len()).unwrap_or(u32::MAX),
            cached_tokens: None,
            answer_tokens,
            reasoning_tokens: reasoning_tokens.min(answer_tokens),
            sent_tokens: 0,
            withheld_tokens: 0,
            awaits_end_token: false,
            end_tokens: 0,
            reason,
            first_token: None,
            has_head: false,
            job: None,
            generator,
            opening,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason
    }

    pub(super) fn ttft(&self) -> Option<Nanos> {
        self.first_token.map(|first| first - self.opening.arrived)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.sent_tokens == self.answer_tokens && !self.awaits_end_token
    }

    /// Whether the connection is closed or reset now, so that the answer does not come to its end.
    pub(super) fn is_broken_off(&self) -> bool {
        self.opening.broken_after.is_some_and(|after| self.sent_tokens >= after)
    }

    /// Makes an answer that ends by itself take one more step, whose token has no text.
    pub(super) fn expect_end_token(&mut self) {
        self.awaits_end_token = self.reason == Reason::Stop;
        self.end_tokens = u32::from(self.awaits_end_token);
    }

    pub(super) fn engine_tokens(&self) -> u32 {
        self.answer_tokens + u32::from(self.awaits_end_token)
    }

    /// Keeps tokens back for the next event with the given probability, never the first or the last.
    pub(super) fn holds_back(&mut self, tokens: u32, probability: f64) -> bool {
        let ready = self.sent_tokens + self.withheld_tokens + tokens;
        if probability <= 0.0 || self.sent_tokens == 0 || ready >= self.answer_tokens {
            return false;
        }
        let is_held = unit_float(&mut self.generator) < probability;
        if is_held {
            self.withheld_tokens += tokens;
        }
        is_held
    }

    fn usage(&self, faults: &Faults) -> Option<ReportedUsage> {
        let honest = ReportedUsage {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.sent_tokens,
            cached_tokens: self.cached_tokens,
        };
        match faults.usage {
            UsageFault::Honest => Some(honest),
            UsageFault::Wrong => Some(ReportedUsage {
                completion_tokens: 2 * honest.completion_tokens + 1,
                ..honest
            }),
            UsageFault::Missing => None,
        }
    }

    /// Writes the events of the next `tokens` tokens, and those of the end after the last.
    pub(super) fn write_tokens(
        &mut self,
        tokens: u32,
        context: &SendContext<'_>,
        buffer: &mut EventBuffer,
    ) {
        let (now, faults) = (context.now, context.faults);
        let tokens = tokens + std::mem::take(&mut self.withheld_tokens);
        let from = self.sent_tokens;
        self.awaits_end_token &= from < self.answer_tokens;
        self.sent_tokens = (from + tokens).min(self.answer_tokens);
        if self.first_token.is_none() {
            self.first_token = Some(now);
        }
        if self.delivery == AnswerDelivery::Streamed {
            self.write_range(from, context, buffer);
            if self.is_complete() && !self.is_broken_off() {
                let ending = self.ending(now, faults);
                self.writer.end(&ending, buffer);
                let is_announced =
                    buffer.marks.last().is_some_and(|mark| mark.kind == SentKind::Done);
                if is_announced && faults.done == DoneFault::Twice {
                    buffer.done();
                }
            }
        }
    }

    fn write_range(&mut self, from: u32, context: &SendContext<'_>, buffer: &mut EventBuffer) {
        if self
            .opening
            .malformed_after
            .is_some_and(|after| from < after && self.sent_tokens >= after)
        {
            buffer.put("data: {\"id\":\"cmpl-broken\",\"choices\":[{\"te").close(SentKind::Error);
        }
        let is_last = self.is_complete() && !self.is_broken_off();
        let last = is_last.then_some(self.reason);
        let (border, to) = (self.reasoning_tokens.clamp(from, self.sent_tokens), self.sent_tokens);
        if from < border && border < to {
            self.write_piece(PieceKind::Reasoning, from..border, None, context, buffer);
        }
        // The token that ends an answer has no text: it belongs to what came before it.
        let is_reasoning = border == to && to > 0 && (from < to || self.reasoning_tokens == to);
        if is_reasoning {
            self.write_piece(PieceKind::Reasoning, from..to, last, context, buffer);
        } else {
            self.write_piece(PieceKind::Answer, border..to, last, context, buffer);
        }
    }

    fn write_piece(
        &mut self,
        kind: PieceKind,
        range: Range<u32>,
        last: Option<Reason>,
        context: &SendContext<'_>,
        buffer: &mut EventBuffer,
    ) {
        let vocabulary = context.vocabulary;
        let ids: Vec<u32> = if self.writer.wants_ids() {
            range.clone().map(|at| vocabulary.id(self.seed, at)).collect()
        } else {
            Vec::new()
        };
        let tokens = range.end - range.start;
        let joined: String;
        let text = if tokens == 1 && self.constrained.is_none() {
            vocabulary.piece(self.seed, range.start)
        } else {
            joined = self.text(range, vocabulary);
            &joined
        };
        let usage = self.usage(context.faults).unwrap_or_default();
        let reasoning = "";
        let piece = AnswerPiece { kind, reasoning, text, ids: &ids, tokens, usage, last };
        self.writer.write_piece(&piece, buffer);
    }

    fn text(&self, tokens: Range<u32>, vocabulary: &Vocabulary) -> String {
        let of_constraint = |at: u32| {
            let pieces = self.constrained.as_ref()?;
            usize::try_from(at).ok().and_then(|at| pieces.get(at)).map(String::as_str)
        };
        tokens
            .map(|at| of_constraint(at).unwrap_or_else(|| vocabulary.piece(self.seed, at)))
            .collect()
    }

    fn ending(&self, now: Nanos, faults: &Faults) -> AnswerEnd {
        let first = self.first_token.unwrap_or(now);
        AnswerEnd {
            reason: self.reason,
            usage: self.usage(faults),
            first_token: first - self.opening.arrived,
            decoding: now - first,
            reasoning_tokens: self.reasoning_tokens,
            end_tokens: self.end_tokens,
        }
    }

    pub(super) fn whole(&mut self, context: &SendContext<'_>) -> Response {
        let (now, faults, vocabulary) = (context.now, context.faults, context.vocabulary);
        let all = 0..self.answer_tokens;
        let text = self.text(self.reasoning_tokens..self.answer_tokens, vocabulary);
        let reasoning = self.text(0..self.reasoning_tokens, vocabulary);
        let ids: Vec<u32> = if self.writer.wants_ids() {
            all.map(|at| vocabulary.id(self.seed, at)).collect()
        } else {
            Vec::new()
        };
        let (tokens, last) = (self.answer_tokens, Some(self.reason));
        let usage = self.usage(faults).unwrap_or_default();
        let (kind, text, ids) = (PieceKind::Answer, text.as_str(), ids.as_slice());
        let reasoning = reasoning.as_str();
        let piece = AnswerPiece { kind, reasoning, text, ids, tokens, usage, last };
        let ending = self.ending(now, faults);
        self.writer.whole(&piece, &ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_by_themselves_within_their_limits() {
        let draw = |length: LengthBounds, index: u64| {
            let mut generator = Seed(1).stream("test").at(index);
            plan(length, AnswerLength { median_tokens: 50.0, sigma: 0.5 }, &mut generator)
        };
        let fixed = LengthBounds { limit: 7, least: 0, ignores_eos: true };
        assert_eq!(draw(fixed, 0), (7, Reason::Length));
        let free = LengthBounds { limit: 60, least: 20, ignores_eos: false };
        let drawn: Vec<(u32, Reason)> = (0..200).map(|index| draw(free, index)).collect();
        assert!(drawn.iter().all(|(tokens, _)| (20..=60).contains(tokens)));
        let stops = drawn.iter().filter(|(_, reason)| *reason == Reason::Stop).count();
        // 64 % of the draws are below 60; 200 of them have a standard deviation of 7.
        assert!((90..170).contains(&stops), "{stops} of 200 stopped by themselves");
        assert!(
            drawn.iter().all(|(tokens, reason)| (*reason == Reason::Length) == (*tokens == 60))
        );
    }
}
