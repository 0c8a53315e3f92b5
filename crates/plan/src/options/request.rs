//! What a request's body says besides its prompt.

use super::Group;
use super::row::Kind::{Count, Number, Object, Path, Signed, SignedNumber, Text};
use super::row::{Holds, option, other, switch};

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Sampling and body", rows: &[
        option("temperature", "TEMPERATURE", Number, "Sampling temperature [default: not sent; SGLang's conventions: 0]")
            .sets("request.sampling.temperature").known("PRS"),
        option("top-p", "TOP_P", Number, "Nucleus sampling: total probability of the tokens to sample from")
            .sets("request.sampling.top_p").known("PRS"),
        option("top-k", "TOP_K", Signed, "Sample only from this number of most likely tokens")
            .sets("request.sampling.top_k").known("PR"),
        option("min-p", "MIN_P", Number, "Minimum probability of a token, relative to the most likely one")
            .sets("request.sampling.min_p").known("PR"),
        option("frequency-penalty", "FREQUENCY_PENALTY", SignedNumber, "Penalty on frequent tokens")
            .sets("request.sampling.frequency_penalty").known("PR"),
        option("presence-penalty", "PRESENCE_PENALTY", SignedNumber, "Penalty on tokens already present")
            .sets("request.sampling.presence_penalty").known("PR"),
        option("repetition-penalty", "REPETITION_PENALTY", Number, "Penalty on repetition")
            .sets("request.sampling.repetition_penalty").known("PR"),
        switch("return-logprob", "0", "Request log probabilities (SGLang)")
            .sets("request.logprobs").known("S"),
        option("top-logprobs-num", "N", Count, "Number of top log probabilities per token (SGLang) [default: 0]")
            .sets("request.logprobs").only_with(&["return-logprob"]).known("S"),
        option("logprobs", "N", Count, "Number of log probabilities per token")
            .sets("request.logprobs").known("PRO"),
        option("logprob-start-len", "N", Signed, "Position from which log probabilities are returned (SGLang) [default: -1]")
            .sets("request.extra_body.logprob_start_len").known("S"),
        switch("ignore-eos", "asked", "Generate exactly the requested output length: ignore EOS")
            .sets("request.ignore_eos").replaces("disable-ignore-eos").known("PRO"),
        switch("disable-ignore-eos", "off", "Allow the output to end at EOS")
            .sets("request.ignore_eos").replaces("ignore-eos").known("S"),
        switch("disable-stream", "whole", "Request whole responses instead of streams")
            .sets("request.delivery").known("S"),
        switch("continuous-usage", "continuous", "Request token counts with every event: exact, but more work for the server")
            .sets("request.usage"),
        option("structured", "FILE", Path, "Constrain the answers: a file with a JSON schema, or {\"regex\": …}, {\"choice\": […]}, {\"grammar\": …}")
            .path(|to| &mut to.files.structured),
        option("tools", "FILE", Path, "File with tool definitions that are sent with every request")
            .path(|to| &mut to.files.tools),
        option("tool-choice", "CHOICE", Text, "Whether the model must call a tool: auto, none, required, or a tool's name")
            .text(|to| &mut to.files.tool_choice).needs(&["tools"]),
        option("canary", "FILE", Path, "Prompts with known answers to send beside the load: JSON lines with `prompt` or `messages`, and `expected` or `regex`")
            .path(|to| &mut to.files.canary),
        option("canary-share", "SHARE", Number, "Canaries per request of the load [default: 0.02]")
            .sets("canary.share").needs(&["canary"]).most(1.0),
        option("extra-body", "JSON", Object, "JSON object merged into every request body")
            .sets("request.extra_body").holds(Holds::Json).known("PR")
            .also(&[other("extra-request-body", "S")]),
        option("request-id-prefix", "TEXT", Text, "Prefix of every x-request-id")
            .sets("request.request_id_prefix").known("PR"),
    ]},
];
