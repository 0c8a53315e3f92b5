//! A server by its address alone: the route that an address may end in, and our own defaults.
//!
//! The other tools' flags keep the other tools' defaults. `tokometer URL` has its own: the chat route,
//! random prompts of a length that many servers accept (audio clips for a route that transcribes, a query with
//! documents for one that ranks), and a ready check, which reports a wrong key or
//! model before anything is measured. These values are weaker than the config file's, which are weaker than
//! the environment's and the flags'.

use tokometer_base::Conventions;
use tokometer_base::redact::hide_in_url;
use tokometer_client::Dialect;
use tokometer_plan::FlagValues;
use tokometer_workload::Spec;

use super::flags::address;
use crate::args::BenchArgs;
use crate::exit::Refusal;

/// Tokens of a prompt and of its answer, unless the user says otherwise.
pub(crate) const PROMPT_LEN: (u64, u64) = (512, 128);
/// What is sent, unless the route needs something else.
const RANDOM: &str = "random";
/// The backend, unless the server has no chat.
const BACKEND: &str = "openai-chat";
/// Tokens that a chat template may add.
const TEMPLATE: u64 = 100;
/// How long a server may take for the first prompt, in seconds.
const READY_S: f64 = 30.0;

/// Ends of addresses that are no route of a backend by themselves, because a gateway has another prefix.
const SHORT_ROUTES: [(&str, &str); 4] = [
    ("/chat/completions", "openai-chat"),
    ("/completions", "openai"),
    ("/responses", "openai-responses"),
    ("/messages", "anthropic"),
];

/// Takes a positional address: its server, and the route that it ends in.
pub(crate) fn put_address(args: &mut BenchArgs, url: &str) -> Result<(), Refusal> {
    let target = &mut args.target;
    let others = [
        ("--base-url", target.base_url.is_some()),
        ("--host", target.host.is_some()),
        ("--port", target.port.is_some()),
        ("--sim", target.sim.is_some()),
    ];
    if let Some((flag, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Refusal::usage(
            format!("cannot use `{flag}` together with the address `{}`", hide_in_url(url)),
            "give one of them",
        ));
    }
    let Routed { base, backend, endpoint } = routed(url);
    let _checked = address("URL", &base)?;
    target.base_url = Some(base);
    if target.endpoint.is_none() {
        target.endpoint = endpoint;
        if target.backend.is_none() {
            target.backend = backend.map(str::to_owned);
        }
    }
    Ok(())
}

/// An address without the route at its end.
#[derive(Debug, PartialEq, Eq)]
struct Routed {
    base: String,
    /// The backend of the route; `None` without one.
    backend: Option<&'static str>,
    /// The route.
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
pub(crate) fn load_flag(args: &BenchArgs) -> Option<&'static str> {
    let (arrival, stop) = (&args.arrival, &args.stop);
    let is_traced = args.workload.dataset_name.as_deref().is_some_and(|name| {
        Spec::defaults(name, Conventions::Vllm).is_some_and(|spec| spec.is_traced())
    });
    let flags = [
        ("--request-rate", arrival.request_rate.is_some()),
        ("--max-concurrency", arrival.max_concurrency.is_some()),
        ("--ramp-up-strategy", arrival.ramp_up_strategy.is_some()),
        ("--ramp-up-start-rps", arrival.ramp_up_start_rps.is_some()),
        ("--ramp-up-end-rps", arrival.ramp_up_end_rps.is_some()),
        ("--num-prompts", stop.num_prompts.is_some()),
        ("--duration", stop.duration.is_some()),
        ("--until", stop.until.is_some()),
        ("--multi-turn-concurrency", args.workload.turns.multi_turn_concurrency.is_some()),
        ("--plan", args.plan.is_some()),
        ("--against", args.against.is_given()),
        ("--dataset-name", is_traced),
    ];
    flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

/// What the server may still change of our defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenChoices {
    /// Whether nothing names a backend.
    pub(crate) backend: bool,
    /// Whether nothing sets a length.
    pub(crate) lengths: bool,
}

/// Our own values for a server by its address, weaker than any flag and any preset.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnDefaults {
    /// Flags that stand for them: they are merged as the flags of a preset are.
    pub(super) args: BenchArgs,
    pub(crate) open: OpenChoices,
}

impl OwnDefaults {
    /// The values below these flags and presets. What depends on what they leave unsaid stays unsaid as
    /// well: a dataset has lengths of its own, and the conventions of a tool a backend.
    pub(crate) fn below(layers: &[&BenchArgs]) -> Self {
        let says = |is_said: fn(&BenchArgs) -> bool| layers.iter().any(|args| is_said(args));
        let mut own = Self::default();
        if says(|args| args.plan.is_some()) {
            return own;
        }
        let target = &mut own.args.target;
        if !says(|args| args.target.backend.is_some() || args.target.compat.is_some()) {
            own.open.backend = true;
            target.backend = Some(BACKEND.to_owned());
        }
        target.ready_check_timeout_sec = Some(READY_S);
        let has_dataset = |args: &BenchArgs| {
            args.workload.dataset_name.is_some() || args.workload.dataset_path.is_some()
        };
        let has_length = |args: &BenchArgs| {
            let (workload, random) = (&args.workload, &args.workload.random);
            let is_input = workload.input_len.is_some() || random.random_input_len.is_some();
            is_input || workload.output_len.is_some() || random.random_output_len.is_some()
        };
        if !says(has_dataset) {
            let named = layers.iter().rev().find_map(|args| args.target.backend.as_deref());
            let dataset = dataset_for(named.and_then(Dialect::named));
            own.args.workload.dataset_name = Some(dataset.to_owned());
            // Audio clips have lengths of their own, and ranking has no answer in tokens.
            own.open.lengths = dataset == RANDOM && !says(has_length);
            if dataset == RANDOM {
                own.put_lengths(PROMPT_LEN);
            }
        }
        own
    }

