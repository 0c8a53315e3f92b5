//! Certificates: which servers are believed, and what is shown to those that ask.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::{bench, succeeded};
use crate::program::ended;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for `name` that `authority` has signed, with its key.
pub(crate) fn issued(authority: &Authority, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap(), key)
}

/// A connection of a client, decrypted.
pub(crate) type TlsStream = StreamOwned<ServerConnection, TcpStream>;

/// Which clients a server accepts.
#[derive(Clone, Copy)]
pub(crate) enum Clients {
    Any,
    /// Those with a certificate of the server's authority.
    Known,
}

/// A server with a certificate of `authority`; `answer` gets each connection. Its address.
pub(crate) fn server(
    authority: &Authority,
    clients: Clients,
    answer: impl Fn(TlsStream) + Clone + Send + 'static,
) -> String {
    let (certificate, key) = issued(authority, "localhost");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = match clients {
        Clients::Any => verifier.allow_unauthenticated(),
        Clients::Known => verifier,
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(connection, stream.unwrap());
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

/// Answers one request. `None` when the client goes away.
fn answer<S: Read + Write>(stream: S) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
    let (kind, body) = if head.starts_with("POST ") {
        let event = r#"data: {"choices":[{"index":0,"text":" word"}]}"#;
        let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":4}}"#;
        (
            "text/event-stream",
            format!("{}{usage}\n\ndata: [DONE]\n\n", format!("{event}\n\n").repeat(4)),
        )
    } else {
        ("application/json", r#"{"data":[{"id":"strict"}]}"#.to_owned())
    };
    let stream = reader.get_mut();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n").ok()?;
    write!(stream, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()).ok()?;
    stream.flush().ok()
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it_and_roots_come_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    let url = server(&authority, Clients::Known, |stream| {
        let _ = answer(stream);
    });
    let (certificate, key) = issued(&authority, "client");
    write(folder.path(), "ca.pem", &authority.pem());
    write(folder.path(), "client.pem", &certificate.pem());
    write(folder.path(), "client.key", &key.serialize_pem());
    write(folder.path(), "both.pem", &(certificate.pem() + &key.serialize_pem()));
    let roots = folder.path().join("ca.pem");
    let with = |flags: &str| {
        let mut command = bench(folder.path(), &url, &format!("{flags} --overwrite"));
        command.env("SSL_CERT_FILE", &roots);
        command
    };
    succeeded(&mut with("--client-cert client.pem --client-key client.key"));
    succeeded(&mut with("--client-cert both.pem"));
    // Without a certificate of its own the client is turned away; without the roots it turns away.
    let refused = ended(&mut with(""));
    refused.says(3, &["CertificateRequired"]);
    let mut stranger = bench(folder.path(), &url, "--client-cert both.pem --overwrite");
    let refused = ended(&mut stranger);
    refused.says(3, &["certificate"]);
    succeeded(&mut bench(
        folder.path(),
        &url,
        "--client-cert both.pem --ca-cert ca.pem --overwrite",
    ));
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let authority = authority();
    let (certificate, _key) = issued(&authority, "client");
    let (_other, other_key) = issued(&authority, "other");
    write(folder.path(), "client.pem", &certificate.pem());
    write(folder.path(), "other.key", &other_key.serialize_pem());
    let check = |flags: &str, expected: &str| {
        let ended = ended(&mut bench(folder.path(), "https://127.0.0.1:1", flags));
        ended.says(2, &[expected]);
    };
    check("--client-cert client.pem", "`client.pem`: it contains no private key in PEM format");
    check("--client-cert client.pem --client-key other.key", "belongs to another certificate");
    check("--client-cert gone.pem", "cannot use the client certificate `gone.pem`");
    check("--client-key other.key", "--client-cert");
}
