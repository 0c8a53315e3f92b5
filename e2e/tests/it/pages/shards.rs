//! A command that is started on several machines, run by two processes of this one.

use super::small::{Servers, small, words};
use crate::program::free_port;

/// How pages write the number of a shard.
const NUMBER: &str = "--shard K/";

/// Whether each of several processes runs this command.
pub(super) fn is_for_shards(command: &str) -> bool {
    command.contains(NUMBER)
}

/// A script that runs the command as two shards with one leader, and fails where one of them fails.
pub(super) fn script(command: &str, servers: &Servers) -> String {
    let port = free_port();
    let command = command.replace('…', "").replace(" URL", " http://HOST:PORT");
    let of_rank = |rank: u32| {
        let mut words = words(&command);
        for at in 1..words.len() {
            match words[at - 1].as_str() {
                "--shard" => words[at] = format!("{rank}/2"),
                "--leader" => words[at] = format!("127.0.0.1:{port}"),
                _ => {}
            }
        }
        format!("{} --run-dir of-shards-{port} --quiet", small(&words.join(" "), servers))
    };
    format!(
        "export TOKOMETER_SHARD_SECRET='a secret of more than sixteen bytes'\n\
         {} & first=$!\n{}\nsecond=$?\nwait $first && exit $second",
        of_rank(0),
        of_rank(1)
    )
}

#[test]
fn both_shards_have_the_same_command_and_a_leader_on_this_machine() {
    let servers = Servers::named("http://s:1");
    let command = "tokometer bench --shard K/4 --leader leader.example:7777 --base-url URL …";
    assert!(is_for_shards(command) && !is_for_shards("tokometer bench --shard 0/4"));
    let script = script(command, &servers);
    for rank in ["--shard 0/2", "--shard 1/2"] {
        let line = script.lines().find(|line| line.contains(rank));
        let line = line.unwrap_or_else(|| panic!("no {rank}: {script}"));
        assert!(line.contains("--leader 127.0.0.1:") && line.contains("--base-url http://s:1 "));
        assert!(!line.contains("leader.example") && !line.contains('…'), "{line}");
    }
}
