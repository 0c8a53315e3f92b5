//! Which server is measured, and the plan that says so.

use serde_json::{Value, json};
use tokometer_base::{Nanos, units};
use tokometer_client::ApiKey;
use tokometer_client::conn::NamedAddresses;

use super::row::Kind::{
    Choice, Count, Number, Optional, Pairs, Parsed, Path, Repeated, Seconds, Text, Texts,
};
use super::row::{Holds, option, other, switch};
use super::{Fragment, Group, number};
use crate::Address;

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Plan", rows: &[
        option("plan", "FILE", Path, "Plan file (TOML or JSON; `-`: standard input), or the plan.json of a run; flags override it")
            .path(|to| &mut to.plan).per_command(),
        switch("print-plan", "", "Print the plan with the origin of each value, and exit")
            .flag(|to| &mut to.print_plan).per_command(),
    ]},
    Group { title: "Target", rows: &[
        option("backend", "NAME", Text, "Server protocol; the name also selects --conventions [default: openai; for a URL: openai-chat]")
            .text(|to| &mut to.backend).known("PRSO")
            .remark("a name that vLLM and SGLang share means vLLM's; `vllm-chat` is SGLang's; see `--conventions`")
            .also(&[other("endpoint-type", "P")]),
        option("base-url", "URL", Parsed(address), "Address of the server: http://HOST:PORT or unix:/PATH")
            .sets("targets.0.address").holds(Holds::Url).known("PRSO"),
        option("host", "HOST", Text, "Host of the server, instead of --base-url")
            .text(|to| &mut to.host).holds(Holds::Url).known("PRSO"),
        option("port", "PORT", Count, "Port of the server, instead of --base-url")
            .put(|to, port| number(port).map(|port| to.port = Some(port))).known("PRSO"),
        option("endpoint", "PATH", Text, "Path of the measured endpoint [default: depends on the backend]")
            .sets("targets.0.endpoint").holds(Holds::Url).known("PRO")
            .remark("chosen by the backend when absent"),
        option("model", "NAME", Text, "Model name [default: the first one the server lists]")
            .sets("targets.0.model").known("PRSO"),
        option("served-model-name", "NAME", Text, "Model name to send to the server, if it differs from --model")
            .sets("targets.0.served_model_name").known("PRSO"),
        option("sim", "PROFILE", Optional("default", simulator), "Measure the embedded simulated server, with this engine profile")
            .sets("targets.0.address").without(&["base-url"]),
        option("conventions", "TOOL", Choice(&["vllm", "sglang"]), "Whose definitions and defaults apply where vLLM and SGLang differ: prompts, arrivals, connections [default: sglang with --backend sglang…, vllm-chat, vllm-embedding, lmdeploy-chat, trt and truss; vllm with all others]")
            .sets("conventions"),
        switch("skip-tokenizer-init", "cl100k", "Count prompt tokens with the built-in encoding instead of the model's tokenizer")
            .sets("prompts.tokenizer").known("PR")
            .remark("prompt tokens are then counted with the built-in encoding"),
        option("tokenizer", "NAME|FILE", Text, "Tokenizer: a tokenizer.json, a model folder, a hub id or a built-in encoding")
            .sets("prompts.tokenizer").known("PRSO"),
        option("api-key", "KEY", Text, "API key to send; other users of this machine may see it, so prefer --api-key-file")
            .put(|to, key| api_key(key).map(|key| to.api_key = Some(key)))
            .without(&["api-key-file"]).holds(Holds::Key),
        option("api-key-file", "FILE", Path, "File that contains the API key to send [default: the variable `OPENAI_API_KEY`]")
            .path(|to| &mut to.api_key_file),
        option("header", "NAME=VALUE", Pairs, "Extra headers, NAME=VALUE")
            .sets("targets.0.headers").holds(Holds::Header).known("PRS"),
        option("ca-cert", "FILE", Parsed(|file| Ok(json!({ "file": file }))), "File with additional trusted certificates, in PEM format")
            .sets("targets.0.trust"),
        switch("insecure", "anybody", "Accept any TLS certificate")
            .sets("targets.0.trust").known("PR"),
        option("client-cert", "FILE", Parsed(|file| Ok(json!({ "certificate": file }))), "Client certificate to show to the server, in PEM format")
            .sets("targets.0.identity"),
        option("client-key", "FILE", Path, "Private key of --client-cert, in PEM format [default: in the same file]")
            .put(client_key).needs(&["client-cert"]),
        option("resolve", "HOST:PORT:ADDRESS[,ADDRESS]", Repeated(named_addresses), "Use these addresses for a host and port instead of asking a name server")
            .sets("targets.0.resolve"),
        switch("no-proxy", "never", "Ignore proxies named by environment variables such as `HTTP_PROXY`")
            .sets("targets.0.proxy"),
        option("ready-check-timeout-sec", "SECONDS", Seconds, "Seconds to wait for the server to become ready")
            .sets("phases.ready_timeout_s").defaults("0", "60").known("PRS")
            .remark("with vLLM's conventions the first prompt is sent, with SGLang's the model list is requested"),
        option("lora-modules", "NAME", Texts, "LoRA adapters to distribute the requests over: a class for each")
            .put(|to, name| { to.lora.names.push(name.to_owned()); Ok(()) }).without(&["class"])
            .known("PRO").also(&[other("lora-name", "S")]),
        option("lora-assignment", "HOW", Choice(&["random", "round-robin"]), "How LoRA adapters are assigned to requests")
            .text(|to| &mut to.lora.assignment).needs(&["lora-modules"]).known("PR"),
        option("lora-request-distribution", "HOW", Choice(&["uniform", "distinct", "skewed"]), "How LoRA adapters are assigned to requests, as in SGLang's `bench_serving`")
            .text(|to| &mut to.lora.assignment).needs(&["lora-modules"]).known("S"),
        option("lora-zipf-alpha", "ALPHA", Number, "Zipf exponent of the skewed assignment [default: 1.5]")
            .text(|to| &mut to.lora.alpha).needs(&["lora-modules"]).known("S"),
        switch("flush-cache", "flush", "Flush the server's prefix cache after the warm-up and before each point of a sweep")
            .sets("phases.cache").known("S").also(&[other("reset-prefix-cache", "R")]),
        option("flush-cache-timeout", "SECONDS", Seconds, "Timeout of the flush in seconds")
            .sets("phases.flush_timeout_s").default("60").known("S"),
        switch("profile", "on", "Run the server's profiler during the measured phase")
            .sets("phases.profiler").known("PRSO"),
        option("profile-activities", "NAME", Texts, "Activities to profile [default with SGLang's conventions: CPU GPU]")
            .sets("phases.profile_request.activities").known("S"),
        option("profile-start-step", "N", Count, "Server step at which the profiler starts")
            .sets("phases.profile_request.start_step").known("S"),
        option("profile-num-steps", "N", Count, "Number of steps to profile")
            .sets("phases.profile_request.num_steps").known("S")
            .also(&[other("profile-steps", "S")]),
        switch("profile-by-stage", "true", "Profile prefill and decode separately")
            .sets("phases.profile_request.profile_by_stage").known("S"),
        option("profile-stages", "NAME", Texts, "Stages to profile")
            .sets("phases.profile_request.profile_stages").known("S"),
        option("profile-output-dir", "DIR", Text, "Folder on the server for the profiles")
            .sets("phases.profile_request.output_dir").known("S"),
        option("profile-prefix", "TEXT", Text, "Prefix of the names of the profile files")
            .sets("phases.profile_request.profile_prefix").known("S"),
    ]},
    Group { title: "Comparison", rows: &[
        option("against", "URL", Parsed(address), "Address of a second server; blocks of requests alternate between the two, in random order within pairs")
            .sets("targets.1.address").holds(Holds::Url).per_command(),
        option("block", "N|TIME", Text, "Length of a block: a number of requests, or a time at a finite rate [default: 20 pairs of blocks]")
            .put(block).needs(&["against", "switch-command"]).per_command(),
        option("switch-command", "COMMAND", Text, "Command run with the argument `a` or `b` before each change of side and every two pairs, to restart one server")
            .sets("interleave.switch_command").holds(Holds::Command).per_command(),
    ]},
];

