//! A non-blocking socket, TCP or Unix-domain, whose reads carry the kernel's stamp where it gives one.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    TimestampingFlag, Timestamps, UnixAddr, connect, getpeername, getsockopt, recvmsg, send,
    setsockopt, socket, sockopt,
};
use serde::{Deserialize, Serialize};
use tokometer_base::WallNanos;

use super::info::{self, TransportInfo};
use super::peer::Peer;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes now in the buffer. Zero means that the peer has closed its side.
    pub bytes: usize,
    /// Whether the buffer is full, so that another read may return more.
    pub is_full: bool,
    /// The kernel's stamp of the last segment; `None` where it gave none.
    pub stamp: Option<WallNanos>,
}

/// Large enough that a read seldom fills it, small enough to stay in the second-level cache.
const READ_BYTES: usize = 128 * 1024;

/// Receives the bytes of one read. The next read overwrites them.
#[derive(Debug)]
pub struct ReadBuffer {
    pub(super) wire: Vec<u8>,
    pub(super) control: Vec<u8>,
    pub(super) plain: Vec<u8>,
}

impl ReadBuffer {
    /// For byte sources that are not sockets: the part of the buffer that they fill.
    pub fn wire_mut(&mut self) -> &mut [u8] {
        &mut self.wire
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { wire: vec![0; READ_BYTES], control: nix::cmsg_space!(Timestamps), plain: Vec::new() }
    }
}

/// A non-blocking byte stream. `WouldBlock` means: try again when ready.
pub trait ByteSource {
    fn receive(&mut self, buffer: &mut ReadBuffer) -> io::Result<Received>;
    /// Writes what the peer accepts now. Returns the number of bytes accepted.
    fn transmit(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// A connection below TLS: its bytes, the result of connecting, and transport statistics.
pub trait Wire: ByteSource + std::fmt::Debug + Send {
    /// The result of connecting; an error of the kind `NotConnected` while there is none yet.
    fn connected(&self) -> io::Result<()>;
    /// Transport statistics. `None` where the transport has none.
    fn info(&self) -> Option<TransportInfo>;
    /// Disables delayed acknowledgements, for streams that are read in batches.
    fn acknowledge_quickly(&self);
}

#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The kernel's time of the packet. Falls back to the user's clock where the kernel has none.
    #[default]
    Kernel,
    /// The user's clock after the read, as in clients without kernel stamps.
    User,
}

fn new_socket(family: AddressFamily, stamps: Stamps) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(family, SockType::Stream, flags, None)?;
    if stamps == Stamps::Kernel {
        let wanted = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        // Without kernel stamps the user's clock is used; each read records which one it was.
        let _ = setsockopt(&descriptor, sockopt::Timestamping, &wanted);
    }
    Ok(descriptor)
}

