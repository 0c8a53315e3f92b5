//! Finds out which server answers at an address, before anything is measured.
//!
//! In: a plan whose target is the address. Out: the server's product and version, its first model, and
//! whether it has a chat route. A server is told by `owned_by` in its list of models, by its `Server`
//! header, or by a route that only it has; [`SERVERS`] has one row for each. A server that none of them
//! fits is one with OpenAI's routes: nothing is refused here.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokometer_base::printable;
use tokometer_base::{Clock, Nanos};
use tokometer_client::control::HttpResponse;
use tokometer_client::{Control, Dialect, Settings};
use tokometer_plan::{Address, Plan};

use crate::Error;
use crate::secrets::Credentials;
use crate::target::{self, CONTROL_TIMEOUT, VERSION_TIMEOUT};

/// How one server product is told from others.
struct ServerSigns {
    name: &'static str,
    /// `owned_by` of its models; empty: it has no value of its own.
    owner: &'static str,
    /// Beginning of its `Server` header; empty: that of a common library.
    header: &'static str,
    /// The route that reports its version; empty: none.
    route: &'static str,
    /// Where the version is in the response.
    version: &'static str,
    /// A field that only this server's response has; empty: the route alone does not tell.
    own_field: &'static str,
}

const PLAIN: ServerSigns =
    ServerSigns { name: "", owner: "", header: "", route: "", version: "/version", own_field: "" };

/// One row per product. Rows with `own_field` are asked in this order where nothing else tells.
const SERVERS: [ServerSigns; 9] = [
    ServerSigns { name: "vLLM", owner: "vllm", route: "/version", ..PLAIN },
    ServerSigns {
        name: "SGLang",
        owner: "sglang",
        route: "/server_info",
        own_field: "/tp_size",
        ..PLAIN
    },
    // Before 0.5 SGLang had only this name for the route.
    ServerSigns {
        name: "SGLang",
        owner: "sglang",
        route: "/get_server_info",
        own_field: "/tp_size",
        ..PLAIN
    },
    ServerSigns {
        name: "TGI",
        header: "text-generation",
        route: "/info",
        own_field: "/max_total_tokens",
        ..PLAIN
    },
    ServerSigns {
        name: "llama.cpp",
        owner: "llamacpp",
        header: "llama.cpp",
        route: "/props",
        version: "/build_info",
        own_field: "/default_generation_settings",
    },
    ServerSigns { name: "Ollama", owner: "library", route: "/api/version", ..PLAIN },
    ServerSigns { name: "LMDeploy", owner: "lmdeploy", ..PLAIN },
    ServerSigns { name: "TensorRT-LLM", owner: "tensorrt_llm", route: "/version", ..PLAIN },
    ServerSigns {
        name: "tokometer's simulator",
        owner: "tokometer-sim",
        route: "/version",
        ..PLAIN
    },
];

/// Headers that a gateway or proxy adds: the header, the beginning of its value, the gateway's name.
const GATEWAYS: [(&str, &str, &str); 9] = [
    ("x-litellm-version", "", "LiteLLM"),
    ("x-litellm-model-id", "", "LiteLLM"),
    ("x-portkey-provider", "", "Portkey"),
    ("x-kong-upstream-latency", "", "Kong"),
    ("x-envoy-upstream-service-time", "", "Envoy"),
    ("server", "istio-envoy", "Envoy"),
    ("server", "envoy", "Envoy"),
    ("server", "cloudflare", "Cloudflare"),
    ("server", "nginx", "nginx"),
];

/// A chat request of one token that takes longer says nothing about the route.
const PROBE_TIMEOUT: Nanos = Nanos::from_secs(10);

/// Longest version that is shown.
const VERSION_CHARS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerIdentity {
    /// `None` where no sign tells.
    pub product: Option<&'static str>,
    pub version: Option<String>,
    /// What the requests pass before they reach it; `None` where nothing shows.
    pub gateway: Option<&'static str>,
}

impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.product, self.gateway) {
            (Some(product), _) => f.write_str(product)?,
            (None, Some(gateway)) => return write!(f, "a server behind {gateway}"),
            (None, None) => return f.write_str("an OpenAI-compatible server"),
        }
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        self.gateway.map_or(Ok(()), |gateway| write!(f, " behind {gateway}"))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct IdentifiedServer {
    pub identity: ServerIdentity,
    /// The model that will be measured; `None` where the server lists none and none was named.
    pub model: Option<String>,
    /// Chat where the server has it, otherwise plain completions, embeddings or classes.
    pub backend: Dialect,
    /// Limit on prompt and output tokens together; `None` where the server does not report it.
    pub context_tokens: Option<u64>,
}

impl IdentifiedServer {
    /// Whether anything answered as an inference server does, or as a known gateway.
    pub fn is_recognised(&self) -> bool {
        let ServerIdentity { product, gateway, .. } = &self.identity;
        product.is_some() || gateway.is_some() || self.model.is_some()
    }
}

