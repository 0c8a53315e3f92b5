//! Connects to the server, reads its models, and describes it for the record.

use std::sync::Arc;

use tokometer_base::backend::Protocol;
use tokometer_base::printable;
use tokometer_base::redact::hide_in_url;
use tokometer_base::{Clock, Nanos};
use tokometer_client::conn::{Access, AccessOptions, Endpoint, Peer};
use tokometer_client::control::ModelEntry;
use tokometer_client::proxy::Proxies;
use tokometer_client::secret::Headers;
use tokometer_client::tls::ClientCertificate;
use tokometer_client::{self as client, Control, Dialect, Settings, Url};
use tokometer_record as record;

use crate::devices::Devices;
use crate::scraper::MetricsSource;
use crate::secrets::Credentials;
use crate::simulator::{Simulator, SimulatorOptions};
use crate::{Error, ErrorKind};
use tokometer_plan::{self as plan, Address, Plan, UrlText};

/// Timeout of a control request.
pub(crate) const CONTROL_TIMEOUT: Nanos = Nanos::from_secs(30);

/// A server that does not report its version within this time is measured without it.
pub(crate) const VERSION_TIMEOUT: Nanos = Nanos::from_secs(5);

/// A page of metrics that takes longer is not read.
const SCRAPE_TIMEOUT: Nanos = Nanos::from_secs(2);

/// Pause between attempts to reach a server that is starting.
const READY_PAUSE: Nanos = Nanos::from_secs(1);

/// How long a server may answer with status 500 before it counts as broken. One that starts refuses connections or
/// answers 502, 503 or 504.
pub(crate) const BROKEN: Nanos = Nanos::from_secs(3);

/// A server that responds.
#[derive(Debug)]
pub struct Reached {
    pub dialect: Dialect,
    /// Settings that all requests share.
    pub settings: Arc<Settings>,
    /// Resolved addresses and TLS settings.
    pub endpoint: Endpoint,
    pub control: Control,
    /// The model's entry in `/v1/models`; `None` where it has none.
    pub model: Option<ModelEntry>,
    /// For the record.
    pub described: record::TargetInfo,
    /// Messages for the user.
    pub remarks: Vec<String>,
    /// Keeps an embedded server running as long as the measurement.
    simulator: Option<Simulator>,
}

impl Reached {
    /// Whether the target is the embedded simulated server.
    pub fn is_simulated(&self) -> bool {
        self.simulator.is_some()
    }

    /// What is scraped beside the load: metrics pages, and the GPUs of this host where the server
    /// runs on it.
    pub(crate) fn metrics_sources(&self, plan: &Plan) -> Result<Vec<MetricsSource>, Error> {
        let mut sources = self.metrics_pages(plan)?;
        let devices =
            Some(&self.endpoint).filter(|_| !self.is_simulated()).and_then(Devices::beside);
        let next = u16::try_from(sources.len()).unwrap_or(u16::MAX);
        sources.extend(devices.map(|devices| MetricsSource::devices(devices, next)));
        Ok(sources)
    }

    /// The scraped endpoints: those named in the plan, otherwise the server itself. The timeout is
    /// short, because the run waits for the last scrape.
    fn metrics_pages(&self, plan: &Plan) -> Result<Vec<MetricsSource>, Error> {
        let source = |endpoint: u16, settings: &Settings| {
            let control = self.control.with_settings(settings).with_timeout(SCRAPE_TIMEOUT);
            MetricsSource::page(control, endpoint)
        };
        let urls = &plan.client.metrics_urls;
        if urls.is_empty() {
            return Ok(vec![source(0, &self.settings)]);
        }
        let named = |(number, text): (u16, &UrlText)| {
            let url = metrics_base(&text.0).map_err(|why| {
                Error::usage(format!("cannot use `--metrics-url {text}`: {why}"), "")
            })?;
            Ok(source(number, &metrics_settings(&self.settings, url, &plan.client.metrics_headers)))
        };
        (0..).zip(urls).map(named).collect()
    }

    /// Applies another plan's body fields; address and model stay.
    pub fn settle(&mut self, plan: &Plan, secrets: &Credentials) -> Result<(), Error> {
        let target = target_of(plan)?;
        let mut changed = settings(plan, target, self.settings.base_url.clone(), secrets);
        changed.model.clone_from(&self.settings.model);
        changed.forward.clone_from(&self.settings.forward);
        self.settings = Arc::new(changed);
        Ok(())
    }
}