impl Socket {
    /// Begins to connect. The socket becomes writable when it is done or refused. `WouldBlock` means
    /// that the backlog of a Unix-domain socket is full.
    pub fn connect(peer: &Peer, stamps: Stamps) -> io::Result<Self> {
        let (descriptor, begun) = match peer {
            Peer::Tcp(address) => {
                let is_ipv4 = address.is_ipv4();
                let family = if is_ipv4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
                let descriptor = new_socket(family, stamps)?;
                setsockopt(&descriptor, sockopt::TcpNoDelay, &true)?;
                let begun = connect(descriptor.as_raw_fd(), &SockaddrStorage::from(*address));
                (descriptor, begun)
            }
            Peer::Unix(path) => {
                let descriptor = new_socket(AddressFamily::Unix, Stamps::User)?;
                let begun = connect(descriptor.as_raw_fd(), &UnixAddr::new(&**path)?);
                (descriptor, begun)
            }
        };
        match begun {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(Self { descriptor }),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Wire for Socket {
    fn connected(&self) -> io::Result<()> {
        match getsockopt(&self.descriptor, sockopt::SocketError)? {
            // The error is zero also while connecting; only a connected socket has a peer.
            0 => Ok(getpeername::<SockaddrStorage>(self.descriptor.as_raw_fd()).map(drop)?),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn info(&self) -> Option<TransportInfo> {
        TransportInfo::of(&self.descriptor)
    }

    fn acknowledge_quickly(&self) {
        info::quick_ack(&self.descriptor);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn wall(spec: nix::sys::time::TimeSpec) -> Option<WallNanos> {
    let secs = u64::try_from(spec.tv_sec()).ok().filter(|secs| *secs > 0)?;
    Some(WallNanos(secs * 1_000_000_000 + u64::try_from(spec.tv_nsec()).ok()?))
}

impl ByteSource for Socket {
    fn receive(&mut self, buffer: &mut ReadBuffer) -> io::Result<Received> {
        let room = buffer.wire.len();
        let mut slices = [IoSliceMut::new(&mut buffer.wire)];
        let message = recvmsg::<()>(
            self.descriptor.as_raw_fd(),
            &mut slices,
            Some(&mut buffer.control),
            MsgFlags::empty(),
        )?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => wall(stamps.system),
            _ => None,
        });
        Ok(Received { bytes: message.bytes, is_full: message.bytes == room, stamp })
    }

    fn transmit(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.descriptor.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?)
    }
}

/// Keeps kernel packet stamping enabled. The kernel starts stamping some time after the first socket
/// enables it and stops with the last one. Hold this value from before the first connection until
/// after the last, so that no first read lacks its stamp.
#[derive(Debug)]
pub struct StampKeeper {
    _descriptor: OwnedFd,
}

impl StampKeeper {
    pub fn new() -> io::Result<Self> {
        Ok(Self { _descriptor: new_socket(AddressFamily::Inet, Stamps::Kernel)? })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use tokometer_base::{Clock, MonotonicClock, Nanos};

    use super::*;

    fn wait(socket: &Socket, flags: PollFlags) {
        let mut fds = [PollFd::new(socket.as_fd(), flags)];
        poll(&mut fds, PollTimeout::from(5_000_u16)).unwrap();
    }

    fn pair(address: &str) -> (Socket, std::net::TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let peer = Peer::Tcp(listener.local_addr().unwrap());
        let socket = Socket::connect(&peer, Stamps::Kernel).unwrap();
        let (peer, _address) = listener.accept().unwrap();
        wait(&socket, PollFlags::POLLOUT);
        socket.connected().unwrap();
        (socket, peer)
    }

    #[test]
    fn bytes_cross_and_the_kernels_stamp_lies_between_send_and_read() {
        let _keeper = StampKeeper::new().unwrap();
        let (mut socket, mut peer) = pair("127.0.0.1:0");
        assert_eq!(socket.transmit(b"ping").unwrap(), 4);
        let mut request = [0; 4];
        peer.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"ping");
        let mut buffer = ReadBuffer::default();
        assert_eq!(socket.receive(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let limit = MonotonicClock.now() + Nanos::from_secs(20);
        loop {
            let before = MonotonicClock.wall();
            peer.write_all(b"pong").unwrap();
            wait(&socket, PollFlags::POLLIN);
            let received = socket.receive(&mut buffer).unwrap();
            let after = MonotonicClock.wall();
            assert_eq!((&buffer.wire[..received.bytes], received.is_full), (&b"pong"[..], false));
            // A kernel that has not started stamping yet omits the first stamps.
            if let Some(stamp) = received.stamp {
                assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?} {after:?}");
                break;
            }
            assert!(MonotonicClock.now() < limit, "the kernel stamps no received bytes");
        }
    }

    #[test]
    fn tcp_info_counts_segments_and_bytes_also_over_ipv6() {
        let (mut socket, mut peer) = match TcpListener::bind("[::1]:0") {
            Ok(_) => pair("[::1]:0"),
            Err(_) => pair("127.0.0.1:0"),
        };
        peer.set_nodelay(true).unwrap();
        for _ in 0..2 {
            peer.write_all(b"event").unwrap();
        }
        wait(&socket, PollFlags::POLLIN);
        let mut buffer = ReadBuffer::default();
        let mut bytes = 0;
        while bytes < 10 {
            wait(&socket, PollFlags::POLLIN);
            bytes += socket.receive(&mut buffer).unwrap().bytes;
        }
        let info = socket.info().unwrap();
        assert_eq!((info.data_segments_in, info.bytes_received), (2, 10));
        socket.acknowledge_quickly();
    }

    #[test]
    fn a_refused_connection_says_so() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = match Socket::connect(&Peer::Tcp(address), Stamps::Kernel) {
            Ok(socket) => {
                wait(&socket, PollFlags::POLLOUT);
                socket.connected().unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_unix_domain_socket_carries_bytes_without_stamps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut socket = Socket::connect(&Peer::Unix(path.into()), Stamps::Kernel).unwrap();
        socket.connected().unwrap();
        let (mut peer, _address) = listener.accept().unwrap();
        assert_eq!(socket.transmit(b"ping").unwrap(), 4);
        peer.write_all(b"pong").unwrap();
        wait(&socket, PollFlags::POLLIN);
        let mut buffer = ReadBuffer::default();
        let received = socket.receive(&mut buffer).unwrap();
        assert_eq!((&buffer.wire[..received.bytes], received.stamp), (&b"pong"[..], None));
        assert_eq!(socket.info(), None);
    }

    /// `SO_ERROR` is zero while a connection is being made, which looked like success.
    #[test]
    fn a_connection_under_way_is_not_taken_for_one_that_is_made() {
        let listener = crate::conn::testing::Silent::new();
        let socket = Socket::connect(&Peer::Tcp(listener.address), Stamps::Kernel).unwrap();
        assert_eq!(socket.connected().unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
}
