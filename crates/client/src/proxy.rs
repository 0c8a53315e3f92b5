//! Proxies: which one stands between us and a server, and how it is spoken to.
//!
//! The rules are those of curl and of Python's clients: a proxy per scheme, one for all schemes as a
//! fallback, and a list of hosts that are reached directly. Unlike these, and like Go's client, the
//! loopback addresses of this machine are never looked for behind a proxy: there they would name the
//! proxy's own machine. A password in a proxy's URL is sent to that proxy and never shown.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use percent_encoding::percent_decode_str;

use crate::error::Error;
use crate::url::{Scheme, Url};

#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// User and password, as in the URL but decoded.
    credentials: Option<String>,
}

impl Proxy {
    /// Reads `[http://][user:password@]host[:port]`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refused = |reason| Error::Proxy { reason };
        let text = text.trim();
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let parsed = url::Url::parse(&text).map_err(|_| refused("it is not a URL"))?;
        if parsed.scheme() != "http" {
            return Err(refused("only proxies with http:// URLs are supported"));
        }
        let host = parsed.host_str().ok_or_else(|| refused("it has no host"))?;
        let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let has_user = !parsed.username().is_empty() || parsed.password().is_some();
        let credentials = has_user.then(|| {
            let (user, password) = (parsed.username(), parsed.password().unwrap_or_default());
            format!("{}:{}", decoded(user), decoded(password))
        });
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: parsed.port().unwrap_or(80), credentials })
    }

    pub(crate) fn authorization(&self) -> Option<String> {
        let encode = |text: &String| base64::engine::general_purpose::STANDARD.encode(text);
        self.credentials.as_ref().map(|text| format!("Basic {}", encode(text)))
    }
}

/// Without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = Url::http(self.host.clone(), self.port);
        write!(f, "http://{}", url.host_and_port())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// The proxies of an environment, as its variables name them. May hold passwords.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// `http_proxy`: for plain HTTP.
    pub http: Option<String>,
    /// `https_proxy`: for HTTP over TLS.
    pub https: Option<String>,
    /// `all_proxy`: where the scheme has none of its own.
    pub all: Option<String>,
    /// `no_proxy`: hosts that are reached directly.
    pub exempt: Option<String>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").field("exempt", &self.exempt).finish_non_exhaustive()
    }
}

impl Proxies {
    /// The proxy for a server; `None` where it is reached directly.
    pub fn for_url(&self, url: &Url) -> Result<Option<Proxy>, Error> {
        let own = match url.scheme {
            Scheme::Http => &self.http,
            Scheme::Https => &self.https,
        };
        let Some(text) = own.as_ref().or(self.all.as_ref()) else { return Ok(None) };
        let exempt = self.exempt.as_deref().unwrap_or_default();
        if url.socket.is_some() || is_loopback(&url.host) || is_exempt(exempt, url) {
            return Ok(None);
        }
        Proxy::parse(text).map(Some)
    }

    /// Passwords, for [`tokometer_base::redact::redact`].
    pub fn secrets(&self) -> Vec<String> {
        let all = [&self.http, &self.https, &self.all];
        let proxies = all.into_iter().flatten().filter_map(|text| Proxy::parse(text).ok());
        proxies
            .flat_map(|proxy| {
                let encoded = proxy
                    .authorization()
                    .and_then(|value| value.strip_prefix("Basic ").map(str::to_owned));
                let password = proxy
                    .credentials
                    .and_then(|text| text.split_once(':').map(|(_, password)| password.to_owned()));
                [encoded, password]
            })
            .flatten()
            .filter(|secret| !secret.is_empty())
            .collect()
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let is_name =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_name || host.parse().is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback())
}

/// Whether a list such as `example.org, .internal, 10.0.0.0/8, [::1]:80` names the server.
fn is_exempt(list: &str, url: &Url) -> bool {
    let entries = list.split([',', ' ', '\t']).map(str::trim).filter(|entry| !entry.is_empty());
    let mut entries = entries.map(str::to_ascii_lowercase);
    entries.any(|entry| entry == "*" || names(&entry, url))
}