/// Connects to the plan's target: starts the embedded server if it is the target, waits until the
/// server responds, and determines the model's name. `say` tells the user why it waits.
pub(crate) fn reach(
    plan: &Plan,
    secrets: &Credentials,
    clock: &Arc<dyn Clock>,
    say: &dyn Fn(&str),
) -> Result<Reached, Error> {
    let target = target_of(plan)?;
    let dialect = target.backend;
    let simulator = match &target.address {
        Address::Server(_) => None,
        Address::Simulator(profile) => {
            let model = target.served_model_name.as_deref().or(target.model.as_deref());
            Some(Simulator::start(&SimulatorOptions { profile, dialect: &dialect, model })?)
        }
    };
    let url = match (&target.address, &simulator) {
        (Address::Server(url), _) => url.clone(),
        (Address::Simulator(_), Some(simulator)) => simulator.url().clone(),
        (Address::Simulator(_), None) => {
            return Err(Error::new(ErrorKind::Target, "the simulated server did not start"));
        }
    };
    let mut settings = settings(plan, target, url, secrets);
    let access = Arc::new(access(target, secrets));
    let endpoint = endpoint(&access, &settings.base_url)?;
    settings.forward.clone_from(&endpoint.forward);
    let control = |settings: &Settings| {
        Control::new(settings, Arc::clone(&access), CONTROL_TIMEOUT, Arc::clone(clock))
    };
    let path = dialect.up_path_by(plan.conventions);
    let timeout_s = plan.phases.ready_timeout_s;
    let redirected = wait_until_up(&control(&settings), path, timeout_s, clock, say)?;
    let listed = models(&control(&settings), &settings, dialect)?;
    let settled = settle_model(&mut settings, target, &listed, dialect)?;
    let control = control(&settings);
    if simulator.is_none() {
        check_route(&control, &settings, dialect)?;
    }
    let described = record::TargetInfo {
        base_url: settings.base_url.to_string(),
        endpoint: hide_in_url(&dialect.request_path(&settings)),
        backend: dialect.name().to_owned(),
        model: secrets.clean(&settings.model),
        is_simulated: simulator.is_some(),
        server: None,
        addresses: endpoint.addresses.iter().map(Peer::to_string).collect(),
        proxy: endpoint.proxy(),
    };
    let settings = Arc::new(settings);
    let remarks = redirected.into_iter().chain(listed.remark).chain(settled.remark).collect();
    let model = settled.model;
    Ok(Reached { dialect, settings, endpoint, control, model, described, remarks, simulator })
}

/// Settings for scraping `url`. Key and headers of the target go to no other server: not to another port of
/// its host, and not in clear text. `headers` are meant for the pages.
fn metrics_settings(target: &Settings, url: Url, headers: &Headers) -> Settings {
    let mut settings = if url.is_same_server(&target.base_url) {
        Settings { base_url: url, ..target.clone() }
    } else {
        let mut settings = Settings::new(url, target.model.clone());
        settings.other_secrets = target.secrets();
        settings
    };
    settings.headers.0.extend(headers.0.iter().cloned());
    settings
}

/// The address of `--metrics-url`, with or without `/metrics` at the end of its path.
fn metrics_base(text: &str) -> Result<Url, client::Error> {
    let mut url = Url::parse(text)?;
    let prefix = url.path_prefix.trim_end_matches("/metrics").trim_end_matches('/').len();
    url.path_prefix.truncate(prefix);
    Ok(url)
}

pub(crate) fn target_of(plan: &Plan) -> Result<&plan::Target, Error> {
    plan.targets.first().ok_or_else(|| Error::usage("the plan has no target", ""))
}

pub(crate) fn settings(
    plan: &Plan,
    target: &plan::Target,
    url: Url,
    secrets: &Credentials,
) -> Settings {
    let request = &plan.request;
    let name = target.served_model_name.as_ref().or(target.model.as_ref());
    let mut settings = Settings::new(url, name.cloned().unwrap_or_default());
    settings.path = target.endpoint.as_ref().map(|path| path.0.clone());
    settings.conventions = Some(plan.conventions);
    settings.delivery = request.delivery;
    settings.usage = request.usage;
    settings.ignore_eos = request.ignore_eos;
    settings.sampling = request.sampling.clone();
    settings.logprobs = request.logprobs;
    settings.structured.clone_from(&request.structured);
    settings.tools.clone_from(&request.tools);
    settings.extra_body = request.extra_body.clone();
    settings.headers = target.headers.clone();
    settings.request_id_prefix.clone_from(&request.request_id_prefix);
    settings.api_key.clone_from(&secrets.api_key);
    settings.other_secrets = secrets.known.clone();
    settings
}

