//! Notes about counts that disagree: of the server, of this client and of the tokenizer.

use super::NoteCode;
use super::about::{ALL, About, OUTPUT_TOKENS, PROMPT_TOKENS, TTFT};
use super::note::{Found, percent, share};
use super::rule::NoteJudgement::{Invalid, Remark, Suspect};
use super::rule::NoteRule;
use crate::effects::Effects;
use tokometer_base::IgnoreEos;
use tokometer_figures::Unjudged;
use tokometer_figures::observe::Pair;
use tokometer_record::RunInfo;

pub(super) static COUNTS: &[NoteRule] = &[
    NoteRule {
        code: NoteCode::TokenIdsDisagree,
        severity: Invalid,
        about: OUTPUT_TOKENS,
        limit: 0.01,
        threshold: "the token counts of the events differ from usage by more than {} %",
        why: "one of the two counts is wrong, and so are all per-token figures",
        action: "compare one answer (`--debug` shows it); update the server",
        check: events_disagree,
    },
    NoteRule {
        code: NoteCode::ServerCountedLess,
        severity: Suspect,
        about: OUTPUT_TOKENS,
        limit: 0.02,
        threshold: "the server's token counter rose by over {} % less than this client counted",
        why: "the scraped server did not generate all counted tokens: a count is wrong, or a replica was not scraped",
        action: "pass every replica with --metrics-url",
        check: server_counted_less,
    },
    NoteRule {
        code: NoteCode::TextDisagrees,
        severity: Suspect,
        about: OUTPUT_TOKENS,
        limit: 0.15,
        threshold: "the retokenized text differs from usage by more than {} %",
        why: "retokenizing is never exact, but at this difference the tokenizer is not the model's, or the server counts something else",
        action: "pass the model's own tokenizer; check whether reasoning is hidden",
        check: text_disagrees,
    },
    NoteRule {
        code: NoteCode::PromptLength,
        severity: Suspect,
        about: PROMPT_TOKENS,
        limit: 0.01,
        threshold: "usage.prompt_tokens differs from the planned length by more than {} % (without the chat template)",
        why: "the prompts do not have the requested length: the tokenizer differs, or the server adds special tokens",
        action: "pass the model's own tokenizer",
        check: prompt_length,
    },
    NoteRule {
        code: NoteCode::MissingUsage,
        severity: Suspect,
        about: OUTPUT_TOKENS,
        limit: 0.01,
        threshold: "more than {} % of the answers have neither usage nor token ids",
        why: "their length is estimated from the text, or unknown",
        action: "enable usage in streams on the server, or pass the model's tokenizer",
        check: missing_usage,
    },
    NoteRule {
        code: NoteCode::UsageContradictsStream,
        severity: Suspect,
        about: OUTPUT_TOKENS,
        limit: 0.01,
        threshold: "more than {} % of the answers have more content events than usage has tokens (by more than 2 and 5 %), or usage only before the content",
        why: "each content event has at least one token: the server's count is wrong, and so are TPOT and throughput",
        action: "compare one answer (`--debug` shows it); update the server",
        check: usage_contradicts,
    },
    NoteRule {
        code: NoteCode::ImpossibleNumbers,
        severity: Remark,
        about: ALL,
        limit: 0.0,
        threshold: "the server reported impossible numbers, such as a queue time longer than the request or more cached tokens than prompt tokens",
        why: "no figure includes them; the record has them",
        action: "report them to the server's developers",
        check: impossible_numbers,
    },
    NoteRule {
        code: NoteCode::WarmCache,
        severity: Suspect,
        about: TTFT,
        limit: 0.01,
        threshold: "at least {} % of the prompt tokens were prefix-cache hits beyond the chat template and the first special token, and the dataset promises prompts without a common prefix",
        why: "such prompts share no prefix unless they were sent before: TTFT is that of a warm cache",
        action: "omit --seed, or reset the server's prefix cache before the run",
        check: warm_cache,
    },
    NoteRule {
        code: NoteCode::AnswerLength,
        severity: Remark,
        about: OUTPUT_TOKENS,
        limit: 0.05,
        threshold: "answers were more than {} % shorter than requested, without --ignore-eos",
        why: "runs with different answer lengths are not comparable",
        action: "use --ignore-eos if the server supports it",
        check: answer_length,
    },
    NoteRule {
        code: NoteCode::EndedAnswers,
        severity: Remark,
        about: OUTPUT_TOKENS,
        limit: 0.05,
        threshold: "answers were more than {} % shorter than requested, with --ignore-eos",
        why: "the server ignores `ignore_eos`, or its context was full; runs with different answer lengths are not comparable",
        action: "compare prompt and answer lengths with the server's maximum context length",
        check: ended_answers,
    },
    NoteRule {
        code: NoteCode::HistoryDrift,
        severity: Remark,
        about: TTFT,
        limit: 0.01,
        threshold: "later turns repeat real answers, which were more than {} % shorter or longer than planned",
        why: "the prompts of later turns have other lengths than planned, by as much",
        action: "use --answers recorded for prompts of the planned lengths",
        check: history_drift,
    },
    NoteRule {
        code: NoteCode::ContextOverflow,
        severity: Remark,
        about: OUTPUT_TOKENS,
        limit: 0.0,
        threshold: "a turn did not fit into the context of --max-model-len",
        why: "such a turn is not cut: it ends its session, and its later turns count as not sent",
        action: "raise --max-model-len, or use a server with a longer context",
        check: context_overflow,
    },
    NoteRule {
        code: NoteCode::LongAnswers,
        severity: Suspect,
        about: About {
            key: "output_tokens",
            concerns: |shown, summary| {
                shown.metric.key.starts_with("e2e_") || (OUTPUT_TOKENS.concerns)(shown, summary)
            },
        },
        limit: 0.05,
        threshold: "answers were more than {} % longer than requested",
        why: "the server ignores the requested length: throughput and E2E are those of another workload",
        action: "pass the length in the server's own field, such as --extra-body '{\"max_tokens\": 128}'",
        check: long_answers,
    },
];

