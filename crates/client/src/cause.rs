//! Errors of the transport in words: what happened, whose limit it was, and what to try.
//!
//! In: an error of a socket or of TLS. Out: a sentence without the system's own jargon. Limits of this
//! machine are told apart from faults of the server, so that nobody looks for them in its log.

use std::io;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use rustls::CertificateError;

/// Whether this machine, not the server, keeps a connection from being made.
pub fn is_client_limit(error: &io::Error) -> bool {
    matches!(
        errno(error),
        Some(
            Errno::EMFILE
                | Errno::ENFILE
                | Errno::EADDRNOTAVAIL
                | Errno::ENOBUFS
                | Errno::ENOMEM
                | Errno::EACCES
                | Errno::EPERM
        )
    )
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}

pub fn describe(error: &io::Error) -> String {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return describe_tls(tls);
    }
    if let Some(words) = errno(error).and_then(limit) {
        return words.to_owned();
    }
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused: no server listens there",
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => {
            "the server reset the connection"
        }
        io::ErrorKind::BrokenPipe => {
            "the server closed the connection while the request was being sent"
        }
        io::ErrorKind::UnexpectedEof => "the server closed the connection without a response",
        io::ErrorKind::HostUnreachable => "no route to the host; check the address and the network",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            "the network is unreachable; check this machine's network"
        }
        io::ErrorKind::TimedOut if error.raw_os_error().is_some() => {
            "the host does not reply; check the address and firewalls"
        }
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The limit of this machine that an error stands for, with what to do about it.
fn limit(errno: Errno) -> Option<&'static str> {
    static DESCRIPTORS: OnceLock<String> = OnceLock::new();
    static PORTS: OnceLock<String> = OnceLock::new();
    Some(match errno {
        Errno::EMFILE => DESCRIPTORS.get_or_init(descriptors_used_up),
        Errno::ENFILE => {
            "this machine has no file descriptors left; raise the sysctl `fs.file-max`"
        }
        Errno::EADDRNOTAVAIL => PORTS.get_or_init(ports_used_up),
        Errno::ENOBUFS | Errno::ENOMEM => {
            "this machine has no memory left for another socket; free memory or open fewer connections"
        }
        Errno::EACCES | Errno::EPERM => {
            "this machine does not permit the connection; check its firewall and sandbox"
        }
        _ => return None,
    })
}

fn descriptors_used_up() -> String {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _hard)| soft);
    format!(
        "this process may open only {limit} files, and all are in use; raise `ulimit -n` or lower `--max-concurrency`"
    )
}

fn ports_used_up() -> String {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join("-");
    let range = if range.is_empty() { String::new() } else { format!(" ({range})") };
    format!(
        "this machine has no local address or port left for the connection{range}; widen the sysctl `net.ipv4.ip_local_port_range`, or keep connections open"
    )
}

fn describe_tls(error: &rustls::Error) -> String {
    use rustls::Error as E;
    match error {
        E::InvalidMessage(_) => {
            "the server does not speak TLS on this port; use http:// in `--base-url`".to_owned()
        }
        E::InvalidCertificate(why) => describe_certificate(why),
        E::NoCertificatesPresented => "the server sent no certificate".to_owned(),
        E::AlertReceived(alert) => {
            let name = alert.as_str().unwrap_or("an unknown alert");
            format!("the server refused the TLS handshake ({name}); check that the name in `--base-url` is the server's")
        }
        E::PeerIncompatible(_) => {
            "the server speaks no TLS version or cipher that this client has (TLS 1.2 or 1.3 is needed)"
                .to_owned()
        }
        other => format!("the TLS connection failed: {other}"),
    }
}

/// Whether a server presented the certificate of an authority as its own.
fn is_authority_s(why: &rustls::OtherError) -> bool {
    let why = why.0.downcast_ref::<webpki::Error>();
    matches!(why, Some(webpki::Error::CaUsedAsEndEntity))
}

/// A name as a certificate has it: the library writes `DnsName("a.example")` and `IpAddress(…)`.
fn bare_name(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(name).trim_matches('"')
}

/// What is wrong with the certificate of a server that no flag is about.
pub fn certificate_fault(error: &io::Error) -> Option<String> {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())?;
    let rustls::Error::InvalidCertificate(why) = tls else { return None };
    Some(format!("the server's certificate {}", certificate(why).0))
}

fn describe_certificate(why: &CertificateError) -> String {
    let (what, advice) = certificate(why);
    format!("the server's certificate {what}; {advice}")
}