/// How the plan's target is reached.
pub(crate) fn access(target: &plan::Target, secrets: &Credentials) -> Access {
    let trust = target.trust.clone();
    let identity = target.identity.as_ref().map(|identity| ClientCertificate {
        certificate: identity.certificate.clone(),
        key: identity.key.clone().unwrap_or_else(|| identity.certificate.clone()),
    });
    let proxies = match target.proxy {
        plan::ProxyUse::Environment => secrets.proxies.clone(),
        plan::ProxyUse::Never => Proxies::default(),
    };
    Access::new(AccessOptions { names: target.resolve.clone(), trust, identity, proxies })
}

pub(crate) fn endpoint(access: &Access, url: &Url) -> Result<Endpoint, Error> {
    access.endpoint(url).map_err(|why| match why {
        client::Error::Certificates { .. }
        | client::Error::Identity { .. }
        | client::Error::Proxy { .. } => Error::usage(why.to_string(), ""),
        _ => unreached(&why),
    })
}

/// A server that could not be reached, with what to try.
pub(crate) fn unreached(why: &client::Error) -> Error {
    Error::new(ErrorKind::Target, why.to_string()).hint(why.advice())
}

/// Tries to reach the server until it responds without a server error, or the timeout ends. A server
/// that responds with errors then is used anyway: later requests will show whether it works. Returns
/// where the server redirected to, if it did.
fn wait_until_up(
    control: &Control,
    path: &str,
    timeout_s: f64,
    clock: &dyn Clock,
    say: &dyn Fn(&str),
) -> Result<Option<String>, Error> {
    let begun = clock.now();
    let deadline = begun + Nanos::from_secs_f64(timeout_s);
    for attempt in 0_u64.. {
        let left = (deadline - clock.now()).clamp(READY_PAUSE, CONTROL_TIMEOUT);
        let limit = if timeout_s > 0.0 { left } else { CONTROL_TIMEOUT };
        let answer = control.with_timeout(limit).get(path);
        let is_over = clock.now() >= deadline;
        let is_broken = |status: u16| status == 500 && clock.now() >= begun + BROKEN;
        match answer {
            Ok(answer) if answer.status < 500 || is_over || is_broken(answer.status) => {
                return Ok(answer.redirected);
            }
            Err(why) if is_over || is_final(&why) => {
                let waited =
                    if timeout_s > 0.0 { format!(" (after {timeout_s} s)") } else { String::new() };
                let waited = if is_over { waited } else { String::new() };
                let kind = match why {
                    client::Error::Header(_) => ErrorKind::Usage,
                    _ => ErrorKind::Target,
                };
                return Err(Error::new(kind, format!("{why}{waited}")).hint(why.advice()));
            }
            answer if attempt == 0 => {
                let why = answer.map_or_else(
                    |why| why.to_string(),
                    |answer| format!("it responded with status {}", answer.status),
                );
                say(&format!("the server is not ready yet ({why}); waiting up to {timeout_s} s"));
                clock.sleep(READY_PAUSE);
            }
            _ => clock.sleep(READY_PAUSE),
        }
    }
    Ok(None)
}

/// Whether waiting cannot help: the server answers, and not as one that can be used, or nothing can be
/// sent.
fn is_final(why: &client::Error) -> bool {
    match why {
        client::Error::Reach { source, .. } => client::cause::is_tls_mismatch(source),
        client::Error::Redirect { .. }
        | client::Error::Tls(_)
        | client::Error::Answer { .. }
        | client::Error::Header(_) => true,
        _ => false,
    }
}

/// The result of `/v1/models`.
struct ModelList {
    models: Vec<ModelEntry>,
    /// Why there are none, as a message for the user.
    remark: Option<String>,
    /// Why there are none, where that alone is no reason for a message.
    absence: Option<String>,
}

