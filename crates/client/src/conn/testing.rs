//! Servers that are hard to connect to.

use std::net::{SocketAddr, TcpListener};

use nix::sys::socket::{Backlog, listen};

use super::peer::Peer;
use super::socket::{Socket, Stamps};

/// A listener whose backlog is full: the kernel drops further attempts to connect without a word.
pub(crate) struct Silent {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<Socket>,
}

impl Silent {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| Socket::connect(&Peer::Tcp(address), Stamps::User).unwrap();
        let waiting = (0..4).map(connect).collect();
        Self { address, _listener: listener, _waiting: waiting }
    }
}