fn names(entry: &str, url: &Url) -> bool {
    let host = url.host.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(own) = host.parse::<IpAddr>()
        && let Some((network, bits)) = entry.split_once('/')
    {
        return in_network(own, network, bits).unwrap_or(false);
    }
    let (name, port) = split_port(entry);
    if port.is_some_and(|port| port != url.port.to_string()) {
        return false;
    }
    if let (Ok(own), Ok(named)) = (host.parse::<IpAddr>(), name.parse::<IpAddr>()) {
        return own.to_canonical() == named.to_canonical();
    }
    // `example.org`, `.example.org` and `*.example.org` all name the domain and what is below it.
    let domain = name.trim_start_matches('*').trim_matches('.');
    let above = host.strip_suffix(domain);
    !domain.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// `host:port`, `[ipv6]:port`, or a bare host, which may be an IPv6 address.
fn split_port(entry: &str) -> (&str, Option<&str>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (host, after) = rest.split_once(']').unwrap_or((rest, ""));
        return (host, after.strip_prefix(':'));
    }
    match entry.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

/// Whether an address lies in a network such as `10.0.0.0/8`; `None` where that is no network.
fn in_network(own: IpAddr, network: &str, bits: &str) -> Option<bool> {
    let network: IpAddr = network.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    let (own, network, width) = match (own.to_canonical(), network) {
        (IpAddr::V4(own), IpAddr::V4(network)) => {
            (u128::from(own.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(own), IpAddr::V6(network)) => (own.to_bits(), network.to_bits(), 128),
        _ => return Some(false),
    };
    let rest = u32::checked_sub(width, bits)?;
    Some(rest == 128 || own >> rest == network >> rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_s_password_is_sent_and_never_shown() {
        let proxy = Proxy::parse("http://me:p%40ss@proxy.test:3128/").unwrap();
        assert_eq!(proxy.authorization().as_deref(), Some("Basic bWU6cEBzcw=="));
        for shown in [proxy.to_string(), format!("{proxy:?}")] {
            assert!(shown.contains("http://proxy.test:3128"), "{shown}");
            assert!(!shown.contains("ss@") && !shown.contains("bWU6"), "{shown}");
        }
        let proxies = Proxies { all: Some("me:p%40ss@h".to_owned()), ..Proxies::default() };
        assert_eq!(proxies.secrets(), ["bWU6cEBzcw==", "p@ss"]);
        assert!(!format!("{proxies:?}").contains("ss"));
        for bad in ["socks5://h:1080", "https://h", "http://", "http://h:99999"] {
            assert!(Proxy::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Proxy::parse("proxy").unwrap().to_string(), "http://proxy:80");
    }

    #[test]
    fn each_scheme_has_its_proxy_and_this_machine_none() {
        let proxies = Proxies {
            http: Some("http://plain:1".to_owned()),
            all: Some("http://any:2".to_owned()),
            ..Proxies::default()
        };
        let check = |url: &str, expected: Option<&str>| {
            let found = proxies.for_url(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(found.map(|proxy| proxy.host).as_deref(), expected, "{url}");
        };
        check("http://h", Some("plain"));
        check("https://h", Some("any"));
        for own in ["http://localhost:8000", "http://127.0.0.2", "http://[::1]", "unix:/s"] {
            check(own, None);
        }
        let none = Proxies { http: None, all: None, ..proxies.clone() };
        assert_eq!(none.for_url(&Url::parse("http://h").unwrap()).unwrap(), None);
    }

    #[test]
    fn exempt_hosts_are_named_by_name_suffix_port_address_or_network() {
        let check = |list: &str, url: &str, expected: bool| {
            assert_eq!(is_exempt(list, &Url::parse(url).unwrap()), expected, "{list} {url}");
        };
        check("*", "http://h", true);
        check("example.org", "http://example.org", true);
        check("Example.ORG", "http://api.example.org", true);
        check(".example.org", "http://api.example.org", true);
        check("*.example.org", "http://api.example.org:8000", true);
        check("example.org", "http://notexample.org", false);
        check("other, example.org:8000", "http://example.org:8000", true);
        check("example.org:8000", "http://example.org", false);
        check("10.0.0.0/8", "http://10.1.2.3", true);
        check("10.0.0.0/8", "http://11.1.2.3", false);
        check("10.0.0.0/8", "http://ten.test", false);
        check("0.0.0.0/0", "http://11.1.2.3", true);
        check("10.1.2.3", "http://10.1.2.3:9", true);
        check("10.1.2.3:8", "http://10.1.2.3:9", false);
        check("fd00::/8", "http://[fd12::1]:9", true);
        check("::/0", "http://[fd12::1]:9", true);
        check("[fd12::1]:9", "http://[fd12::1]:9", true);
        check("fd12::1", "http://[fd12::1]", true);
        check("10.0.0.0/99, 10.0.0.0/x, , .", "http://10.0.0.1", false);
        check("", "http://h", false);
    }
}