/// The server's models. A server without that route lists none. If the route fails, the server is
/// used as it is once the user has named the model. If the server refuses access, it cannot be used.
fn models(control: &Control, settings: &Settings, dialect: Dialect) -> Result<ModelList, Error> {
    let named = settings.model.as_str();
    let nothing = |remark| Ok(ModelList { models: Vec::new(), remark, absence: None });
    let why = match control.models() {
        Ok(models) => return Ok(ModelList { models, remark: None, absence: None }),
        Err(
            why @ (client::Error::Status { status: 404 | 405 | 501, .. }
            | client::Error::Cut { .. }),
        ) => {
            let absence = Some(why.to_string());
            return Ok(ModelList { models: Vec::new(), remark: None, absence });
        }
        Err(why) => why,
    };
    let refusal = Error::new(ErrorKind::Target, format!("cannot list the server's models: {why}"));
    match &why {
        client::Error::Status { status: 401 | 403, .. } => Err(refusal.hint(key_advice(settings))),
        client::Error::Reach { .. } | client::Error::Silent { .. } => {
            Err(refusal.hint(why.advice()))
        }
        client::Error::Status { status: 407, .. } => {
            Err(refusal.hint("write the proxy's user and password into its URL, or use --no-proxy"))
        }
        client::Error::Status { .. }
        | client::Error::WebPage { .. }
        | client::Error::Answer { .. }
            if !named.is_empty() || !dialect.sends_model() =>
        {
            nothing(Some(format!(
                "the server does not list its models; using `--model` as given: {why}"
            )))
        }
        client::Error::Status { .. } | client::Error::Answer { .. } => Err(refusal.hint(format!(
            "set the model with `--model`, and check that this server supports the backend `{}`",
            dialect.name()
        ))),
        _ => Err(refusal
            .hint(format!("check that this server supports the backend `{}`", dialect.name()))),
    }
}

/// Refuses a server without the measured route, for routes that many servers lack: one that generates
/// text has none of those for vectors, scores, classes and audio. Other refusals are left to the run.
fn check_route(control: &Control, settings: &Settings, dialect: Dialect) -> Result<(), Error> {
    let hint = match dialect.protocol() {
        Protocol::Pooling(_) => {
            "check that it serves a model for this backend (vLLM: `--runner pooling`)"
        }
        Protocol::Transcription => "check that it serves a speech model",
        Protocol::Responses | Protocol::Messages => {
            "use `--backend openai-chat` for a server without this route"
        }
        _ => return Ok(()),
    };
    let (path, body) = if let Ok(probe) = dialect.probe(settings) {
        (probe.path, probe.body)
    } else {
        // A route of forms refuses this body, but not the route.
        let path = settings.path.as_deref().unwrap_or(dialect.path());
        (format!("/{}", path.trim_start_matches('/')), serde_json::json!({}))
    };
    let Ok(answer) = control.post(&path, Some(&body)) else { return Ok(()) };
    if !matches!(answer.status, 404 | 405 | 501) {
        return Ok(());
    }
    let (route, status) = (hide_in_url(&path), answer.status);
    let message = format!("the server does not accept `POST {route}` (status {status})");
    let message = format!("{message}, which the backend `{}` needs", dialect.name());
    let hint = format!("{hint}, or name its route with `--endpoint`");
    Err(Error::new(ErrorKind::Target, message).hint(hint))
}

/// What to do about a key that is missing or refused.
pub(crate) fn key_advice(settings: &Settings) -> &'static str {
    if settings.api_key.is_some() {
        "the API key that was sent was refused: check OPENAI_API_KEY, `--api-key` or `--api-key-file`"
    } else {
        "no API key was sent: set OPENAI_API_KEY, or use `--api-key` or `--api-key-file`"
    }
}

/// Nothing says which model to measure.
fn unlisted(absence: Option<&str>) -> Error {
    match absence {
        None => Error::new(ErrorKind::Target, "the server lists no models")
            .hint("load a model on the server, or name one with `--model`"),
        Some(why) => Error::new(
            ErrorKind::Target,
            format!("cannot find out which model to measure: {why}"),
        )
        .hint("name the model with `--model`; check `--base-url` if the path is not the server's"),
    }
}

/// How a remark begins about a model that the server does not list.
const UNLISTED: &str = "the server does not list the model";

/// What to try about a refusal that concerns the model: one that names it, or of a model that the server does
/// not list. The route is then not to blame.
pub fn model_advice(model: &str, message: &str, remarks: &[String]) -> Option<String> {
    let is_unlisted = remarks.iter().any(|remark| remark.starts_with(UNLISTED));
    let is_between = |c: char| c.is_whitespace() || "`'\",:;()[]{}".contains(c);
    let mut words = message.split(is_between).map(|word| word.trim_end_matches('.'));
    let is_named = !model.is_empty() && words.any(|word| word == model);
    (is_unlisted || is_named).then(|| {
        format!("the server does not have the model `{model}`: name one that it has with `--model`")
    })
}

/// Models of a server that a message lists, and the length of a name in it.
const MODELS_LISTED: usize = 20;
const MODEL_CHARS: usize = 100;

/// The model's entry, and what the user should know about it.
#[derive(Debug)]
struct SettledModel {
    /// `None` where the server lists no such model.
    model: Option<ModelEntry>,
    remark: Option<String>,
}

