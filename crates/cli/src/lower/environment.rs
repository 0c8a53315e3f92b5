//! The environment variables that mean something, read once.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum as _;
use tokometer_base::redact::Secrets;
use tokometer_base::{Backend, Clock, Conventions};
use tokometer_client::ApiKey;
use tokometer_client::proxy::Proxies;
use tokometer_measure::HubDownloads;
use tokometer_plan::resolve::{ConfigFile, PREFIX, Presets, config_text, of_variable};
use tokometer_report::Style;
use tokometer_shards::discover::VARIABLES;
use tokometer_tokenize::hub;

use crate::args::ColourArg;
use crate::exit::{Refusal, reason};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TerminalCodes {
    /// Colours, and codes that move the cursor.
    #[default]
    All,
    /// `NO_COLOR`: codes that move the cursor.
    NoColours,
    /// `TERM=dumb`: it would show them.
    Nothing,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) openai_api_key: Option<String>,
    pub(crate) anthropic_api_key: Option<String>,
    /// `API_KEY`, which SGLang's client falls back to.
    pub(crate) api_key: Option<String>,
    /// How the hub is reached: `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE` and their older
    /// or fallback names.
    pub(crate) hub: hub::HubAccess,
    pub(crate) shard_secret: Option<String>,
    /// Variables of launchers that say which part of a run this process makes.
    pub(crate) launcher: BTreeMap<String, String>,
    /// `NO_COLOR` and `TERM`.
    pub(crate) codes: TerminalCodes,
    /// When output is coloured: `--color`, else the preset; absent: on a terminal.
    pub(crate) colour: Option<ColourArg>,
    /// `TOKOMETER_COLOR`, or the config file's `color`.
    colour_text: Option<String>,
    /// `TOKOMETER_*` and the config file.
    pub(crate) presets: Presets,
    /// Passwords of `HTTP_PROXY` and its like, and all keys.
    pub(crate) secrets: Secrets,
    /// `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy`, in small letters first.
    pub(crate) proxies: Proxies,
}

/// Holds the secret that the shards of a run share.
const SHARD_SECRET: &str = "TOKOMETER_SHARD_SECRET";

/// Variables that hold the address of a proxy, in the spelling of upper case.
const PROXIES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

#[expect(clippy::disallowed_methods, reason = "nothing else reads the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn secrets(variable: &dyn Fn(&str) -> Option<String>) -> Secrets {
    let mut secrets = Secrets::new();
    let names = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "API_KEY",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        SHARD_SECRET,
    ];
    for name in names {
        secrets.add(&variable(name).unwrap_or_default());
    }
    let proxies = PROXIES.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]);
    for name in proxies.chain(["HF_ENDPOINT".to_owned()]) {
        secrets.add_url(&variable(&name).unwrap_or_default());
    }
    // Also in the form in which they are sent.
    for secret in self::proxies(variable).secrets() {
        secrets.add(&secret);
    }
    secrets
}

impl Environment {
    pub(crate) fn read() -> Self {
        let text = |name: &std::ffi::OsStr| name.to_str().map(str::to_owned);
        let is_ours = |(name, _): &(String, String)| name.starts_with(PREFIX);
        let all = std::env::vars_os();
        let is_unread = |(name, value): &(String, std::ffi::OsString)| {
            name.starts_with(PREFIX) && value.to_str().is_none()
        };
        let named: Vec<_> = all.filter_map(|(name, value)| Some((text(&name)?, value))).collect();
        let not_text = named.iter().find(|pair| is_unread(pair)).map(|(name, _)| name.clone());
        let all = named.into_iter().filter_map(|(name, value)| Some((name, text(&value)?)));
        let presets = Presets {
            not_text,
            variables: all.filter(is_ours).filter(|(_, value)| !value.is_empty()).collect(),
            config: config_path(&variable).as_deref().and_then(config),
        };
        Self::from_variables(&variable).with(presets)
    }

    /// The same with a way to fetch from the hub.
    pub(crate) fn reaching_hub(mut self, clock: Arc<dyn Clock>) -> Self {
        self.hub.client = Some(Arc::new(HubDownloads::new(self.proxies.clone(), clock)));
        self
    }

    /// The look of our own summary on this stdout.
    pub(crate) fn style(&self) -> Style {
        let is_coloured = match self.colour {
            Some(ColourArg::Always) => true,
            Some(ColourArg::Never) => false,
            Some(ColourArg::Auto) | None => {
                std::io::stdout().is_terminal() && self.codes == TerminalCodes::All
            }
        };
        Style { is_coloured, ..Style::default() }
    }