/// An address as typed: written, it would lose what may be secret in it.
fn address(text: &str) -> Result<Value, String> {
    match text.parse::<Address>() {
        Ok(_checked) => Ok(Value::from(text)),
        Err(tokometer_client::Error::Address { reason, .. }) => Err(reason.to_owned()),
        Err(why) => Err(why.to_string()),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is a parser like others")]
fn simulator(profile: &str) -> Result<Value, String> {
    Ok(Value::from(format!("simulator:{profile}")))
}

fn named_addresses(text: &str) -> Result<Value, String> {
    let _checked: NamedAddresses = text.parse()?;
    Ok(Value::from(text))
}

/// An API key; nothing prints it.
pub fn api_key(text: &str) -> Result<ApiKey, String> {
    let is_sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || !is_sendable {
        return Err("a key has no spaces, line breaks or control characters".to_owned());
    }
    Ok(ApiKey::Bearer(text.to_owned()))
}

fn client_key(to: &mut Fragment, file: &str) -> Result<(), String> {
    let identity =
        to.part.targets.first_mut().and_then(|target| target.identity.as_mut()?.as_mut());
    identity.ok_or("it needs a certificate")?.key = Some(file.into());
    Ok(())
}

fn block(to: &mut Fragment, text: &str) -> Result<(), String> {
    let turns = to.part.interleave.get_or_insert_default();
    if let Ok(requests) = text.parse() {
        turns.block_requests = Some(requests);
        return Ok(());
    }
    let span = units::parse_span(text, Nanos::from_secs(1))
        .map_err(|why| format!("{why}; write requests or a time, such as `50` or `10s`"))?;
    turns.block_s = Some(Some(span.as_secs_f64()));
    Ok(())
}