/// Asks the plan's target what it is. An embedded simulator is not started for that.
pub fn identify(
    plan: &Plan,
    secrets: &Credentials,
    clock: &Arc<dyn Clock>,
) -> Result<IdentifiedServer, Error> {
    let target = target::target_of(plan)?;
    let named = target.served_model_name.as_ref().or(target.model.as_ref()).cloned();
    let Address::Server(url) = &target.address else {
        let identity =
            ServerIdentity { product: Some("tokometer's simulator"), ..ServerIdentity::default() };
        let backend = target.backend;
        return Ok(IdentifiedServer { identity, model: named, backend, context_tokens: None });
    };
    let mut settings = target::settings(plan, target, url.clone(), secrets);
    let access = Arc::new(target::access(target, secrets));
    let endpoint = target::endpoint(&access, &settings.base_url)?;
    settings.forward.clone_from(&endpoint.forward);
    let control = Control::new(&settings, access, CONTROL_TIMEOUT, Arc::clone(clock));
    // Whether the server is there at all: the only answer that must come.
    let models = control.get("/v1/models").map_err(|why| target::unreached(&why))?;
    let short = control.with_timeout(VERSION_TIMEOUT);
    let clean = |text: String| secrets.clean(&text);
    let identity = identity(&models, |path| short.get(path).ok());
    let identity = ServerIdentity { version: identity.version.map(clean), ..identity };
    if settings.model.is_empty() {
        settings.model = first_model(&models).unwrap_or_default();
    }
    let backend = if target.endpoint.is_some() {
        target.backend
    } else {
        answering(target.backend, &settings, &control.with_timeout(PROBE_TIMEOUT))
    };
    let model = Some(secrets.clean(&settings.model)).filter(|name| !name.is_empty());
    let context_tokens = context_tokens(&models, &settings.model);
    Ok(IdentifiedServer { identity, model: named.or(model), backend, context_tokens })
}

/// The server's name, with its version where it reports one; `None` for a server that is not known. One
/// that leaves a question without an answer is asked nothing more: every run waits for this.
pub(crate) fn server_name(control: &Control) -> Option<String> {
    let short = control.with_timeout(VERSION_TIMEOUT);
    let models = short.get("/v1/models").ok()?;
    let mut is_answering = true;
    let found = identity(&models, |path| {
        let answer = is_answering.then(|| short.get(path).ok()).flatten();
        is_answering = answer.is_some();
        answer
    });
    found.product.is_some().then(|| found.to_string())
}

/// What a server is, from its list of models and further routes.
fn identity(
    models: &HttpResponse,
    mut ask: impl FnMut(&str) -> Option<HttpResponse>,
) -> ServerIdentity {
    let gateway = GATEWAYS.iter().find(|(header, value, _)| starts(models, header, value));
    let gateway = gateway.map(|(_, _, name)| *name);
    let list = models.json().unwrap_or_default();
    let entries = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owners: Vec<&str> = entries.iter().filter_map(|entry| entry["owned_by"].as_str()).collect();
    let is_named = |row: &&ServerSigns| {
        let is_owner = owners.iter().any(|owner| owner.eq_ignore_ascii_case(row.owner));
        let has_header = !row.header.is_empty() && starts(models, "server", row.header);
        (!row.owner.is_empty() && is_owner) || has_header
    };
    let mut response = |row: &ServerSigns| {
        let found = if row.route.is_empty() { None } else { ask(row.route) }?;
        found.json().filter(|_| found.status == 200)
    };
    let mut named = None;
    for row in SERVERS.iter().filter(is_named) {
        named = Some(row.name);
        let version = response(row).and_then(|found| version(row, &found));
        if version.is_some() {
            return ServerIdentity { product: named, version, gateway };
        }
    }
    if named.is_some() {
        return ServerIdentity { product: named, version: None, gateway };
    }
    for row in SERVERS.iter().filter(|row| !row.own_field.is_empty()) {
        let Some(found) = response(row) else { continue };
        if found.pointer(row.own_field).is_some() {
            return ServerIdentity {
                product: Some(row.name),
                version: version(row, &found),
                gateway,
            };
        }
    }
    ServerIdentity { product: None, version: None, gateway }
}

fn version(row: &ServerSigns, response: &Value) -> Option<String> {
    let text = response.pointer(row.version)?.as_str()?;
    Some(printable::line(text, VERSION_CHARS)).filter(|text| !text.is_empty())
}

/// Whether a response has a header whose value begins so, in any case.
fn starts(response: &HttpResponse, header: &str, beginning: &str) -> bool {
    response.headers.iter().any(|(name, value)| {
        let begins = value.get(..beginning.len());
        name.eq_ignore_ascii_case(header)
            && begins.is_some_and(|begins| begins.eq_ignore_ascii_case(beginning))
    })
}

/// The context length of a model in the list.
fn context_tokens(models: &HttpResponse, model: &str) -> Option<u64> {
    let list = models.json()?;
    let entry = list["data"].as_array()?.iter().find(|entry| entry["id"] == model)?;
    [&entry["max_model_len"], &entry["meta"]["n_ctx"]].into_iter().find_map(Value::as_u64)
}