    /// The same without the config file and `TOKOMETER_*`.
    pub(crate) fn without_presets(&self) -> Self {
        Self { presets: Presets::default(), ..self.clone() }
    }

    /// The same with the flag `--color`, which overrides everything else.
    pub(crate) fn with_colour(mut self, flag: Option<ColourArg>) -> Result<Self, Refusal> {
        if let Some(flag) = flag {
            self.colour = Some(flag);
            return Ok(self);
        }
        let Some(text) = &self.colour_text else { return Ok(self) };
        let parsed = ColourArg::from_str(text, true).map_err(|_| {
            Refusal::usage(
                format!("cannot use `{text}` for the preset `color`"),
                "write auto, always or never, in `TOKOMETER_COLOR` or in the config file",
            )
        })?;
        self.colour = Some(parsed);
        Ok(self)
    }

    /// The same with these presets and what they hold.
    fn with(mut self, presets: Presets) -> Self {
        for (name, value) in &presets.variables {
            of_variable(name, value, &mut self.secrets);
        }
        let named = presets.variables.get("TOKOMETER_COLOR").cloned();
        self.colour_text = named.or_else(|| config_text(&presets, "color"));
        self.presets = presets;
        self
    }

    fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let usual = || folder("HOME").map(|home| home.join(".cache"));
        let caches = || folder("XDG_CACHE_HOME").or_else(usual);
        let hub_home =
            folder("HF_HOME").or_else(|| caches().map(|caches| caches.join("huggingface")));
        let is_on = |name: &str| {
            variable(name).is_some_and(|value| {
                !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off")
            })
        };
        Self {
            openai_api_key: variable("OPENAI_API_KEY"),
            anthropic_api_key: variable("ANTHROPIC_API_KEY"),
            api_key: variable("API_KEY"),
            hub: hub::HubAccess {
                endpoint: variable("HF_ENDPOINT"),
                token: variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")),
                token_file: folder("HF_TOKEN_PATH")
                    .or_else(|| hub_home.as_ref().map(|home| home.join("token"))),
                cache: folder("HF_HUB_CACHE")
                    .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
                    .or_else(|| hub_home.map(|home| home.join("hub"))),
                traffic: if is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE") {
                    hub::NetworkUse::CacheOnly
                } else {
                    hub::NetworkUse::Fetch
                },
                client: None,
            },
            shard_secret: variable(SHARD_SECRET),
            launcher: VARIABLES
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), variable(name)?)))
                .collect(),
            codes: match () {
                () if variable("TERM").is_some_and(|name| name == "dumb") => TerminalCodes::Nothing,
                () if variable("NO_COLOR").is_some() => TerminalCodes::NoColours,
                () => TerminalCodes::All,
            },
            colour: None,
            colour_text: None,
            presets: Presets::default(),
            secrets: secrets(variable),
            proxies: proxies(variable),
        }
    }

    /// The API key to send to a backend, by the conventions to follow.
    pub(crate) fn key(&self, family: Conventions, backend: &Backend) -> Option<ApiKey> {
        let own = self.anthropic_api_key.clone().filter(|_| backend.is_anthropic());
        let bearer = own.map(ApiKey::Anthropic);
        let bearer = bearer.or_else(|| self.openai_api_key.clone().map(ApiKey::Bearer));
        match family {
            Conventions::Vllm => bearer,
            Conventions::Sglang => bearer.or_else(|| self.api_key.clone().map(ApiKey::Raw)),
        }
    }
}

fn proxies(variable: &dyn Fn(&str) -> Option<String>) -> Proxies {
    let either = |name: &str| variable(&name.to_ascii_lowercase()).or_else(|| variable(name));
    // In a CGI program `HTTP_PROXY` is a header that a visitor sent.
    let is_cgi = variable("REQUEST_METHOD").is_some();
    let http = if is_cgi { variable("http_proxy") } else { either("HTTP_PROXY") };
    let (https, all, exempt) = (either("HTTPS_PROXY"), either("ALL_PROXY"), either("NO_PROXY"));
    Proxies { http, https, all, exempt }
}

/// Where the config file is, as XDG's rules say: a relative `XDG_CONFIG_HOME` is ignored.
fn config_path(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    Some(named.or_else(home)?.join("tokometer").join("config.toml"))
}

