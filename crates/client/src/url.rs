//! The address of a server: `http://host:port/prefix`, or `unix:/path/to.sock` for a Unix-domain socket.
//!
//! Only what a base URL needs: no user names, no fragments. A query parameter that may be a secret
//! is sent but never shown: [`Url`]'s `Display` and its serialised form replace it.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokometer_base::redact::{Secrets, hide_in_url};

use crate::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The longest path of a Unix-domain socket: the kernel's field has 108 bytes, the last of them zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// `http` when the user gave none.
    pub scheme: Scheme,
    /// The Unix-domain socket that the server listens on; `None` for TCP.
    pub socket: Option<PathBuf>,
    /// Name or address; an IPv6 literal without its brackets.
    pub host: String,
    pub port: u16,
    /// Prefix of every path, without a trailing slash. Usually empty.
    pub path_prefix: String,
    /// The part after `?`, sent with the measured route. May hold a key.
    pub query: Option<String>,
}

impl Url {
    pub fn http(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        let scheme = Scheme::Http;
        Self { scheme, socket: None, host, port, path_prefix: String::new(), query: None }
    }

    /// Reads `[http[s]://]host[:port][/prefix][?query]`, `unix:PATH[:/prefix][?query]` or
    /// `http+unix://PERCENT_ENCODED_PATH[/prefix][?query]`. Without a scheme, HTTP is meant.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        Self::read(text).map_err(|reason| Error::Address { address: hide_in_url(text), reason })
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err("spaces and control characters must be percent-encoded");
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            // `unix:///path` is how some tools write `unix:/path`.
            let (rest, query) = split_query(rest.strip_prefix("//").unwrap_or(rest));
            let (path, prefix) = rest.split_once(":/").unwrap_or((rest, ""));
            return Self::unix(path.to_owned(), prefix, query);
        }
        if let Some(rest) = text.strip_prefix("http+unix://") {
            let (rest, query) = split_query(rest);
            let (path, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let path =
                percent_decode_str(path).decode_utf8().map_err(|_| "its path is not UTF-8")?;
            return Self::unix(path.into_owned(), prefix, query);
        }
        let (scheme, rest) = match text.split_once("://") {
            // The URL standard reads a number as an IPv4 address: 30 would be 0.0.0.30.
            None if text.parse::<u64>().is_ok() => {
                return Err("a number is no address; write it as http://HOST:PORT");
            }
            None => (Scheme::Http, text),
            Some((name, rest)) if name.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((name, rest)) if name.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some(_) => return Err("only http, https and unix are supported"),
        };
        let (bracketed, zone) = bracketed(rest);
        let parsed =
            url::Url::parse(&format!("{}://{bracketed}", scheme.name())).map_err(reason)?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("user names in addresses are not supported; use `--header` instead");
        }
        let host = match parsed.host() {
            None => return Err("it has no host"),
            Some(url::Host::Ipv6(address)) => format!("{address}{zone}"),
            Some(host) => host.to_string(),
        };
        Ok(Self {
            scheme,
            socket: None,
            host,
            port: parsed.port().unwrap_or(scheme.default_port()),
            path_prefix: parsed.path().trim_end_matches('/').to_owned(),
            query: parsed.query().filter(|query| !query.is_empty()).map(str::to_owned),
        })
    }

    /// A server on a Unix-domain socket, which has no name of its own: `localhost` is sent, as by curl.
    fn unix(path: String, prefix: &str, query: Option<String>) -> Result<Self, &'static str> {
        if path.is_empty() {
            return Err("it has no path of a socket");
        }
        if path.len() > MAX_SOCKET_PATH_BYTES {
            return Err("the path of a Unix-domain socket has at most 107 bytes");
        }
        let prefix = prefix.trim_end_matches('/');
        let path_prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        let port = Scheme::Http.default_port();
        let plain = Self::http("localhost", port);
        Ok(Self { socket: Some(PathBuf::from(path)), path_prefix, query, ..plain })
    }

    /// The value of the `Host` header: brackets around IPv6, no default port.
    pub fn authority(&self) -> String {
        let host = self.bracketed_host();
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed_host(), self.port)
    }

    fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// The prefix for the server's own routes, all of which are named from its root. OpenAI's clients
    /// want an address that ends in `/v1`, so such an address is understood.
    pub(crate) fn root_prefix(&self) -> &str {
        self.path_prefix.strip_suffix("/v1").unwrap_or(&self.path_prefix)
    }

    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether both have the scheme, host and port, or the socket, of one server: keys and headers of one go to
    /// no other.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let server = |url: &Self| (url.scheme, url.host.clone(), url.port, url.socket.clone());
        server(self) == server(other)
    }

    pub fn at(&self, path: &str) -> String {
        let prefix = if path.is_empty() { &self.path_prefix } else { self.root_prefix() };
        let path = format!("{prefix}{path}");
        let address = match &self.socket {
            Some(socket) if path.is_empty() => format!("unix:{}", socket.display()),
            Some(socket) => format!("unix:{}:{path}", socket.display()),
            None => format!("{}://{}{path}", self.scheme.name(), self.authority()),
        };
        hide_in_url(&address)
    }

    /// A path with the query of this address behind its own.
    pub(crate) fn with_query(&self, path: &str) -> String {
        let joint = if path.contains('?') { '&' } else { '?' };
        match &self.query {
            Some(query) => format!("{path}{joint}{query}"),
            None => path.to_owned(),
        }
    }

    /// Adds what may be secret in the query.
    pub fn add_to(&self, secrets: &mut Secrets) {
        let query = self.query.as_deref().unwrap_or_default();
        secrets.add_url(&format!("/?{query}"));
    }
}