fn first_model(models: &HttpResponse) -> Option<String> {
    models.json()?["data"][0]["id"].as_str().map(str::to_owned)
}

/// What a server without chat may have: a model without a chat template has a chat route that refuses
/// every request, and an embedding model or a classifier generates nothing.
const OTHERS: [&str; 3] = ["openai", "openai-embeddings", "vllm-classify"];

/// The backend that the server answers: `wanted`, unless only another is answered.
fn answering(wanted: Dialect, settings: &Settings, control: &Control) -> Dialect {
    if !(wanted.is_chat() && wanted.is_openai()) {
        return wanted;
    }
    let status = |dialect: Dialect| {
        let probe = dialect.probe(settings).ok()?;
        control.post(&probe.path, Some(&probe.body)).ok().map(|answer| answer.status)
    };
    if !matches!(status(wanted), Some(400 | 404 | 405 | 422 | 500 | 501)) {
        return wanted;
    }
    let mut others = OTHERS.into_iter().filter_map(Dialect::named);
    others.find(|other| status(*other) == Some(200)).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> HttpResponse {
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        HttpResponse {
            status,
            headers: headers.iter().map(header).collect(),
            body: body.as_bytes().to_vec(),
            redirected: None,
        }
    }

    fn models(owner: &str) -> String {
        format!(r#"{{"data":[{{"id":"m","owned_by":"{owner}"}}]}}"#)
    }

    /// What a server with this list of models and these routes is taken for.
    fn found(headers: &[(&str, &str)], list: &str, routes: &[(&str, &str)]) -> String {
        let ask = |path: &str| {
            let route = routes.iter().find(|(route, _)| *route == path);
            Some(route.map_or(response(404, &[], "{}"), |(_, body)| response(200, &[], body)))
        };
        identity(&response(200, headers, list), ask).to_string()
    }

    #[test]
    fn every_server_is_told_by_what_it_says_of_itself() {
        let uvicorn = [("server", "uvicorn")];
        let check = |list: &str, routes: &[(&str, &str)], expected: &str| {
            assert_eq!(found(&uvicorn, list, routes), expected, "{list}");
        };
        check(&models("vllm"), &[("/version", r#"{"version":"0.11.0"}"#)], "vLLM 0.11.0");
        check(&models("vllm"), &[], "vLLM");
        let info = r#"{"version":"0.5.4","tp_size":8}"#;
        check(&models("sglang"), &[("/server_info", info)], "SGLang 0.5.4");
        check(&models("sglang"), &[("/get_server_info", info)], "SGLang 0.5.4");
        check(&models("m"), &[("/server_info", info)], "SGLang 0.5.4");
        let tgi = r#"{"model_id":"m","version":"3.3.1","max_total_tokens":4096}"#;
        check(&models("m"), &[("/info", tgi)], "TGI 3.3.1");
        let props = r#"{"build_info":"b6500-abc","default_generation_settings":{}}"#;
        check(&models("llamacpp"), &[("/props", props)], "llama.cpp b6500-abc");
        check(&models("me"), &[("/props", props)], "llama.cpp b6500-abc");
        check(&models("library"), &[("/api/version", r#"{"version":"0.12.6"}"#)], "Ollama 0.12.6");
        check(&models("tensorrt_llm"), &[], "TensorRT-LLM");
        check("", &[("/props", props)], "llama.cpp b6500-abc");
        let llama = found(&[("Server", "llama.cpp")], &models("x"), &[]);
        assert_eq!(llama, "llama.cpp");
    }

    #[test]
    fn the_context_length_is_that_of_the_model() {
        let list = r#"{"data":[{"id":"a","max_model_len":99},{"id":"b","meta":{"n_ctx":7}}]}"#;
        let of = |model| context_tokens(&response(200, &[], list), model);
        assert_eq!((of("a"), of("b"), of("c")), (Some(99), Some(7), None));
    }

    #[test]
    fn gateways_and_unknown_servers_are_named_as_such() {
        let envoy = [("server", "istio-envoy")];
        let vllm = found(&envoy, &models("vllm"), &[("/version", r#"{"version":"0.11.0"}"#)]);
        assert_eq!(vllm, "vLLM 0.11.0 behind Envoy");
        let litellm = [("server", "uvicorn"), ("x-litellm-version", "1.77")];
        assert_eq!(found(&litellm, &models("openai"), &[]), "a server behind LiteLLM");
        assert_eq!(found(&[], &models("acme"), &[]), "an OpenAI-compatible server");
        // Routes of other kinds: a version alone names no product.
        let other = [("/info", r#"{"version":"1"}"#), ("/version", r#"{"version":"1"}"#)];
        assert_eq!(found(&[], &models("acme"), &other), "an OpenAI-compatible server");
        assert_eq!(found(&[], "<html>", &[]), "an OpenAI-compatible server");
    }
}
