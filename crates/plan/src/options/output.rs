//! Where results go, and which part of a run this process makes.

use super::row::Kind::{Choice, Count, Pairs, Path, Text, Time};
use super::row::{Holds, option, switch};
use super::{Fragment, Group, number};
use crate::Shown;

/// Each of them asks for vLLM's result file.
const VLLM_FILE: &[&str] = &["save-result", "save-detailed", "append-result"];

/// Options of the commands that take an address.
#[rustfmt::skip] // The columns of a row stand side by side.
pub const ADDRESSED: Group = Group { title: "Budget and page", rows: &[
    option("budget", "TIME", Time, "Time for a staircase [default for a URL: 2m]")
        .text(|to| &mut to.budget),
    option("html", "FILE", Path, "HTML page [for a staircase: in the run folder]")
        .path(|to| &mut to.html).per_command(),
    switch("keep-events", "", "Keep the events of each step of a staircase in plain columns; otherwise they are packed, which loses nothing")
        .flag(|to| &mut to.keep_events),
]};

#[rustfmt::skip] // The columns of a row stand side by side.
pub(super) const GROUPS: &[Group] = &[
    Group { title: "Output", rows: &[
        option("name", "NAME", Text, "Name of the run")
            .sets("name"),
        option("run-dir", "DIR", Path, "Folder of the run [default: runs/TIME-NAME]")
            .short('o').sets("output.run_dir").path(|to| &mut to.output.run_dir)
            .without(&["no-run-dir"]),
        switch("no-run-dir", "dropped", "Do not save a record of the run")
            .sets("output.record"),
        switch("resume", "", "Skip points of a sweep that are already in --run-dir")
            .flag(|to| &mut to.output.resume).without(&["no-run-dir"]).per_command(),
        switch("overwrite", "", "Remove an earlier run from --run-dir first")
            .flag(|to| &mut to.output.overwrite).without(&["resume", "no-run-dir"]).per_command(),
        switch("quiet", "", "Print nothing but errors, and what --format asks for")
            .short('q').put(quiet),
        option("format", "FORMAT", Choice(&["text", "json"]), "Format of standard output")
            .sets("output.shown"),
        switch("details", "", "Print everything that is known of a run, with all notes")
            .flag(|to| &mut to.output.details),
        switch("live", "", "Show a live full-screen dashboard")
            .flag(|to| &mut to.output.live),
        switch("debug", "shown", "Print the first request and its answer to standard error, as sent and received, without keys")
            .sets("output.first_exchange"),
        option("prometheus-port", "PORT", Count, "Serve counters in Prometheus format on 127.0.0.1:PORT")
            .sets("output.prometheus_port"),
        switch("disable-tqdm", "", "Show no progress bar")
            .flag(|to| &mut to.output.disable_tqdm).known("PRSO"),
        switch("save-result", "", "Write vLLM's result file")
            .put(save_result).known("PRO"),
        switch("save-detailed", "true", "Include the figures of every request in vLLM's result file")
            .sets("output.vllm_result.is_detailed").known("PRO"),
        switch("append-result", "true", "Append to the result file")
            .sets("output.vllm_result.is_appended").known("PR"),
        option("result-dir", "DIR", Path, "Folder of the result file [default: the current folder]")
            .sets("output.vllm_result.dir").only_with(VLLM_FILE).known("PRO"),
        option("result-filename", "NAME", Text, "Name of the result file [default: built from label, load, model and time]")
            .sets("output.vllm_result.filename").only_with(VLLM_FILE).known("PRO"),
        option("metadata", "KEY=VALUE", Pairs, "Metadata to add to the result file")
            .sets("output.vllm_result.metadata").only_with(VLLM_FILE).holds(Holds::Pair)
            .known("PRO"),
        option("label", "LABEL", Text, "Prefix of the result file's name [default: the backend]")
            .sets("output.vllm_result.label").only_with(VLLM_FILE).known("PR"),
        option("output-file", "FILE", Path, "Append a line to SGLang's result file")
            .sets("output.sglang_result.file").known("S")
            .remark("valid JSON: an infinite rate is the word \"inf\""),
        switch("output-details", "true", "Include the figures of every request in SGLang's result file")
            .sets("output.sglang_result.is_detailed").known("S"),
        option("tag", "TAG", Text, "Tag of the line in SGLang's result file")
            .sets("output.sglang_result.tag").known("S"),
    ]},
    Group { title: "Many machines", rows: &[
        option("shard", "K/N", Text, "Make shard K of N of the run, counted from 0; shard 0 leads")
            .text(|to| &mut to.shards.shard).without(&["shards"]).per_command(),
        option("shards", "N", Count, "Number of shards; the launcher's variables say which one this is. 1 ignores the launcher")
            .put(|to, count| number(count).map(|count| to.shards.shards = Some(count)))
            .per_command(),
        option("leader", "HOST:PORT", Text, "Address at which shard 0 listens for the others")
            .text(|to| &mut to.shards.leader).per_command(),
        option("shard-secret-file", "FILE", Path, "File with the secret that all shards share [default: `TOKOMETER_SHARD_SECRET`]")
            .path(|to| &mut to.shards.shard_secret_file).per_command(),
        option("shard-tls-cert", "FILE", Path, "Certificate of this shard in PEM format: the shards then connect with TLS, besides the secret")
            .path(|to| &mut to.shards.shard_tls_cert).needs(&["shard-tls-key"])
            .per_command(),
        option("shard-tls-key", "FILE", Path, "Private key of `--shard-tls-cert`")
            .path(|to| &mut to.shards.shard_tls_key).needs(&["shard-tls-ca"]).per_command(),
        option("shard-tls-ca", "FILE", Path, "Authorities that have signed the certificates of all shards")
            .path(|to| &mut to.shards.shard_tls_ca).needs(&["shard-tls-cert"]).per_command(),
        option("shard-wait", "TIME", Time, "Time for all shards to become ready; the run then begins without those that are not [default: 5m]")
            .text(|to| &mut to.shards.shard_wait).per_command(),
        switch("global-cap", "", "Apply `--max-concurrency` to all shards together: slots move to the shards that need them. Without it the limit is split")
            .flag(|to| &mut to.shards.global_cap).per_command(),
    ]},
];

#[expect(clippy::unnecessary_wraps, reason = "options have functions that may fail")]
fn quiet(to: &mut Fragment, _: &str) -> Result<(), String> {
    to.output.quiet = true;
    to.part.output.shown = Some(Shown::Nothing);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "options have functions that may fail")]
fn save_result(to: &mut Fragment, _: &str) -> Result<(), String> {
    let _file = to.part.output.vllm_result.get_or_insert_default();
    Ok(())
}