/// A query cut off from what stands before it.
fn split_query(text: &str) -> (&str, Option<String>) {
    match text.split_once('?') {
        Some((rest, query)) => (rest, Some(query.to_owned()).filter(|query| !query.is_empty())),
        None => (text, None),
    }
}

/// An address whose IPv6 host stands in brackets and without its zone, and that zone with its `%`.
fn bracketed(rest: &str) -> (String, String) {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, after) = match authority.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some(parts) => parts,
        // More than one colon without brackets is an IPv6 address without a port.
        None if authority.matches(':').count() > 1 && !authority.contains(['@', '[']) => {
            (authority, "")
        }
        None => return (rest.to_owned(), String::new()),
    };
    let (host, zone) = host.find('%').map_or((host, ""), |at| host.split_at(at));
    (format!("[{host}]{after}{path}"), zone.replacen("%25", "%", 1))
}

fn reason(error: url::ParseError) -> &'static str {
    match error {
        url::ParseError::EmptyHost => "it has no host",
        url::ParseError::InvalidPort => "its port is not a number below 65536",
        url::ParseError::InvalidIpv4Address | url::ParseError::InvalidIpv6Address => {
            "its host is not a valid IP address"
        }
        _ => "its host is not a valid name",
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at(""))?;
        match &self.query {
            Some(query) => f.write_str(&hide_in_url(&format!("?{query}"))),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl Serialize for Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_defaults() {
        let check = |text: &str, host: &str, port: u16, prefix: &str, authority: &str| {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!((url.path_prefix.as_str(), url.authority().as_str()), (prefix, authority));
        };
        check("http://127.0.0.1:8000", "127.0.0.1", 8000, "", "127.0.0.1:8000");
        check(
            "https://api.example.org/proxy/",
            "api.example.org",
            443,
            "/proxy",
            "api.example.org",
        );
        check("localhost:30000", "localhost", 30000, "", "localhost:30000");
        check("http://[::1]:8000/v1", "::1", 8000, "/v1", "[::1]:8000");
        check("HTTP://[fe80::1]", "fe80::1", 80, "", "[fe80::1]");
        check("::1", "::1", 80, "", "[::1]");
        check("http://[fe80::1%25eth0]:8000", "fe80::1%eth0", 8000, "", "[fe80::1%eth0]:8000");
        check("http://my_service:8000/a/b//", "my_service", 8000, "/a/b", "my_service:8000");
        check(" http://Host:/v1?x=1#y ", "host", 80, "/v1", "host");
        check("https://h:443", "h", 443, "", "h");
        check("https://h:80", "h", 80, "", "h:80");
        for bad in ["", "http://", "ftp://h", "http://h:99999", "http://h:x", "http://a b", "[::1"]
            .into_iter()
            .chain(["http://h/a b", "http://h:-1", "unix:", "unix:/a b", "http+unix:///v1", "30"])
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_inside_an_address_are_sent_but_never_shown() {
        let url = Url::parse("https://h/v1?api_key=verysecret&x=1").unwrap();
        assert_eq!(url.query.as_deref(), Some("api_key=verysecret&x=1"));
        assert_eq!(url.to_string(), "https://h/v1?api_key=[redacted]&x=[redacted]");
        let refusal = Url::parse("http://me:verysecret@h/").unwrap_err().to_string();
        assert!(!refusal.contains("verysecret"), "{refusal}");
    }

    #[test]
    fn unix_domain_sockets_are_read_in_both_forms_and_printed_in_one() {
        let check = |text: &str, socket: &str, prefix: &str, shown: &str| {
            let url = Url::parse(text).unwrap();
            assert_eq!(url.socket.as_deref(), Some(std::path::Path::new(socket)), "{text}");
            assert_eq!((url.path_prefix.as_str(), url.to_string().as_str()), (prefix, shown));
            assert_eq!(url.authority(), "localhost");
            assert_eq!(Url::parse(&url.to_string()).unwrap(), url, "{text}");
        };
        check("unix:/run/s.sock", "/run/s.sock", "", "unix:/run/s.sock");
        check("unix:///run/s.sock", "/run/s.sock", "", "unix:/run/s.sock");
        check("unix:s.sock", "s.sock", "", "unix:s.sock");
        check("unix:/run/s.sock:/v1/", "/run/s.sock", "/v1", "unix:/run/s.sock:/v1");
        check("http+unix://%2Frun%2Fs.sock/v1", "/run/s.sock", "/v1", "unix:/run/s.sock:/v1");
        assert_eq!(Url::parse("unix:/s").unwrap().at("/health"), "unix:/s:/health");
        assert_eq!(Url::parse("unix:/s:/v1?x=1").unwrap().query.as_deref(), Some("x=1"));
        assert!(Url::parse(&format!("unix:/{}", "x".repeat(107))).is_err());
    }
}
