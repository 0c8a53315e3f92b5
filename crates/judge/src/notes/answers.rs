//! Notes about how answers came and what they hold.

use super::NoteCode;
use super::about::{ALL, CONCURRENCY, E2E, TPOT, TTFT};
use super::note::{Found, share};
use super::rule::NoteJudgement::{Remark, Suspect};
use super::rule::NoteRule;
use crate::effects::Effects;
use tokometer_base::units::counted;
use tokometer_figures::Unjudged;

pub(super) static ANSWERS: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::UnstreamedAnswers,
        severity: Suspect,
        about: TTFT,
        limit: 0.5,
        threshold: "more than {} % of the answers of several tokens came in one event, though the requests ask for a stream",
        why: "the server or a proxy sent each answer whole: TTFT is the time of the whole answer, and TPOT is absent",
        action: "enable streaming on the server or proxy, or use --disable-stream and read E2E",
        check: unstreamed_answers,
    },
    NoteRule {
        code: NoteCode::HiddenReasoning,
        severity: Remark,
        about: TPOT,
        limit: 0.0,
        threshold: "the server counted reasoning tokens that it did not stream",
        why: "they count in throughput but not in TPOT, and TTFT includes the time to generate them",
        action: "configure the server to stream its reasoning",
        check: hidden_reasoning,
    },
    NoteRule {
        code: NoteCode::TokensAfterText,
        severity: Suspect,
        about: E2E,
        limit: 0.01,
        threshold: "answers went on with two or more tokens without text after their last text, for more than {} % of the time until it",
        why: "E2E and TPOT end at the last text; the server worked on, and these tokens count in throughput",
        action: "use end_of_stream_ms for the whole answer, or omit --ignore-eos so that answers end with their end token",
        check: tokens_after_text,
    },
    NoteRule {
        code: NoteCode::TokensOutsideTpot,
        severity: Suspect,
        about: TPOT,
        limit: 0.05,
        threshold: "mean TPOT may be more than {} % too short, by what the streams show: several tokens in a first event, events without text outside of the text, a summary instead of the reasoning",
        why: "TPOT counts one token for a first event that states none, and all tokens that the server counted: those that did not come between the first and the last content make it shorter",
        action: "let the server state the tokens of its events (token ids or continuous usage), or compare TPOT only between runs of the same server",
        check: tokens_outside_tpot,
    },
    NoteRule {
        code: NoteCode::SeveralChoices,
        severity: Remark,
        about: TPOT,
        limit: 0.0,
        threshold: "answers had more than one choice (`n` in the body)",
        why: "token totals contain all choices; times, ITL and text are those of the first, and TPOT is known only if events report their tokens",
        action: "compare only with runs that have the same `n`",
        check: several_choices,
    },
    NoteRule {
        code: NoteCode::OpenBodies,
        severity: Remark,
        about: CONCURRENCY,
        limit: 0.0,
        threshold: "the server sent nothing for 250 ms after the end marker of a response, such as `[DONE]`, and did not end its body",
        why: "the client waits that long before it sends the next request of the slot, on a new connection: throughput of a closed loop is lower",
        action: "end the body with the last event: a final chunk, or a closed connection",
        check: open_bodies,
    },
    NoteRule {
        code: NoteCode::CanaryFailed,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "a canary was not answered as expected",
        why: "the server answers fast but not correctly: weights, chat template, quantization or a kernel may be at fault",
        action: "compare the answer with that of a server that is known to be correct; `canaries.faults` in the JSON has the answers",
        check: canary_failed,
    },
];

fn unstreamed_answers(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let (all, whole) = (run.observed.several_tokens, run.observed.unstreamed);
    (run.info.is_streamed() && share(whole, all) > limit)
        .then(|| format!("{whole} of {all} answers of several tokens came in one event"))
}

fn hidden_reasoning(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let hidden = run.summary.figure("hidden_tokens")?;
    (hidden > 0.0).then(|| format!("{hidden:.0} reasoning tokens were counted but not streamed"))
}

fn tokens_after_text(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let tails = run.observed.tails;
    let succeeded = run.summary.counts.succeeded;
    (tails.share() > limit).then(|| {
        let mean_ms = tails.after_text.as_secs_f64() * 1e3 / tails.answers.max(1) as f64;
        format!(
            "{} of {succeeded} answers went on without text after their last text, for {mean_ms:.0} ms on average",
            tails.answers
        )
    })
}

fn tokens_outside_tpot(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let sums = run.observed.tpot;
    (sums.effect() > limit).then(|| {
        let mean_ms = |sum: f64| sum / sums.answers.max(1) as f64 / 1e6;
        let (defined, likely) = (mean_ms(sums.defined), mean_ms(sums.likely));
        format!("mean TPOT is {defined:.2} ms, and {likely:.2} ms without tokens that seem to have come outside of it")
    })
}

fn several_choices(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let answers = run.observed.several_choices;
    (answers > 0).then(|| format!("{} had more than one choice", counted(answers, "answer")))
}

fn open_bodies(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let (open, sent) = (run.observed.open_bodies, run.summary.counts.sent);
    (open > 0).then(|| format!("the server left the body of {open} of {sent} responses open"))
}

fn canary_failed(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let canaries = run.summary.canaries.as_ref()?;
    let failed = canaries.sent - canaries.as_expected;
    let first = canaries.faults.first()?;
    (failed > 0).then(|| {
        format!(
            "{failed} of {} canaries were not answered as expected; canary {}: `{}`",
            canaries.sent, first.canary, first.answer
        )
    })
}