/// Datasets whose prompts have no common prefix, unless the plan asks for one.
const UNSHARED: [&str; 6] = ["random", "random-ids", "random-mm", "image", "burstgpt", "book"];
/// Tokens that every prompt of a tokenizer may begin with: a cache that compares token by token finds
/// them again.
const SPECIAL_TOKENS: u64 = 1;
/// Datasets whose planned prompt length is that of the text alone.
const WITH_MEDIA: [&str; 2] = ["random-mm", "image"];
/// Most tokens of a chat template. With media the surplus of a prompt is mostly theirs.
const TEMPLATE_MOST: u64 = 128;
fn events_disagree(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    disagreement(&run.observed.usage_and_events, limit, ["usage reports", "the events carry"])
}

fn server_counted_less(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    // A counter that was not scraped after the run, or was reset, covers only a part of it.
    let server = run.summary.server.as_ref().filter(|server| server.is_whole)?;
    let theirs = server.generation_tokens?;
    let ours = run.summary.figure("total_output_tokens").filter(|ours| *ours > 0.0)?;
    (theirs < ours * (1.0 - limit)).then(|| {
        format!("the server's counter rose by {theirs:.0} tokens, this client counted {ours:.0}")
    })
}

fn text_disagrees(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    disagreement(&run.observed.usage_and_text, limit, ["usage reports", "the retokenized text has"])
}

fn prompt_length(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let Pair { requests, left, right } = run.observed.prompt_lengths;
    let surplus = run.observed.least_surplus.unwrap_or(0).max(0).unsigned_abs();
    let counted = right.saturating_sub(surplus.saturating_mul(requests));
    if left == 0 || (counted as f64 / left as f64 - 1.0).abs() <= limit {
        return None;
    }
    let template = match surplus {
        0 => String::new(),
        tokens => format!(" plus {tokens} chat-template tokens per request"),
    };
    Some(format!("{left} prompt tokens were planned, the server counted {counted}{template}"))
}

fn missing_usage(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let seen = &run.observed;
    let from_text = seen.count_sources.get("retokenized").copied().unwrap_or(0);
    let succeeded = run.summary.counts.succeeded;
    (share(from_text + seen.uncounted, succeeded) > limit).then(|| {
        format!(
            "{from_text} of {succeeded} answers were counted from their text, {} could not be counted",
            seen.uncounted
        )
    })
}

