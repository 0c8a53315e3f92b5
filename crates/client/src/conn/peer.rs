//! Addresses that connections go to, and names whose addresses the user gives.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    Unix(Arc<Path>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Addresses to use for a host and port instead of asking a name server, written
/// `HOST:PORT:ADDRESS[,ADDRESS]` as for curl's `--resolve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAddresses {
    /// The name; `*` stands for every name.
    pub host: String,
    pub port: u16,
    /// At least one.
    pub addresses: Vec<IpAddr>,
}

impl NamedAddresses {
    /// The addresses, where they hold for this host and port.
    pub fn of(&self, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
        let is_meant =
            (self.host == "*" || self.host.eq_ignore_ascii_case(host)) && self.port == port;
        is_meant.then(|| self.addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect())
    }
}

impl FromStr for NamedAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write it as HOST:PORT:ADDRESS[,ADDRESS]".to_owned();
        // An IPv6 host stands in brackets, so that its colons are not taken for separators.
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(form)?,
            None => text.split_once(':').ok_or_else(form)?,
        };
        let (port, addresses) = rest.split_once(':').ok_or_else(form)?;
        if host.is_empty() {
            return Err(form());
        }
        let port = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
        let address = |text: &str| {
            let bare = text.trim().trim_start_matches('[').trim_end_matches(']');
            bare.parse().map_err(|_| format!("`{text}` is not an IP address"))
        };
        let addresses = addresses.split(',').map(address).collect::<Result<_, _>>()?;
        Ok(Self { host: host.to_owned(), port, addresses })
    }
}

impl fmt::Display for NamedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, addresses } = self;
        let is_ipv6 = host.contains(':');
        let (open, close) = if is_ipv6 { ("[", "]") } else { ("", "") };
        write!(f, "{open}{host}{close}:{port}:")?;
        for (index, address) in addresses.iter().enumerate() {
            write!(f, "{}{address}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Serialize for NamedAddresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NamedAddresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_name_are_read_and_printed_alike() {
        for text in ["h:80:127.0.0.1", "h:8000:127.0.0.1,::1", "[::1]:80:10.0.0.1", "*:1:::1"] {
            assert_eq!(text.parse::<NamedAddresses>().unwrap().to_string(), text);
        }
        assert_eq!(
            "h:80:[::1], 10.0.0.1".parse::<NamedAddresses>().unwrap().to_string(),
            "h:80:::1,10.0.0.1"
        );
        for bad in ["", "h", "h:80", "h:80:", ":80:::1", "h:x:::1", "h:80:nowhere", "h:80:::1,"] {
            assert!(bad.parse::<NamedAddresses>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_is_meant_in_any_case_and_with_its_own_port_only() {
        let named: NamedAddresses = "Host:80:10.0.0.1".parse().unwrap();
        assert_eq!(named.of("hOST", 80), Some(vec![SocketAddr::from(([10, 0, 0, 1], 80))]));
        assert_eq!(named.of("host", 81), None);
        assert_eq!(named.of("other", 80), None);
        let any: NamedAddresses = "*:80:10.0.0.1".parse().unwrap();
        assert!(any.of("other", 80).is_some());
    }
}
