//! Leader and followers with certificates.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::tls::{ShardTls, TlsFiles};

/// An authority with the files of shards whose certificates it has signed.
struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    fn files(&self, host: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |name: &str, text: String| {
            let path = self.folder.join(format!("{host}.{name}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            certificate: file("crt", certificate.pem()),
            key: file("key", key.serialize_pem()),
            authorities: self.folder.join("ca.pem"),
        }
    }

    fn tls(&self, host: &str) -> ShardTls {
        ShardTls::read(&self.files(host)).unwrap()
    }
}

const HOST: &str = "127.0.0.1";

fn leader_with(folder: &Path, tls: ShardTls) -> Leader {
    let config = LeaderConfig { tls: Some(tls), ..leader_config(folder, 2) };
    Leader::listen("127.0.0.1:0", config, &real()).unwrap()
}

fn with(tls: ShardTls) -> FollowerConfig {
    FollowerConfig { tls: Some(tls), ..config(1, 2) }
}

/// Passes one connection on, and returns what a listener on the way has seen of it.
fn tapped(to: SocketAddr) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(to).unwrap();
        let pairs = [(&near, &far), (&far, &near)]
            .map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()));
        for (mut from, mut to) in pairs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut bytes = vec![0; 4_096];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    let _ = sender.send(bytes[..count].to_vec());
                    let _ = to.write_all(&bytes[..count]);
                }
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (address, receiver)
}

/// The bytes of a whole run on the wire; the record alone has 700 kB of one letter.
fn seen_on_the_wire(tls: Option<ShardTls>) -> Vec<u8> {
    let root = tempfile::tempdir().unwrap();
    let (of_leader, of_follower) = (root.path().join("leader"), root.path().join("follower"));
    for folder in [&of_leader, &of_follower] {
        std::fs::create_dir(folder).unwrap();
    }
    let config = LeaderConfig { tls: tls.clone(), ..leader_config(&of_leader, 2) };
    let leader = Leader::listen("127.0.0.1:0", config, &real()).unwrap();
    let (address, seen) = tapped(leader.address());
    let config = FollowerConfig { tls, ..super::config(1, 2) };
    let follower =
        Follower::join(&address.to_string(), &config, &real(), Nanos::ZERO, &|| false).unwrap();
    let follower = Arc::new(follower);
    let waiting = start(&follower, &of_follower, "p", &Arc::new(Run::default()));
    leader.hand_out(0, &of_leader, "order");
    assert!(leader.begin(0, "p", WAIT, None, &|| false).is_some());
    assert!(waiting.join().unwrap().unwrap().is_some());
    std::fs::write(of_follower.join(names::REQUESTS), vec![b'x'; 700_000]).unwrap();
    follower.end(0).unwrap();
    assert_eq!(leader.finish(0, &|| false), []);
    let taken = shard_folder(&of_leader, 1).join(names::REQUESTS);
    assert_eq!(std::fs::read(taken).unwrap(), vec![b'x'; 700_000]);
    drop((follower, leader));
    seen.iter().flatten().collect()
}

#[test]
fn a_record_that_is_handed_over_with_tls_cannot_be_read_on_the_way() {
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new(root.path(), "a");
    let is_readable = |bytes: &[u8]| bytes.windows(64).any(|part| part == [b'x'; 64]);
    assert!(!is_readable(&seen_on_the_wire(Some(authority.tls(HOST)))));
    assert!(is_readable(&seen_on_the_wire(None)));
}

#[test]
fn a_certificate_of_another_authority_or_for_another_host_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new(root.path(), "a"), Authority::new(root.path(), "b"));
    let leader = leader_with(root.path(), ours.tls(HOST));
    let check = |tls: ShardTls, said: &str| {
        let why = refused(&leader, &with(tls));
        assert!(why.starts_with("cannot make a TLS connection to the leader at 127."), "{why}");
        assert!(why.contains(said), "{why}");
    };
    check(other.tls(HOST), "no authority in `--shard-tls-ca` has signed its certificate");
    // It believes the leader, which does not believe it.
    let files = TlsFiles { authorities: ours.folder.join("ca.pem"), ..other.files(HOST) };
    check(ShardTls::read(&files).unwrap(), "it refused the certificate of this shard");
    // The host of a follower is not checked: nobody connects to it.
    assert!(join(&leader, &with(ours.tls("elsewhere.example"))).is_ok());
    let leader = leader_with(root.path(), ours.tls("elsewhere.example"));
    let why = refused(&leader, &with(ours.tls(HOST)));
    assert!(why.contains("its certificate is for another name"), "{why}");
}

/// Every look at this clock takes almost as long as a handshake may.
#[derive(Default)]
struct HastyClock(AtomicU64);

impl Clock for HastyClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.fetch_add(4_950_000_000, Ordering::SeqCst))
    }

    fn wall(&self) -> WallNanos {
        MonotonicClock.wall()
    }

    fn sleep(&self, span: Nanos) {
        MonotonicClock.sleep(span);
    }
}

#[test]
fn a_shard_with_tls_and_one_without_say_what_differs() {
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new(root.path(), "a");
    let plain = leader(root.path(), 2);
    let why = refused(&plain, &with(authority.tls(HOST)));
    assert!(why.contains("it does not use TLS"), "{why}");
    let encrypted = leader_with(root.path(), authority.tls(HOST));
    let hasty: Arc<dyn Clock> = Arc::new(HastyClock::default());
    let Err(why) = join_with(&encrypted, &config(1, 2), &hasty) else { panic!("it was let in") };
    assert!(matches!(why, JoinError::Silent { .. }), "{why}");
    assert!(why.to_string().contains("if shard 0 uses TLS"), "{why}");
    assert!(join(&encrypted, &with(authority.tls(HOST))).is_ok());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let root = tempfile::tempdir().unwrap();
    let authority = Authority::new(root.path(), "a");
    let (good, other) = (authority.files("a"), authority.files("b"));
    let check = |files: TlsFiles, file: &Path, said: &str| {
        let why = ShardTls::read(&files).unwrap_err();
        assert_eq!(why.path, file, "{why}");
        assert!(why.to_string().contains(said), "{why}");
    };
    let key = other.key.clone();
    check(TlsFiles { key, ..good.clone() }, &good.certificate, "does not fit it");
    let key = good.certificate.clone();
    check(TlsFiles { key, ..good.clone() }, &good.certificate, "no private key");
    let certificate = good.key.clone();
    check(TlsFiles { certificate, ..good.clone() }, &good.key, "no certificate in PEM format");
    let authorities = root.path().join("none.pem");
    check(TlsFiles { authorities: authorities.clone(), ..good }, &authorities, "cannot use");
}