fn usage_contradicts(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let (found, succeeded) = (run.observed.contradictions, run.summary.counts.succeeded);
    (share(found, succeeded) > limit)
        .then(|| format!("{found} of {succeeded} answers have more content events than tokens"))
}

fn impossible_numbers(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let of_answers = run.observed.ignored.iter();
    let of_answers = of_answers.map(|(name, answers)| format!("{name} of {answers} answers"));
    let server = run.summary.server.as_ref();
    let of_server = server.into_iter().flat_map(|server| server.ignored.iter().cloned());
    let all: Vec<String> = of_answers.chain(of_server).collect();
    (!all.is_empty()).then(|| format!("ignored: {}", all.join(", ")))
}

fn warm_cache(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    if !promises_unshared_prompts(&run.info) {
        return None;
    }
    let seen = &run.observed;
    // All prompts begin with the same part of the chat template.
    let surplus = seen.least_surplus.unwrap_or(0).max(0).unsigned_abs();
    let has_media = WITH_MEDIA.contains(&run.info.dataset.as_str());
    let template = if has_media { surplus.min(TEMPLATE_MOST) } else { surplus } + SPECIAL_TOKENS;
    let Pair { requests, left, right } = seen.cached;
    let unexplained = right.saturating_sub(template * requests);
    let of_all = |tokens: u64| tokens as f64 / left as f64;
    let reported =
        (left > 0).then(|| Hits { all: of_all(right), unexplained: of_all(unexplained) });
    let server = run.summary.server.as_ref().filter(|_| seen.later_turns == 0);
    let explained = share(template * seen.prompt_lengths.requests, seen.prompt_lengths.right);
    let scraped = server.and_then(|server| server.prefix_hit_share);
    let scraped = scraped.map(|all| Hits { all, unexplained: all - explained });
    let found = reported.or(scraped)?;
    (found.unexplained >= limit).then(|| {
        let template = if seen.least_surplus > Some(0) { "the chat template and " } else { "" };
        format!(
            "{} of the prompt tokens were prefix-cache hits, {} beyond {template}the first special token",
            percent(found.all),
            percent(found.unexplained)
        )
    })
}

/// Shares of the prompt tokens that were prefix-cache hits.
struct Hits {
    /// As the server's counters have it.
    all: f64,
    /// Those that no first special token and no chat template explains.
    unexplained: f64,
}

fn answer_length(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let lengths = &run.observed.answer_lengths;
    let is_meant = lengths.right < lengths.left && !is_eos_ignored(run);
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_meant)
}

fn ended_answers(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let lengths = &run.observed.answer_lengths;
    let is_meant = lengths.right < lengths.left && is_eos_ignored(run);
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_meant)
}

fn long_answers(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let lengths = &run.observed.answer_lengths;
    let is_longer = lengths.right > lengths.left;
    disagreement(lengths, limit, ["requested", "received"]).filter(|_| is_longer)
}

fn history_drift(run: &Unjudged, _: &Effects, limit: f64) -> Found {
    let answers = &run.observed.session_answers;
    disagreement(answers, limit, ["planned", "answered"]).filter(|_| run.observed.live_turns > 0)
}

fn context_overflow(run: &Unjudged, _: &Effects, _: f64) -> Found {
    let sessions = run.health.as_ref()?.overflows;
    (sessions > 0).then(|| format!("{sessions} sessions ended at the limit of the context"))
}

fn disagreement(pair: &Pair, limit: f64, names: [&str; 2]) -> Found {
    let difference = pair.difference()?;
    let Pair { requests, left, right } = pair;
    (difference.abs() > limit).then(|| {
        let [left_name, right_name] = names;
        format!("{left_name} {left} tokens, {right_name} {right}, over {requests} requests")
    })
}

fn is_eos_ignored(run: &Unjudged) -> bool {
    run.info.ignore_eos().is_some_and(|rule| rule != IgnoreEos::Off)
}

fn promises_unshared_prompts(info: &RunInfo) -> bool {
    UNSHARED.contains(&info.dataset.as_str())
        && !info.has_common_prefix()
        && !info.has_blank_images()
}
