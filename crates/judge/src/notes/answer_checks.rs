//! The checks of the table that look at how answers came and what they hold.

use tokometer_base::units::counted;

use super::checks::share;
use super::note::CheckInput;

type Found = Option<String>;

pub(super) fn compressed_stream(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let answers = evidence.health?.compressed_answers;
    (answers > 0).then(|| format!("the server compressed {answers} answers"))
}

pub(super) fn hidden_reasoning(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let hidden = evidence.summary.figure("hidden_tokens")?;
    (hidden > 0.0).then(|| format!("{hidden:.0} reasoning tokens were counted but not streamed"))
}

pub(super) fn tokens_after_text(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let tails = evidence.observed.tails;
    let succeeded = evidence.summary.counts.succeeded;
    (tails.share() > limit).then(|| {
        let mean_ms = tails.after_text.as_secs_f64() * 1e3 / tails.answers.max(1) as f64;
        format!(
            "{} of {succeeded} answers went on without text after their last text, for {mean_ms:.0} ms on average",
            tails.answers
        )
    })
}

pub(super) fn several_choices(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let answers = evidence.observed.several_choices;
    (answers > 0).then(|| format!("{} had more than one choice", counted(answers, "answer")))
}

pub(super) fn unstreamed_answers(evidence: &CheckInput<'_>, limit: f64) -> Found {
    let (all, whole) = (evidence.observed.several_tokens, evidence.observed.unstreamed);
    (evidence.info.is_streamed() && share(whole, all) > limit)
        .then(|| format!("{whole} of {all} answers of several tokens came in one event"))
}

pub(super) fn open_bodies(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let (open, sent) = (evidence.observed.open_bodies, evidence.summary.counts.sent);
    (open > 0).then(|| format!("the server left the body of {open} of {sent} responses open"))
}

pub(super) fn canary_failed(evidence: &CheckInput<'_>, _limit: f64) -> Found {
    let canaries = evidence.summary.canaries.as_ref()?;
    let failed = canaries.sent - canaries.as_expected;
    let first = canaries.faults.first()?;
    (failed > 0).then(|| {
        format!(
            "{failed} of {} canaries were not answered as expected; canary {}: `{}`",
            canaries.sent, first.canary, first.answer
        )
    })
}