/// Determines the model name to send: the user's, or the first of the server's list. A name that the
/// server does not list is sent all the same: gateways route to models, and servers load adapters, that
/// they do not list. The server decides.
fn settle_model(
    settings: &mut Settings,
    target: &plan::Target,
    ModelList { models, absence, .. }: &ModelList,
    dialect: Dialect,
) -> Result<SettledModel, Error> {
    let settled = |model| Ok(SettledModel { model, remark: None });
    if settings.model.is_empty() {
        let Some(first) = models.first() else {
            return if dialect.sends_model() {
                Err(unlisted(absence.as_deref()))
            } else {
                settled(None)
            };
        };
        settings.model.clone_from(&first.id);
        return settled(Some(first.clone()));
    }
    let name = &settings.model;
    let found = models.iter().find(|model| model.id == *name || model.root.as_ref() == Some(name));
    if let Some(found) = found {
        if target.served_model_name.is_none() {
            settings.model.clone_from(&found.id);
        }
        return settled(Some(found.clone()));
    }
    // llama.cpp's server accepts any name, and some protocols send none: the name then only selects
    // the tokenizer.
    if models.is_empty() || !dialect.checks_model() {
        return settled(models.first().cloned());
    }
    let name_of = |model: &ModelEntry| format!("`{}`", printable::line(&model.id, MODEL_CHARS));
    let listed: Vec<String> = models.iter().take(MODELS_LISTED).map(name_of).collect();
    let more = if models.len() > listed.len() { ", …" } else { "" };
    let remark = format!(
        "{UNLISTED} `{name}`, which is sent as named; it lists {}{more}",
        listed.join(", ")
    );
    Ok(SettledModel { model: None, remark: Some(remark) })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokometer_base::{ManualClock, MonotonicClock};

    use super::*;

    /// `--metrics-url http://HOST:9400` got the key of `--base-url https://HOST` in clear text.
    #[test]
    fn a_page_on_another_server_gets_its_own_headers_and_no_key() {
        let url = |text: &str| Url::parse(text).unwrap();
        let mut target = Settings::new(url("https://host/v1"), "tiny");
        target.api_key = Some(client::ApiKey::Bearer("verysecret".to_owned()));
        target.headers = Headers(vec![("x-tenant".to_owned(), "secret2".to_owned())]);
        let own = Headers(vec![("Authorization".to_owned(), "Bearer of-page".to_owned())]);
        let check = |page: &str, is_target: bool| {
            let settings = metrics_settings(&target, url(page), &own);
            assert_eq!(settings.api_key.is_some(), is_target, "{page}");
            let names: Vec<&str> = settings.headers.0.iter().map(|(name, _)| &**name).collect();
            let all: &[&str] = if is_target { &["x-tenant"] } else { &[] };
            assert_eq!(names, [all, &["Authorization"]].concat(), "{page}");
        };
        check("https://host/metrics", true);
        check("https://host:443", true);
        check("http://host/metrics", false);
        check("http://host:9400/metrics", false);
        check("https://host:9400/metrics", false);
        check("https://other/metrics", false);
        check("unix:/run/s.sock", false);
    }

    /// A mistyped model was said to be a wrong route.
    #[test]
    fn a_refused_model_is_named_and_the_route_is_not_blamed() {
        let advice = |message: &str, remarks: &[&str]| {
            let remarks: Vec<String> = remarks.iter().map(ToString::to_string).collect();
            model_advice("tyni", message, &remarks)
        };
        let unlisted =
            "the server does not list the model `tyni`, which is sent as named; it lists";
        let expected =
            "the server does not have the model `tyni`: name one that it has with `--model`";
        assert_eq!(advice("Not Found", &[unlisted]).as_deref(), Some(expected));
        assert_eq!(advice("The model `tyni` does not exist.", &[]).as_deref(), Some(expected));
        assert_eq!(advice("Not Found", &["another remark"]), None);
        assert_eq!(model_advice("", "Not Found", &[]), None);
        assert_eq!(model_advice("m", "Not Found by some means", &[]), None);
    }

    /// The pauses between attempts advance a manual clock, so this takes no time.
    #[test]
    fn a_server_that_never_comes_up_has_all_the_time_it_was_given() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = Url::http(nobody.ip().to_string(), nobody.port());
        let settings = Settings::new(url, "tiny");
        let control =
            Control::new(&settings, Arc::default(), Nanos::from_secs(1), Arc::new(MonotonicClock));
        let clock = ManualClock::default();
        let refused = wait_until_up(&control, "/health", 3_600.0, &clock, &|_| {}).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Target);
        assert!(refused.message.ends_with("(after 3600 s)"), "{refused}");
        assert_eq!(clock.now(), Nanos::from_secs(3_600));
    }
}
