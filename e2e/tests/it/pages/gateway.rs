//! Gateways with TLS before the simulated server, and the certificates that commands of pages name.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use crate::connections::tls::{self, Authority, Clients, TlsStream};
use crate::scripted::read_request;

/// The authority of the gateways, as pages call it.
pub(super) const AUTHORITY: &str = "our-ca.pem";

/// The path below which a page's gateway has its routes.
const PREFIX: &str = " /team-a/";

/// Two gateways to one server.
pub(super) struct Gateways {
    /// The address of the one that accepts every client.
    pub(super) open: String,
    /// The address of the one that accepts clients with a certificate.
    pub(super) strict: String,
}

impl Gateways {
    /// Starts both before `server`, and writes the certificates of the pages into `folder`.
    pub(super) fn new(folder: &Path, server: &str) -> Self {
        let authority = tls::authority();
        write(folder, &authority, AUTHORITY, "localhost", ["me.pem", "me.key"]);
        let shards = tls::authority();
        write(folder, &shards, "ca.pem", "127.0.0.1", ["shard.pem", "shard.key"]);
        let server = server.trim_start_matches("http://").to_owned();
        let forward = move |client: TlsStream| {
            // A client that goes away ends the connection.
            let _ = forward(client, &server);
        };
        Self {
            open: tls::server(&authority, Clients::Any, forward.clone()),
            strict: tls::server(&authority, Clients::Known, forward),
        }
    }
}

/// Writes an authority and a certificate of it with its key.
fn write(folder: &Path, authority: &Authority, name: &str, host: &str, files: [&str; 2]) {
    let (certificate, key) = tls::issued(authority, host);
    let texts = [authority.pem(), certificate.pem(), key.serialize_pem()];
    for (file, text) in [name, files[0], files[1]].into_iter().zip(texts) {
        std::fs::write(folder.join(file), text).unwrap();
    }
}

/// Passes one request on, and its answer back.
fn forward(client: TlsStream, server: &str) -> Option<()> {
    let mut reader = BufReader::new(client);
    let (line, head, body) = read_request(&mut reader)?;
    let line = line.replacen(PREFIX, " /", 1);
    let is_kept = |field: &&str| !field.to_ascii_lowercase().starts_with("connection:");
    let head: String = head.split_inclusive('\n').filter(is_kept).collect();
    let mut server = TcpStream::connect(server).ok()?;
    write!(server, "{line} HTTP/1.1\r\n{head}Connection: close\r\n\r\n").ok()?;
    server.write_all(&body).ok()?;
    let client = reader.get_mut();
    let _ = std::io::copy(&mut server, client).ok()?;
    client.conn.send_close_notify();
    client.flush().ok()
}