/// What is wrong with a certificate, and what to do about it.
fn certificate(why: &CertificateError) -> (String, &'static str) {
    const ACCEPT: &str = "use `--insecure` to accept any certificate";
    const TRUST: &str =
        "use `--ca-cert FILE` to trust its authority, or `--insecure` to accept any certificate";
    const NAME: &str = "use its name in `--base-url` (`--resolve` sets the address), or `--insecure` to accept any certificate";
    match why {
        CertificateError::UnknownIssuer => {
            ("is self-signed or from an unknown authority".to_owned(), TRUST)
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired".to_owned(), ACCEPT)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet; check this machine's clock".to_owned(), ACCEPT)
        }
        CertificateError::NotValidForName => ("is for another host name".to_owned(), NAME),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare_name(name)).take(3).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            (format!("is not for `{}` but for {names}", expected.to_str()), NAME)
        }
        CertificateError::Revoked => ("was revoked".to_owned(), ACCEPT),
        // Trusting it as an authority, which `--ca-cert` does, is not enough.
        CertificateError::Other(why) if is_authority_s(why) => (
            "is that of an authority (`CA:TRUE`), as `openssl req -x509` makes it, and cannot be verified as a server's own".to_owned(),
            "make one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`, or use `--insecure` to accept any certificate",
        ),
        CertificateError::Other(why) => {
            (format!("is not accepted, as self-signed ones often are ({})", why.0), TRUST)
        }
        other => (format!("cannot be used ({other})"), TRUST),
    }
}

/// Whether a server answered a TLS handshake, so that waiting for it will not help.
pub fn is_tls_mismatch(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some()
}

/// What to try about a server that cannot be reached.
pub fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            "check that the port is the server's; a server for TLS needs https:// in `--base-url`"
        }
        _ if is_client_limit(error) => "the server was not at fault",
        io::ErrorKind::ConnectionRefused => {
            "check that the server is running; `tokometer sim` starts a simulated one"
        }
        _ => "check `--base-url`; `tokometer sim` starts a simulated server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_of_the_system_is_shown_as_it_is() {
        let check = |errno: Errno, part: &str, is_ours: bool| {
            let error = io::Error::from(errno);
            let said = describe(&error);
            assert!(said.contains(part), "{said}");
            assert!(!said.contains("os error"), "{said}");
            assert_eq!(is_client_limit(&error), is_ours, "{errno}");
        };
        check(Errno::ECONNREFUSED, "no server listens there", false);
        check(Errno::ECONNRESET, "the server reset the connection", false);
        check(Errno::EPIPE, "while the request was being sent", false);
        check(Errno::EHOSTUNREACH, "no route to the host", false);
        check(Errno::ENETUNREACH, "check this machine's network", false);
        check(Errno::ETIMEDOUT, "the host does not reply", false);
        check(Errno::EMFILE, "`ulimit -n`", true);
        check(Errno::ENFILE, "`fs.file-max`", true);
        check(Errno::EADDRNOTAVAIL, "ip_local_port_range", true);
        check(Errno::ENOBUFS, "no memory left for another socket", true);
        check(Errno::EPERM, "firewall", true);
    }

    #[test]
    fn certificates_that_cannot_be_trusted_name_the_flags() {
        let said = |why: CertificateError| {
            let error = rustls::Error::InvalidCertificate(why);
            describe(&io::Error::new(io::ErrorKind::InvalidData, error))
        };
        let check = |why: CertificateError, part: &str| {
            let is_of_authority = matches!(
                why,
                CertificateError::UnknownIssuer
                    | CertificateError::BadSignature
                    | CertificateError::Other(_)
            );
            let said = said(why);
            assert!(said.contains(part) && said.contains("`--insecure`"), "{said}");
            assert_eq!(said.contains("`--ca-cert FILE`"), is_of_authority, "{said}");
        };
        let unknown = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let unknown = io::Error::new(io::ErrorKind::InvalidData, unknown);
        assert_eq!(
            certificate_fault(&unknown).as_deref(),
            Some("the server's certificate is self-signed or from an unknown authority"),
            "the flags are for the target alone"
        );
        let presented =
            ["DnsName(\"a.example\")", "IpAddress(10.0.0.1)"].map(str::to_owned).to_vec();
        let expected = rustls::pki_types::ServerName::try_from("b.example").unwrap();
        assert_eq!(
            said(CertificateError::NotValidForNameContext { expected, presented }),
            "the server's certificate is not for `b.example` but for a.example, 10.0.0.1; use its name in \
             `--base-url` (`--resolve` sets the address), or `--insecure` to accept any certificate"
        );
        check(CertificateError::UnknownIssuer, "self-signed or from an unknown authority");
        check(CertificateError::Expired, "has expired");
        check(CertificateError::NotValidForName, "for another host name");
        check(CertificateError::BadSignature, "cannot be used");
        let other = |why| CertificateError::Other(rustls::OtherError(std::sync::Arc::new(why)));
        let version = "as self-signed ones often are (UnsupportedCertVersion)";
        check(other(webpki::Error::UnsupportedCertVersion), version);
        // `--ca-cert` was advised to those who had given it.
        let said = said(other(webpki::Error::CaUsedAsEndEntity));
        assert!(said.contains("`CA:TRUE`") && said.contains("`--insecure`"), "{said}");
        assert!(!said.contains("--ca-cert"), "{said}");
    }
}
