//! TLS between shards: both sides show a certificate, and both check that of the other.
//!
//! Optional, and in addition to the shared secret: the secret says who may join, TLS hides the record
//! from the network.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig,
    ServerConnection,
};
use tokometer_base::pem;

/// Files in PEM format that a shard needs for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate, with those that lead to the authority.
    pub certificate: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
    /// Authorities that have signed the certificates of all shards.
    pub authorities: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}`: {why}", path.display())]
pub struct TlsFileError {
    pub path: PathBuf,
    pub why: String,
}

/// What a shard needs to connect, or to let others connect, with TLS.
#[derive(Debug, Clone)]
pub struct ShardTls {
    leader: Arc<ServerConfig>,
    follower: Arc<ClientConfig>,
}

impl ShardTls {
    pub fn read(files: &TlsFiles) -> Result<Self, TlsFileError> {
        let of = |path: &Path, why: String| TlsFileError { path: path.to_owned(), why };
        let read = |path: &Path| std::fs::read(path).map_err(|why| of(path, why.to_string()));
        let certificates =
            |path: &Path| pem::certificates(&read(path)?).map_err(|why| of(path, why));
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authorities)? {
            roots.add(authority).map_err(|why| of(&files.authorities, why.to_string()))?;
        }
        let (roots, chain) = (Arc::new(roots), certificates(&files.certificate)?);
        let key =
            pem::private_key(&read(&files.key)?).map_err(|why| of(&files.key, why.to_string()))?;
        let unusable = |why: rustls::Error| {
            let why = match why {
                rustls::Error::InconsistentKeys(_) => {
                    format!("the private key in `{}` does not fit it", files.key.display())
                }
                other => other.to_string(),
            };
            of(&files.certificate, why)
        };
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|why| of(&files.authorities, why.to_string()))?;
        let mut leader = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unusable)?;
        // Nobody resumes a session: a shard that has lost its connection is lost.
        leader.send_tls13_tickets = 0;
        let follower = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unusable)?;
        Ok(Self { leader: Arc::new(leader), follower: Arc::new(follower) })
    }

    /// The leader's side of a connection.
    pub(crate) fn accept(&self) -> io::Result<Connection> {
        let connection = ServerConnection::new(Arc::clone(&self.leader));
        connection.map(Connection::Server).map_err(io::Error::other)
    }

    /// A follower's side of a connection to `HOST:PORT`, whose certificate must be for HOST.
    pub(crate) fn connect(&self, address: &str) -> io::Result<Connection> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(&self.follower), name);
        connection.map(Connection::Client).map_err(io::Error::other)
    }
}

/// What went wrong with TLS, seen from a follower. `None` where it was something else.
pub(crate) fn explain(error: &io::Error) -> Option<String> {
    use rustls::Error as E;
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        E::InvalidMessage(_) => {
            "it does not use TLS: give all shards the same `--shard-tls-…` flags".to_owned()
        }
        E::InvalidCertificate(why) => explain_certificate(why),
        E::AlertReceived(alert) => {
            let name = alert.as_str().unwrap_or("an unknown alert");
            format!(
                "it refused the certificate of this shard ({name}): `--shard-tls-ca` of shard 0 must have signed it"
            )
        }
        other => other.to_string(),
    })
}

fn explain_certificate(why: &CertificateError) -> String {
    match why {
        // A signature is bad where another authority has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority in `--shard-tls-ca` has signed its certificate".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name: `--leader` must name the host that the certificate is for".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks of both machines".to_owned()
        }
        other => format!("its certificate cannot be used ({other})"),
    }
}
