//! TLS client configuration: which certificates are trusted.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::Error;

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those signed by the system's roots.
    #[default]
    System,
    /// Those signed by a certificate in this PEM file or by the system's roots.
    File(PathBuf),
    /// All of them. For test servers with self-signed certificates.
    Anybody,
}

/// The ALPN protocol is HTTP/1.1.
pub fn client_config(trust: &Trust) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let mut config = match trust {
        Trust::Anybody => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
            .with_no_client_auth(),
        Trust::System => builder.with_root_certificates(system_roots()?).with_no_client_auth(),
        Trust::File(path) => {
            builder.with_root_certificates(file_roots(path)?).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
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

fn file_roots(path: &PathBuf) -> Result<RootCertStore, Error> {
    let refused = |reason: String| Error::Certificates { path: path.clone(), reason };
    // A private server's certificate must work on a machine without system roots.
    let mut roots = system_roots().unwrap_or_else(|_| RootCertStore::empty());
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))?;
    let mut count = 0;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(refused("it contains no certificate".to_owned()));
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
    use std::path::Path;

    use rustls::pki_types::PrivateKeyDer;
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
        assert_eq!(greets(client_config(&trust).unwrap(), connection), Ok(()));
        assert_eq!(greets(client_config(&Trust::Anybody).unwrap(), server().0), Ok(()));
        let stranger = greets(client_config(&trust).unwrap(), server().0);
        assert!(matches!(stranger, Err(rustls::Error::InvalidCertificate(_))), "{stranger:?}");
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "nothing").unwrap();
        let refusal =
            |path: &Path| client_config(&Trust::File(path.to_owned())).unwrap_err().to_string();
        assert!(refusal(&empty).contains("empty.pem`: it contains no certificate"));
        assert!(refusal(&folder.path().join("gone.pem")).contains("gone.pem"));
    }
}
