//! A TCP relay that joins events or stands still once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

/// What the relay does to the server's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Treatment {
    Plain,
    /// Passes on what has gathered, each time this has passed.
    Join(Duration),
    /// Passes nothing on between these times after its start.
    Stall {
        begin: Duration,
        length: Duration,
    },
}

/// A relay on a port of loopback. It ends when dropped; its connections end with their peers.
pub(super) struct Relay {
    pub(super) port: u16,
    is_over: Arc<AtomicBool>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Relay {
    pub(super) fn start(server: String, treatment: Treatment) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&is_over);
        let begin = now();
        let _ = std::thread::spawn(move || {
            // The path must not be delayed by other work on this machine. Threads of this one inherit it.
            let own = nix::unistd::gettid().to_string();
            let _ = Command::new("chrt").args(["-f", "-p", "15", &own]).output();
            for client in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(upstream) = TcpStream::connect(&server) else { return };
                let _ = pair(client, upstream, treatment, begin);
            }
        });
        Ok(Self { port, is_over })
    }
}

#[expect(clippy::disallowed_methods, reason = "a relay on the clock of the machine")]
fn now() -> Instant {
    Instant::now()
}

fn pair(
    client: TcpStream,
    server: TcpStream,
    treatment: Treatment,
    begin: Instant,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let _ = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let _ = std::thread::spawn(move || {
        let _ = downstream(server, &client, treatment, begin);
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn downstream(
    mut server: TcpStream,
    mut client: &TcpStream,
    treatment: Treatment,
    begin: Instant,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = server.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let mut gathered = buffer[..length].to_vec();
        match treatment {
            Treatment::Plain => {}
            Treatment::Join(every) => {
                sleep(every);
                server.set_nonblocking(true)?;
                while let Ok(more @ 1..) = server.read(&mut buffer) {
                    gathered.extend_from_slice(&buffer[..more]);
                }
                server.set_nonblocking(false)?;
            }
            Treatment::Stall { begin: from, length } => {
                let at = now() - begin;
                if (from..from + length).contains(&at) {
                    sleep(from + length - at);
                }
            }
        }
        client.write_all(&gathered)?;
    }
}
