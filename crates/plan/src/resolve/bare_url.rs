//! A server by its address alone: the route that an address may end in, and our own defaults.
//!
//! The other tools' flags keep the other tools' defaults. `tokometer URL` has its own: the chat route,
//! random prompts of a length that many servers accept (audio clips for a route that transcribes, a query with
//! documents for one that ranks), and a ready check, which reports a wrong key or
//! model before anything is measured. These values are weaker than the config file's, which are weaker than
//! the environment's and the flags'.

use super::origin::ValueOrigin;
use super::preset::Preset;
use crate::options::Fragment;
use tokometer_base::redact::hide_in_url;
use tokometer_base::{Backend, Conventions};
use tokometer_client::Dialect;
use tokometer_workload::Spec;

use tokometer_base::Refusal;

/// Tokens of a prompt and of its answer, unless the user says otherwise.
pub const PROMPT_LEN: (u64, u64) = (512, 128);
/// By which share both vary: requests of one length in a closed loop run in lock-step, which no traffic does.
const VARIED_BY: &str = "0.5";
/// Tokens of the longest request, as a multiple of the usual one.
const LONGEST: (u64, u64) = (3, 2);
/// What is sent, unless the route needs something else.
const RANDOM: &str = "random";
/// The backend, unless the server has no chat.
const BACKEND: &str = "openai-chat";
/// Tokens that a chat template may add.
const TEMPLATE: u64 = 100;
/// How long a server may take for the first prompt, in seconds.
const READY_S: &str = "30";

/// Ends of addresses that are no route of a backend by themselves, because a gateway has another prefix.
const SHORT_ROUTES: [(&str, &str); 4] = [
    ("/chat/completions", "openai-chat"),
    ("/completions", "openai"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
];

/// Takes a positional address: its server, and the route that it ends in.
pub fn put_address(args: &mut Fragment, url: &str) -> Result<(), Refusal> {
    if let Some(flag) = ["base-url", "host", "port", "sim"].into_iter().find(|flag| args.has(flag))
    {
        return Err(Refusal::usage(
            format!("cannot use `--{flag}` together with the address `{}`", hide_in_url(url)),
            "give one of them",
        ));
    }
    let Routed { base, backend, endpoint } = routed(url);
    args.add("base-url", &base).map_err(|why| {
        let message = why.message.replace(" for `--base-url`", " as an address");
        Refusal::usage(message, "`tokometer bench -h` shows what it takes")
    })?;
    if args.has("endpoint") {
        return Ok(());
    }
    if let Some(endpoint) = endpoint {
        args.add("endpoint", &endpoint)?;
    }
    match backend.filter(|_| args.backend.is_none()) {
        Some(backend) => args.add("backend", backend),
        None => Ok(()),
    }
}

/// An address without the route at its end.
#[derive(Debug, PartialEq, Eq)]
struct Routed {
    base: String,
    /// The backend of the route; `None` without one.
    backend: Option<&'static str>,
    endpoint: Option<String>,
}

fn routed(url: &str) -> Routed {
    let (path, query) =
        url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    let rebuilt = |base: &str| match query {
        Some(query) => format!("{base}?{query}"),
        None => base.to_owned(),
    };
    let own = Dialect::names().filter_map(Dialect::named).map(|one| (one.path(), one.name()));
    for (route, backend) in own.chain(SHORT_ROUTES) {
        let base = path.strip_suffix(route).filter(|base| !base.ends_with(['/', ':']));
        if let Some(base) = base.filter(|base| !base.is_empty()) {
            let endpoint = Some(route.to_owned());
            return Routed { base: rebuilt(base), backend: Some(backend), endpoint };
        }
    }
    // The list of models is what people open in a browser.
    let base = path.strip_suffix("/models").unwrap_or(path);
    Routed { base: rebuilt(base), backend: None, endpoint: None }
}

/// The flag that says when requests are sent, or how many; `None`: there is none.
pub fn load_flag(args: &Fragment) -> Option<&'static str> {
    let is_traced = args.part.workload.dataset.as_deref().is_some_and(|name| {
        Spec::defaults(name, Conventions::Vllm).is_some_and(|spec| spec.is_traced())
    });
    let flags = LOAD_FLAGS.iter().copied();
    flags.chain(is_traced.then_some("dataset-name")).find(|flag| args.has(flag))
}