    /// Ends the run after this time, where nothing else says when it ends.
    pub(crate) fn end_after(&mut self, time: &str) {
        self.args.stop.duration = Some(time.to_owned());
    }

    /// Measures another route, because the server has no chat.
    pub(crate) fn put_backend(&mut self, backend: Dialect) {
        self.args.target.backend = Some(backend.name().to_owned());
    }

    /// Shortens our own lengths to a context that is too short for them, with room for a chat template.
    pub(crate) fn shorten(&mut self, context_tokens: u64) -> Option<(u64, u64)> {
        let (input, output) = PROMPT_LEN;
        if context_tokens >= input + output + TEMPLATE {
            return None;
        }
        let shorter = ((context_tokens / 2).max(1), (context_tokens / 8).max(1));
        self.put_lengths(shorter);
        Some(shorter)
    }

    fn put_lengths(&mut self, (input, output): (u64, u64)) {
        let random = &mut self.args.workload.random;
        random.random_input_len = Some(FlagValues(vec![input]));
        random.random_output_len = Some(FlagValues(vec![output]));
    }
}

/// Generated content that a route accepts.
pub(crate) fn dataset_for(backend: Option<Dialect>) -> &'static str {
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
        let mut args = BenchArgs::default();
        args.target.backend = Some("vllm".to_owned());
        put_address(&mut args, "http://h/v1/chat/completions").unwrap();
        assert_eq!(args.target.backend.as_deref(), Some("vllm"));
        assert_eq!(args.target.endpoint.as_deref(), Some("/v1/chat/completions"));
        args.target.base_url = Some("http://g".to_owned());
        let refusal = put_address(&mut args, "http://h?key=hunter2").unwrap_err().to_string();
        assert!(refusal.contains("`--base-url`") && !refusal.contains("hunter2"), "{refusal}");
    }

    #[test]
    fn our_own_values_leave_out_what_flags_or_presets_decide() {
        let with = |change: fn(&mut BenchArgs)| {
            let mut args = BenchArgs::default();
            change(&mut args);
            OwnDefaults::below(&[&BenchArgs::default(), &args])
        };
        let mut bare = with(|_| {});
        assert_eq!(bare.open, OpenChoices { backend: true, lengths: true });
        assert_eq!(bare.args.workload.random.random_input_len, Some(FlagValues(vec![512])));
        assert_eq!((bare.shorten(4_096), bare.shorten(512)), (None, Some((256, 64))));
        let sglang = with(|args| args.target.compat = Some(Conventions::Sglang));
        assert_eq!((sglang.args.target.backend, sglang.open.backend), (None, false));
        let long = with(|args| args.workload.output_len = Some(FlagValues(vec![9])));
        assert!(long.open.backend && !long.open.lengths);
        let rows = with(|args| args.workload.dataset_path = Some("f".to_owned()));
        assert_eq!(rows.args.workload.dataset_name, None);
        assert_eq!(rows.args.workload.random.random_input_len, None);
        for (backend, dataset) in [
            ("openai-audio", "random-audio"),
            ("jina-rerank", "random-rerank"),
            ("vllm-score", "random-rerank"),
            ("openai-embeddings", "random"),
        ] {
            let mut args = BenchArgs::default();
            args.target.backend = Some(backend.to_owned());
            let own = OwnDefaults::below(&[&args]);
            assert_eq!(own.args.workload.dataset_name.as_deref(), Some(dataset), "{backend}");
            assert_eq!(own.open.lengths, dataset == RANDOM, "{backend}");
        }
        let filed = with(|args| args.plan = Some("p.toml".into()));
        assert_eq!(filed.args.target.ready_check_timeout_sec, None);
    }

    #[test]
    fn a_load_is_whatever_says_when_or_how_many() {
        let of = |change: fn(&mut BenchArgs)| {
            let mut args = BenchArgs::default();
            change(&mut args);
            load_flag(&args)
        };
        assert_eq!(of(|_| {}), None);
        assert_eq!(of(|args| args.workload.input_len = Some(FlagValues(vec![9]))), None);
        assert_eq!(of(|args| args.stop.duration = Some("5s".to_owned())), Some("--duration"));
        let prompts = of(|args| args.stop.num_prompts = Some(FlagValues(vec![9])));
        assert_eq!(prompts, Some("--num-prompts"));
        let flights = of(|args| args.arrival.max_concurrency = Some(FlagValues(vec![9])));
        assert_eq!(flights, Some("--max-concurrency"));
        let traced = of(|args| args.workload.dataset_name = Some("mooncake".to_owned()));
        assert_eq!(traced, Some("--dataset-name"));
    }
}