/// Reads the config file; `None` where there is none.
fn config(path: &Path) -> Option<ConfigFile> {
    let text = match std::fs::read_to_string(path) {
        Err(why)
            if matches!(
                why.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return None;
        }
        read => read.map_err(|why| reason(&why)),
    };
    Some(ConfigFile { path: path.to_owned(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_family_s_rule_and_the_cache_its_fallbacks() {
        let variables = |name: &str| match name {
            "API_KEY" => Some("raw".to_owned()),
            "ANTHROPIC_API_KEY" => Some("sk-ant".to_owned()),
            "HF_HOME" => Some("/h".to_owned()),
            "HF_HUB_OFFLINE" => Some("1".to_owned()),
            "https_proxy" => Some("http://me:hunter22@proxy:3128".to_owned()),
            _ => None,
        };
        let environment = Environment::from_variables(&variables);
        assert_eq!(environment.secrets.redact_exact("is hunter22"), "is [redacted]");
        let key = |family, backend| environment.key(family, Backend::named(backend).unwrap());
        assert_eq!(key(Conventions::Vllm, "openai"), None);
        assert_eq!(key(Conventions::Sglang, "sglang"), Some(ApiKey::Raw("raw".to_owned())));
        let own = Some(ApiKey::Anthropic("sk-ant".to_owned()));
        assert_eq!(key(Conventions::Vllm, "anthropic"), own);
        assert_eq!(environment.hub.cache, Some(PathBuf::from("/h/hub")));
        assert_eq!(environment.hub.traffic, hub::NetworkUse::CacheOnly);
        let hub = |set: &[(&str, &str)]| {
            let variables = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            Environment::from_variables(&variables).hub
        };
        let cache = |set: &[(&str, &str)]| hub(set).cache;
        let home = ("HOME", "/u");
        assert_eq!(cache(&[home]), Some(PathBuf::from("/u/.cache/huggingface/hub")));
        let caches = cache(&[home, ("XDG_CACHE_HOME", "/c")]);
        assert_eq!(caches, Some(PathBuf::from("/c/huggingface/hub")));
        let named = cache(&[home, ("HUGGINGFACE_HUB_CACHE", "/b"), ("HF_HOME", "/h")]);
        assert_eq!(named, Some(PathBuf::from("/b")));
        // The key was looked for beside the cache, wherever that was.
        let token_file = |set: &[(&str, &str)]| hub(set).token_file;
        let at_home = Some(PathBuf::from("/u/.cache/huggingface/token"));
        assert_eq!(token_file(&[home, ("HF_HUB_CACHE", "/b/hub")]), at_home);
        let named = token_file(&[home, ("HF_TOKEN_PATH", "/t"), ("HF_HOME", "/h")]);
        assert_eq!(named, Some(PathBuf::from("/t")));
        let offline = hub(&[("TRANSFORMERS_OFFLINE", "1")]).traffic;
        assert_eq!(offline, hub::NetworkUse::CacheOnly);
    }

    #[test]
    fn a_terminal_without_codes_has_no_colours() {
        for (variable, value, expected) in [
            ("TERM", "dumb", TerminalCodes::Nothing),
            ("TERM", "xterm-256color", TerminalCodes::All),
            ("NO_COLOR", "1", TerminalCodes::NoColours),
        ] {
            let variables = |asked: &str| (asked == variable).then(|| value.to_owned());
            let environment = Environment::from_variables(&variables);
            assert_eq!(environment.codes, expected, "{variable}={value}");
        }
    }

    #[test]
    fn proxies_are_named_in_small_or_capital_letters() {
        let check = |set: &[(&str, &str)], expected: [Option<&str>; 2]| {
            let variables = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let proxies = Environment::from_variables(&variables).proxies;
            assert_eq!([proxies.http.as_deref(), proxies.https.as_deref()], expected, "{set:?}");
        };
        check(&[("HTTP_PROXY", "a"), ("https_proxy", "b")], [Some("a"), Some("b")]);
        check(&[("HTTP_PROXY", "a"), ("http_proxy", "c")], [Some("c"), None]);
        check(&[("HTTP_PROXY", "a"), ("REQUEST_METHOD", "GET")], [None, None]);
    }

    #[test]
    fn the_config_file_is_where_xdg_says() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(config_path(&variable), expected.map(PathBuf::from), "{set:?}");
        };
        let home = ("HOME", "/h");
        check(&[home], Some("/h/.config/tokometer/config.toml"));
        check(&[home, ("XDG_CONFIG_HOME", "/x")], Some("/x/tokometer/config.toml"));
        check(&[home, ("XDG_CONFIG_HOME", "x")], Some("/h/.config/tokometer/config.toml"));
        check(&[], None);
    }
}