/// Flags that say when requests are sent, how many, or how long.
const LOAD_FLAGS: [&str; 15] = [
    "stages",
    "trace",
    "max-sessions",
    "request-rate",
    "max-concurrency",
    "ramp-up-strategy",
    "ramp-up-start-rps",
    "ramp-up-end-rps",
    "num-prompts",
    "duration",
    "until",
    "multi-turn-concurrency",
    "plan",
    "against",
    "switch-command",
];

/// What the server may still change of our defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenChoices {
    pub backend: bool,
    pub lengths: bool,
}

/// Our own values for a server by its address, weaker than any flag and any preset.
#[derive(Debug, Clone, Default)]
pub struct OwnDefaults {
    pub fragment: Fragment,
    pub open: OpenChoices,
}

impl OwnDefaults {
    /// The values below these flags and presets. What depends on what they leave unsaid stays unsaid as
    /// well: a dataset has lengths of its own, and the conventions of a tool a backend.
    pub fn below(layers: &[&Fragment]) -> Self {
        let says = |flags: &[&str]| layers.iter().any(|args| args.has_any(flags));
        let mut own = Self::default();
        if says(&["plan"]) {
            return own;
        }
        if !layers.iter().any(|args| args.backend.is_some() || args.has("conventions")) {
            own.open.backend = true;
            own.put("backend", BACKEND);
        }
        own.put("ready-check-timeout-sec", READY_S);
        if !says(&["dataset-name", "dataset-path", "trace"]) {
            let named = layers.iter().rev().find_map(|args| args.backend.as_deref());
            let dataset = dataset_for(named.and_then(Dialect::named));
            own.put("dataset-name", dataset);
            // Audio clips have lengths of their own, and ranking has no answer in tokens.
            let lengths = ["input-len", "output-len", "random-input-len", "random-output-len"];
            own.open.lengths = dataset == RANDOM && !says(&lengths);
            if dataset == RANDOM {
                own.put_lengths(PROMPT_LEN);
            }
            let is_sglang = layers.iter().any(|args| args.has("conventions"))
                || named.and_then(Backend::named).and_then(Backend::conventions)
                    == Some(Conventions::Sglang);
            // There the ratio means something else.
            if own.open.lengths && !is_sglang && !says(&["random-range-ratio"]) {
                own.put("random-range-ratio", VARIED_BY);
            }
        }
        own
    }

    /// Ends the run after this time, where nothing else says when it ends.
    pub fn end_after(&mut self, time: &str) {
        self.put("duration", time);
    }

    pub fn preset(&self) -> Preset {
        Preset { origin: ValueOrigin::Default, fragment: self.fragment.clone() }
    }

    fn put(&mut self, flag: &'static str, word: &str) {
        self.fragment.add(flag, word).expect("our own values can be used");
    }

    /// Measures another route, because the server has no chat.
    pub fn put_backend(&mut self, backend: Dialect) {
        self.fragment.backend = Some(backend.name().to_owned());
    }

    /// Shortens our own lengths to a context that is too short for them, with room for a chat template.
    pub fn shorten(&mut self, context_tokens: u64) -> Option<(u64, u64)> {
        let (input, output) = PROMPT_LEN;
        if context_tokens >= (input + output) * LONGEST.0 / LONGEST.1 + TEMPLATE {
            return None;
        }
        let shorter = ((context_tokens * 2 / 5).max(1), (context_tokens / 10).max(1));
        self.put_lengths(shorter);
        Some(shorter)
    }

    fn put_lengths(&mut self, (input, output): (u64, u64)) {
        self.put("random-input-len", &input.to_string());
        self.put("random-output-len", &output.to_string());
    }
}

