//! Notes about counts that disagree: of the server, of this client and of the tokenizer.

use super::super::checks;
use super::super::rule::NoteJudgement::{Remark, Suspect};
use super::super::rule::NoteRule;

pub(crate) static COUNTS: &[NoteRule] = &[
    NoteRule {
        code: "server-counted-less",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.02,
        threshold: "the server's token counter rose by over {} % less than this client counted",
        why: "the scraped server did not generate all counted tokens: a count is wrong, or a replica was not scraped",
        action: "pass every replica with --metrics-url",
        check: checks::server_counted_less,
    },
    NoteRule {
        code: "other-clients",
        severity: Suspect,
        figure: "all",
        limit: 0.05,
        threshold: "the server generated or held over {} % more than this client requested",
        why: "another client used the server during the run",
        action: "repeat the run on a server without other clients",
        check: checks::other_clients,
    },
    NoteRule {
        code: "text-disagrees",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.15,
        threshold: "the retokenized text differs from usage by more than {} %",
        why: "retokenizing is never exact, but at this difference the tokenizer is not the model's, or the server counts something else",
        action: "pass the model's own tokenizer; check whether reasoning is hidden",
        check: checks::text_disagrees,
    },
    NoteRule {
        code: "prompt-length",
        severity: Suspect,
        figure: "prompt_tokens",
        limit: 0.01,
        threshold: "usage.prompt_tokens differs from the planned length by more than {} % (without the chat template)",
        why: "the prompts do not have the requested length: the tokenizer differs, or the server adds special tokens",
        action: "pass the model's own tokenizer",
        check: checks::prompt_length,
    },
    NoteRule {
        code: "missing-usage",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "more than {} % of the answers have neither usage nor token ids",
        why: "their length is estimated from the text, or unknown",
        action: "enable usage in streams on the server, or pass the model's tokenizer",
        check: checks::missing_usage,
    },
    NoteRule {
        code: "usage-contradicts-stream",
        severity: Suspect,
        figure: "output_tokens",
        limit: 0.01,
        threshold: "more than {} % of the answers have more content events than usage has tokens (by more than 2 and 5 %), or usage only before the content",
        why: "each content event has at least one token: the server's count is wrong, and so are TPOT and throughput",
        action: "compare one answer by hand; update the server",
        check: checks::usage_contradicts,
    },
    NoteRule {
        code: "impossible-numbers",
        severity: Remark,
        figure: "all",
        limit: 0.0,
        threshold: "the server reported impossible numbers, such as a queue time longer than the request or more cached tokens than prompt tokens",
        why: "no figure includes them; the record has them",
        action: "report them to the server's developers",
        check: checks::impossible_numbers,
    },
];
