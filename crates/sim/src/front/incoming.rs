//! Where clients come in: a TCP port or a Unix-domain socket.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

pub(super) enum Incoming {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

/// A Unix-domain socket, whose file is removed with it.
pub(super) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Incoming {
    /// Listens on a Unix-domain socket. A file that a server left behind is replaced.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        let is_abandoned = || {
            let refusal = UnixStream::connect(path).err().map(|error| error.kind());
            refusal == Some(io::ErrorKind::ConnectionRefused)
        };
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned() => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            listener => listener?,
        };
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(UnixSocket { listener, path: path.to_owned() }))
    }

    /// The port's address; `None` for a Unix-domain socket.
    pub(super) fn local_addr(&self) -> io::Result<Option<SocketAddr>> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Some),
            Self::Unix(_) => Ok(None),
        }
    }

    /// The next client. All that is done with its stream is reading and writing, which is the same for
    /// both kinds of sockets.
    pub(super) fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| stream),
            Self::Unix(socket) => {
                socket.listener.accept().map(|(stream, _)| TcpStream::from(OwnedFd::from(stream)))
            }
        }
    }
}

impl AsFd for Incoming {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(socket) => socket.listener.as_fd(),
        }
    }
}
