//! The client's side of TLS: which servers to believe, and which certificate to show them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use tokometer_base::pem::{self, KeyFault};

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Those signed by the system's roots.
    #[default]
    System,
    /// Those signed by a certificate in this PEM file or by the system's roots.
    File(PathBuf),
    /// All of them. For test servers with self-signed certificates.
    Anybody,
}

/// The certificate that the client shows, for servers that ask for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file with the certificate and those that lead to its root.
    pub certificate: PathBuf,
    /// PEM file with its private key, which may be the same file.
    pub key: PathBuf,
}

pub fn client_config(
    trust: &Trust,
    identity: Option<&ClientCertificate>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let builder = match trust {
        Trust::Anybody => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
        }
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::File(path) => builder.with_root_certificates(file_roots(path)?),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = identity.read()?;
            builder.with_client_auth_cert(chain, key).map_err(|why| identity.refused(&why))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

impl ClientCertificate {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let refused = |path: &PathBuf, reason| Error::Identity { path: path.clone(), reason };
        let chain = certificates(&self.certificate);
        let chain = chain.map_err(|reason| refused(&self.certificate, reason))?;
        let key = private_key(&self.key).map_err(|reason| refused(&self.key, reason))?;
        Ok((chain, key))
    }

    fn refused(&self, why: &rustls::Error) -> Error {
        let reason = match why {
            rustls::Error::InconsistentKeys(_) => {
                format!(
                    "the private key in `{}` belongs to another certificate",
                    self.key.display()
                )
            }
            why => why.to_string(),
        };
        Error::Identity { path: self.certificate.clone(), reason }
    }
}

/// Checks the files that the user named, for servers without TLS, which do not need them.
pub(crate) fn check_files(
    trust: &Trust,
    identity: Option<&ClientCertificate>,
) -> Result<(), Error> {
    if let Trust::File(path) = trust {
        let _roots = file_roots(path)?;
    }
    if let Some(identity) = identity {
        let _identity = client_config(&Trust::Anybody, Some(identity))?;
    }
    Ok(())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = std::fs::read(path).map_err(|why| why.to_string())?;
    pem::certificates(&bytes)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = std::fs::read(path).map_err(|why| why.to_string())?;
    pem::private_key(&bytes).map_err(|why| match why {
        KeyFault::Missing => format!("{why}; set --client-key"),
        other => other.to_string(),
    })
}

fn system_roots() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unusable) = roots.add_parsable_certificates(found.certs);
    match found.errors.first() {
        Some(error) if added == 0 => {
            Err(Error::Tls(format!("no system root certificates: {error}")))
        }
        _ => Ok(roots),
    }
}

fn file_roots(path: &Path) -> Result<RootCertStore, Error> {
    let refused = |reason: String| Error::Certificates { path: path.to_owned(), reason };
    // A private server's certificate must work on a machine without system roots.
    let mut roots = system_roots().unwrap_or_else(|_| RootCertStore::empty());
    for certificate in certificates(path).map_err(refused)? {
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    Ok(roots)
}

/// Accepts every certificate; signatures are still checked, so that a broken server is detected.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    use super::*;

    /// A server with a self-signed certificate, and that certificate as PEM.
    fn server() -> (ServerConnection, String) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        (ServerConnection::new(Arc::new(config)).unwrap(), made.cert.pem())
    }

    /// A handshake without sockets.
    fn greets(
        config: Arc<ClientConfig>,
        mut server: ServerConnection,
    ) -> Result<(), rustls::Error> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(config, name).unwrap();
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets()?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn a_private_certificate_is_trusted_by_its_file_or_without_verification() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let (connection, pem) = server();
        fs::write(&path, pem).unwrap();
        let trust = Trust::File(path.clone());
        assert_eq!(greets(client_config(&trust, None).unwrap(), connection), Ok(()));
        assert_eq!(greets(client_config(&Trust::Anybody, None).unwrap(), server().0), Ok(()));
        let stranger = greets(client_config(&trust, None).unwrap(), server().0);
        assert!(matches!(stranger, Err(rustls::Error::InvalidCertificate(_))), "{stranger:?}");
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "nothing").unwrap();
        let refusal = |path: &Path| {
            client_config(&Trust::File(path.to_owned()), None).unwrap_err().to_string()
        };
        assert!(refusal(&empty).contains("empty.pem`: it contains no certificate in PEM format"));
        assert!(refusal(&folder.path().join("gone.pem")).contains("gone.pem"));
    }

    #[test]
    fn a_client_certificate_that_cannot_be_used_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let made = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        let (own, other) = (made("own"), made("other"));
        let certificate = write("own.pem", &own.cert.pem());
        let both = write("both.pem", &(own.cert.pem() + &own.signing_key.serialize_pem()));
        let use_of = |certificate: &Path, key: &Path| {
            let (certificate, key) = (certificate.to_owned(), key.to_owned());
            let identity = ClientCertificate { certificate, key };
            client_config(&Trust::Anybody, Some(&identity)).map_err(|why| why.to_string())
        };
        assert!(use_of(&certificate, &both).is_ok());
        let check = |key: &Path, expected: &str| {
            let refusal = use_of(&certificate, key).unwrap_err();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check(&write("other.key", &other.signing_key.serialize_pem()), "belongs to another");
        check(&certificate, "contains no private key");
        check(&folder.path().join("gone.key"), "gone.key`: No such file");
        let encrypted =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----";
        check(&write("locked.key", encrypted), "is encrypted");
        let none = use_of(&write("empty.pem", ""), &both).unwrap_err();
        assert!(none.contains("empty.pem`: it contains no certificate"), "{none}");
    }
}
