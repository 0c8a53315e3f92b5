//! The server under test: its address and protocol.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokometer_client as client;
use tokometer_client::conn::NamedAddresses;
use tokometer_client::secret::Headers;
use tokometer_client::tls::Trust;

use crate::secret::UrlText;

#[derive(Debug, Clone, PartialEq)]
pub enum Address {
    /// The embedded simulated server with this engine profile.
    Simulator(String),
    Server(client::Url),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator(profile) => write!(f, "simulator:{profile}"),
            Self::Server(url) => write!(f, "{url}"),
        }
    }
}

impl FromStr for Address {
    type Err = client::Error;

    fn from_str(text: &str) -> Result<Self, client::Error> {
        match text.strip_prefix("simulator") {
            Some("") => Ok(Self::Simulator("default".to_owned())),
            Some(rest) if rest.starts_with(':') => Ok(Self::Simulator(rest[1..].to_owned())),
            _ => client::Url::parse(text).map(Self::Server),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Target / PartialTarget {
        /// Where requests go: a URL, or `simulator:PROFILE`.
        pub address: Address,
        /// Written as the backend's name.
        pub backend: client::Dialect,
        /// Path of the measured route; absent: the backend's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint: Option<UrlText> = None,
        /// Model as the user named it; absent: the first that the server lists.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<String> = None,
        /// Name sent to the server, where it differs from `model`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub served_model_name: Option<String> = None,
        /// Sent with every request. Only values of public headers are written.
        pub headers: Headers = Headers::default(),
        pub trust: Trust = Trust::default(),
        /// The certificate shown to the server, where it asks for one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub identity: Option<CertificateFiles> = None,
        /// Fixed addresses of host names, used instead of DNS.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub resolve: Vec<NamedAddresses> = Vec::new(),
        #[serde(skip_serializing_if = "ProxyUse::is_default")]
        pub proxy: ProxyUse = ProxyUse::default(),
    }
}

/// Whether the proxies that the environment names are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyUse {
    #[default]
    Environment,
    Never,
}

impl ProxyUse {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A client certificate: files in PEM format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// The certificate and those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key; absent: in the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_server_or_the_simulator() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), expected, "{text}");
        };
        check("simulator", "simulator:default");
        check("simulator:h100-8b", "simulator:h100-8b");
        check("http://127.0.0.1:8000", "http://127.0.0.1:8000");
        check("simulatorhost:80", "http://simulatorhost");
        assert!("http://".parse::<Address>().is_err());
    }
}
