//! A non-blocking TCP socket whose reads carry the kernel's stamp.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage,
    TimestampingFlag, connect, getsockopt, recvmsg, send, setsockopt, socket, sockopt,
};
use serde::{Deserialize, Serialize};
use tokometer_base::WallNanos;

use super::buffer::ReadBuffer;
use super::info::{self, TransportInfo};

/// What one read returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes now in the buffer. Zero: the peer has closed its side.
    pub bytes: usize,
    /// Whether the buffer is full, so that more may be waiting.
    pub is_full: bool,
    /// The kernel's stamp of the last segment, where it gave one.
    pub stamp: Option<WallNanos>,
}

/// The two directions of a byte stream, without blocking: `WouldBlock` means later.
pub trait ByteSource {
    /// Reads once into the buffer.
    fn receive(&mut self, buffer: &mut ReadBuffer) -> io::Result<Received>;
    /// Writes what fits now and says how much that was.
    fn transmit(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// A connection below its encryption: its bytes, how connecting ended, and the transport's account.
pub trait Wire: ByteSource + std::fmt::Debug + Send {
    /// The result of connecting, once the connection is writable.
    fn connected(&self) -> io::Result<()>;
    /// The transport's account of this connection. `None` when there is none.
    fn info(&self) -> Option<TransportInfo>;
    /// Asks for acknowledgements at once, for a stream that is read lazily.
    fn acknowledge_quickly(&self);
}

/// A TCP connection to be, or made.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
}

/// Whose clock tells when bytes arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The kernel's, when the packet came. Where it has none, the user's.
    #[default]
    Kernel,
    /// The user's, after the read: what a client without kernel stamps would report.
    User,
}

fn new_socket(family: AddressFamily, stamps: Stamps) -> Result<OwnedFd, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(family, SockType::Stream, flags, None)?;
    if stamps == Stamps::Kernel {
        let wanted = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
        // A kernel without stamps leaves the user's clock; each read says which it was.
        let _ = setsockopt(&descriptor, sockopt::Timestamping, &wanted);
    }
    Ok(descriptor)
}

impl Socket {
    /// Begins to connect. The socket becomes writable when it is done or refused.
    pub fn connect(address: SocketAddr, stamps: Stamps) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let descriptor = new_socket(family, stamps)?;
        setsockopt(&descriptor, sockopt::TcpNoDelay, &true)?;
        match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(address)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(Self { descriptor }),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Wire for Socket {
    fn connected(&self) -> io::Result<()> {
        match getsockopt(&self.descriptor, sockopt::SocketError)? {
            0 => Ok(()),
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

/// Keeps the kernel stamping packets. It begins to do so only some time after the first socket asks,
/// and stops with the last: hold this from before the first connection to after the last one, and no
/// first read comes without its stamp.
#[derive(Debug)]
pub struct StampKeeper {
    _descriptor: OwnedFd,
}

impl StampKeeper {
    /// Asks for stamps from now on.
    pub fn new() -> io::Result<Self> {
        Ok(Self { _descriptor: new_socket(AddressFamily::Inet, Stamps::Kernel)? })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use tokometer_base::{Clock, MonotonicClock};

    use super::*;

    fn wait(socket: &Socket, flags: PollFlags) {
        let mut fds = [PollFd::new(socket.as_fd(), flags)];
        poll(&mut fds, PollTimeout::from(5_000_u16)).unwrap();
    }

    fn pair(address: &str) -> (Socket, std::net::TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let socket = Socket::connect(listener.local_addr().unwrap(), Stamps::Kernel).unwrap();
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
        let before = MonotonicClock.wall();
        peer.write_all(b"pong").unwrap();
        wait(&socket, PollFlags::POLLIN);
        let received = socket.receive(&mut buffer).unwrap();
        let after = MonotonicClock.wall();
        assert_eq!((&buffer.wire[..received.bytes], received.is_full), (&b"pong"[..], false));
        // A kernel that has not begun to stamp yet may leave the first one out.
        if let Some(stamp) = received.stamp {
            assert!(before <= stamp && stamp <= after, "{before:?} {stamp:?} {after:?}");
        }
    }

    #[test]
    fn the_kernels_account_counts_segments_and_bytes_also_over_ipv6() {
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
        let refused = match Socket::connect(address, Stamps::Kernel) {
            Ok(socket) => {
                wait(&socket, PollFlags::POLLOUT);
                socket.connected().unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
