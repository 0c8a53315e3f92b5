//! Shards on other machines, started over ssh.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use tokometer_base::{Clock, Nanos};

use crate::exit::{Refusal, RefusalKind};

/// Flags that are this process's own, with their value.
const OWN_FLAGS: [&str; 3] = ["--workers-on", "--leader", "--shard-secret-file"];

/// Time for a shard to end by itself after the run.
const END: Nanos = Nanos::from_secs(5);
const LOOK: Nanos = Nanos::from_millis(50);

/// What every remote shard is given.
pub(super) struct RemoteStart<'a> {
    /// The words of this process's command line, without the program's name.
    pub(super) words: &'a [String],
    /// Machines, as ssh knows them; the first gets shard 1.
    pub(super) hosts: &'a [String],
    /// Where shard 0 listens.
    pub(super) leader: &'a str,
    /// Goes through stdin, where no list of processes shows it.
    pub(super) secret: &'a str,
}

impl RemoteStart<'_> {
    /// The command of one shard, for a shell on its machine.
    fn line(&self, rank: usize) -> String {
        let (leader, count) = (self.leader, self.hosts.len() + 1);
        let own = format!(
            "--shard {rank}/{count} --leader {} --shard-secret-file /dev/stdin",
            quoted(leader)
        );
        let words: Vec<String> = kept(self.words).iter().map(|word| quoted(word)).collect();
        format!("tokometer {} {own}", words.join(" "))
    }

    /// Starts one shard on every machine.
    pub(super) fn start(&self) -> Result<RemoteShards, Refusal> {
        let mut started = RemoteShards(Vec::new());
        for (rank, host) in (1..).zip(self.hosts) {
            let failed = |why: std::io::Error| {
                Refusal::new(RefusalKind::Usage, format!("cannot start `ssh {host}`: {why}"))
            };
            let mut command = Command::new("ssh");
            command.args(["-o", "BatchMode=yes", host]).arg(self.line(rank));
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let mut child = command.spawn().map_err(failed)?;
            let stdin = child.stdin.take();
            started.0.push((host.clone(), child));
            let written = stdin.map(|mut stdin| stdin.write_all(self.secret.as_bytes()));
            // One that has ended by now is seen when the others are waited for.
            written.unwrap_or(Ok(())).or_else(|why| match why.kind() {
                std::io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(failed(why)),
            })?;
        }
        Ok(started)
    }
}

/// The words without this process's own flags.
fn kept(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in words {
        let name = word.split('=').next().unwrap_or(word).replace('_', "-");
        let is_own = OWN_FLAGS.contains(&name.as_str());
        if !is_own && !is_value {
            kept.push(word.clone());
        }
        is_value = is_own && !word.contains('=');
    }
    kept
}

/// A word as a shell reads it unchanged.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The connections to remote shards, with their hosts; the first is that of shard 1. They end with the
/// run; one that does not is ended.
pub(crate) struct RemoteShards(Vec<(String, Child)>);

impl RemoteShards {
    /// Shards whose connection has ended: rank and why.
    pub(crate) fn ended(&mut self) -> Vec<(u32, String)> {
        let ended = (1..).zip(&mut self.0).filter_map(|(rank, (host, child))| {
            let status = child.try_wait().ok()??;
            Some((rank, format!("`ssh {host}` ended ({status})")))
        });
        ended.collect()
    }

    /// Waits a while for all of them.
    pub(crate) fn end(&mut self, clock: &dyn Clock) {
        let deadline = clock.now() + END;
        for (_host, mut child) in self.0.drain(..) {
            while matches!(child.try_wait(), Ok(None)) && clock.now() < deadline {
                clock.sleep(LOOK);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for RemoteShards {
    fn drop(&mut self) {
        for (_host, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_remote_shard_gets_the_same_flags_and_its_own_part() {
        let words =
            words("bench --model it's --workers-on a,b --seed 1 --leader=x:1 --workers_on=c");
        let hosts = ["a".to_owned(), "b".to_owned()];
        let start =
            RemoteStart { words: &words, hosts: &hosts, leader: "me:7", secret: "never shown" };
        let expected = r"tokometer 'bench' '--model' 'it'\''s' '--seed' '1' --shard 2/3 --leader 'me:7' --shard-secret-file /dev/stdin";
        assert_eq!(start.line(2), expected);
    }
}
