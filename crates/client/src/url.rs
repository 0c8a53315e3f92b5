//! The address of a server: `http://host:port/prefix`.
//!
//! Only what a base URL needs: no user names, no fragments. A query parameter that may be a secret
//! is sent but never shown: [`Url`]'s `Display` and its serialised form replace it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokometer_base::redact::{Secrets, hide_in_url};

use crate::Error;

/// Plain or encrypted HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP over TCP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    fn name(self) -> &'static str {
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

/// A server's base URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// `http` when the user gave none.
    pub scheme: Scheme,
    /// Name or address; an IPv6 literal without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Prefix of every path, without a trailing slash. Usually empty.
    pub path_prefix: String,
    /// The part after `?`, sent with the measured route. May hold a key.
    pub query: Option<String>,
}

impl Url {
    /// Plain HTTP without a path prefix.
    pub fn http(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { scheme: Scheme::Http, host, port, path_prefix: String::new(), query: None }
    }

    /// Parses `[http[s]://]host[:port][/prefix][?query]`. The default scheme is HTTP.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refused = |reason| Error::Address { address: hide_in_url(text.trim()), reason };
        let (scheme, rest) = match text.trim().split_once("://") {
            None => (Scheme::Http, text.trim()),
            Some((name, rest)) if name.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((name, rest)) if name.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some(_) => return Err(refused("only http and https are supported")),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned()).filter(|query| !query.is_empty())),
            None => (rest, None),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(refused(
                "user names in addresses are not supported; use `--header` instead",
            ));
        }
        let (host, port) = split_authority(authority).ok_or_else(|| refused("it has no host"))?;
        let port = match port {
            None | Some("") => scheme.default_port(),
            Some(port) => {
                port.parse().map_err(|_| refused("its port is not a number below 65536"))?
            }
        };
        let is_clean = |text: &str| !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
        if !is_clean(host) || !is_clean(path) || !query.as_deref().is_none_or(is_clean) {
            return Err(refused("spaces and control characters must be percent-encoded"));
        }
        let path_prefix = path.trim_end_matches('/').to_owned();
        Ok(Self { scheme, host: host.to_owned(), port, path_prefix, query })
    }

    /// The value of the `Host` header: brackets around IPv6, no default port.
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Resolves the host name. This may query a name server.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// Whether connections use TLS.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The URL of `path`, for messages.
    pub fn at(&self, path: &str) -> String {
        let address =
            format!("{}://{}{}{path}", self.scheme.name(), self.authority(), self.path_prefix);
        hide_in_url(&address)
    }

    /// Adds what may be secret in the query.
    pub fn add_to(&self, secrets: &mut Secrets) {
        let query = self.query.as_deref().unwrap_or_default();
        secrets.add_url(&format!("/?{query}"));
    }
}

fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
    } else {
        match authority.split_once(':') {
            // More than one colon without brackets is an IPv6 address without a port.
            Some((_, port)) if port.contains(':') => (authority, None),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    (!host.is_empty()).then_some((host, port))
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
        for bad in ["", "http://", "ftp://h", "http://h:99999", "http://h:x", "http://a b", "[::1"]
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
}