/// Generated content that a route accepts.
pub fn dataset_for(backend: Option<Dialect>) -> &'static str {
    match backend {
        Some(backend) if backend.is_audio() => "random-audio",
        Some(backend) if backend.is_ranking() => "random-rerank",
        _ => RANDOM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_end_in_a_route() {
        let check = |url: &str, base: &str, backend: Option<&str>, endpoint: Option<&str>| {
            let found = routed(url);
            assert_eq!((found.base.as_str(), found.backend), (base, backend), "{url}");
            assert_eq!(found.endpoint.as_deref(), endpoint, "{url}");
        };
        check("http://h:8000", "http://h:8000", None, None);
        check("http://h:8000/", "http://h:8000", None, None);
        check("http://h:8000/v1", "http://h:8000/v1", None, None);
        check("http://h:8000/v1/models", "http://h:8000/v1", None, None);
        let chat = Some("/v1/chat/completions");
        check("http://h/v1/chat/completions", "http://h", Some("openai-chat"), chat);
        check("http://h/x/v1/chat/completions/", "http://h/x", Some("openai-chat"), chat);
        check("http://h/v1/completions", "http://h", Some("openai"), Some("/v1/completions"));
        check("h:1/generate_stream", "h:1", Some("tgi"), Some("/generate_stream"));
        check("h:1/v1/messages", "h:1", Some("anthropic"), Some("/v1/messages"));
        let deployed = "https://h/openai/deployments/m/chat/completions?api-version=1";
        let base = "https://h/openai/deployments/m?api-version=1";
        check(deployed, base, Some("openai-chat"), Some("/chat/completions"));
    }

    #[test]
    fn a_route_in_the_address_names_the_backend_unless_a_flag_does() {
        let mut args = args_of(&[("backend", "vllm")]);
        put_address(&mut args, "http://h/v1/chat/completions").unwrap();
        assert_eq!(args.backend.as_deref(), Some("vllm"));
        assert!(args.has("endpoint"));
        let refusal = put_address(&mut args, "http://h?key=hunter2").unwrap_err().to_string();
        assert!(refusal.contains("`--base-url`") && !refusal.contains("hunter2"), "{refusal}");
    }

    fn args_of(flags: &[(&'static str, &str)]) -> Fragment {
        let mut args = Fragment::default();
        for (flag, word) in flags {
            args.add(flag, word).unwrap();
        }
        args
    }

    #[test]
    fn our_own_values_leave_out_what_flags_or_presets_decide() {
        let with = |flag: &'static str, word: &str| {
            OwnDefaults::below(&[&Fragment::default(), &args_of(&[(flag, word)])])
        };
        let mut bare = OwnDefaults::below(&[]);
        assert_eq!(bare.open, OpenChoices { backend: true, lengths: true });
        assert!(bare.fragment.has("random-input-len"));
        assert_eq!(bare.shorten(4_096), None);
        assert_eq!(bare.shorten(512), Some((204, 51)));
        // Lengths are varied only where nobody gives them, by the conventions in which 0.5 means ±50 %.
        let is_varied = |own: &OwnDefaults| own.fragment.has("random-range-ratio");
        assert!(is_varied(&bare) && is_varied(&with("backend", "vllm")));
        for (flag, word) in [
            ("conventions", "sglang"),
            ("backend", "sglang"),
            ("random-input-len", "64"),
            ("output-len", "9"),
            ("dataset-name", "random"),
            ("dataset-path", "f"),
            ("backend", "jina-rerank"),
        ] {
            assert!(!is_varied(&with(flag, word)), "{flag} {word}");
        }
        let sglang = with("conventions", "sglang");
        assert_eq!((sglang.fragment.backend, sglang.open.backend), (None, false));
        let long = with("output-len", "9");
        assert!(long.open.backend && !long.open.lengths);
        let rows = with("dataset-path", "f");
        assert!(!rows.fragment.has_any(&["dataset-name", "random-input-len"]));
        for (backend, dataset) in [
            ("openai-audio", "random-audio"),
            ("jina-rerank", "random-rerank"),
            ("vllm-score", "random-rerank"),
            ("openai-embeddings", "random"),
        ] {
            let own = with("backend", backend);
            assert_eq!(own.fragment.part.workload.dataset.as_deref(), Some(dataset), "{backend}");
            assert_eq!(own.open.lengths, dataset == RANDOM, "{backend}");
        }
        assert!(!with("plan", "p.toml").fragment.has("ready-check-timeout-sec"));
    }

    #[test]
    fn a_load_is_whatever_says_when_or_how_many() {
        let of = |flag: &'static str, word: &str| load_flag(&args_of(&[(flag, word)]));
        assert_eq!(of("input-len", "9"), None);
        assert_eq!(of("duration", "5s"), Some("duration"));
        assert_eq!(of("num-prompts", "9"), Some("num-prompts"));
        assert_eq!(of("max-concurrency", "9"), Some("max-concurrency"));
        assert_eq!(of("dataset-name", "mooncake"), Some("dataset-name"));
    }
}
