//! One run from several processes, started by what people start programs with.
//!
//! Real Open MPI and real Slurm from Debian's packages on this machine, the Kubernetes manifest against
//! the API's schemas, and a thousand shards in one process. Outside of the gate: the packages are large.

mod thousand;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokometer_e2e::program;
use tokometer_record::{RunReader, RunState, Stop};

use crate::ci::{announce, root};
use crate::process;

const SHARDS: u32 = 3;
const REQUESTS: u64 = 60;

/// Runs the named parts, or all of them.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let all = ["manifest", "thousand", "mpi", "slurm"].map(str::to_owned);
    let named = if arguments.is_empty() { &all[..] } else { arguments };
    for part in named {
        announce(&format!("launchers {part}"));
        match part.as_str() {
            "manifest" => manifest()?,
            "thousand" => thousand::run()?,
            "mpi" => mpi()?,
            "slurm" => slurm()?,
            other => bail!("no launcher is called `{other}`: manifest, thousand, mpi, slurm"),
        }
    }
    Ok(())
}

/// A folder for what this task makes.
fn place(name: &str) -> Result<PathBuf> {
    let folder = root().join("target/launchers").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn shell(line: &str) -> Result<()> {
    let status = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { bail!("`{line}` did not pass ({status})") }
}

/// The manifest against the schemas of the Kubernetes API, which a Python package carries.
fn manifest() -> Result<()> {
    let folder = root().join("target/launchers/venv");
    let python = folder.join("bin/python");
    if !python.is_file() {
        shell(&format!("python3 -m venv {}", folder.display()))?;
        shell(&format!("{} -m pip install --quiet kubernetes-validate", python.display()))?;
    }
    let file = root().join("deploy/kubernetes.yaml");
    shell(&format!(
        "{} --strict {}",
        folder.join("bin/kubernetes-validate").display(),
        file.display()
    ))
}

/// The same measurement for every launcher.
fn bench(url: &str, folder: &Path) -> Vec<String> {
    let line = format!(
        "bench --base-url {url} --model simulated --dataset-name random --input-len 16 --output-len 8 \
         --num-prompts {REQUESTS} --request-rate 60 --seed 1 --shard-wait 60s --run-dir {} --quiet",
        folder.display()
    );
    line.split_whitespace().map(str::to_owned).collect()
}

/// Checks that a run has all of its shards and all of its requests.
#[expect(clippy::print_stderr, reason = "a task speaks to the person who started it")]
fn check(folder: &Path) -> Result<()> {
    let reader = RunReader::open(folder)?;
    let merged = reader.info().merged().context("the run was not merged from shards")?;
    let RunState::Ended(end) = reader.state()? else { bail!("the run has no end") };
    let requests =
        reader.timelines()?.filter(tokometer_record::Timeline::is_success).count() as u64;
    if end.stop != Stop::Complete || !merged.is_whole() || requests != REQUESTS {
        bail!("{:?}: {requests} of {REQUESTS} requests, {merged:?}", end.stop);
    }
    eprintln!("   {} shards, {requests} requests: {}", merged.count, folder.display());
    Ok(())
}

fn mpi() -> Result<()> {
    if shell("mpirun --version > /dev/null").is_err() {
        bail!("there is no `mpirun`: apt-get install openmpi-bin");
    }
    let folder = place("mpi")?.join("run");
    let (server, url) = process::simulator(program::path(), &["--ttft", "5ms", "--itl", "1ms"])?;
    let count = SHARDS.to_string();
    let status = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", &count])
        .arg(program::path())
        .args(bench(&url, &folder))
        .env("TOKOMETER_SHARD_SECRET", "a secret for this machine alone")
        .status();
    process::end(server);
    let status = status.context("cannot start `mpirun`")?;
    if !status.success() {
        bail!("`mpirun` did not pass ({status})");
    }
    check(&folder)
}

/// Daemons that end with this value.
struct Daemons(Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in self.0.drain(..).rev() {
            process::end(child);
        }
    }
}

/// A cluster of one machine, with its own keys, ports and folders.
fn slurm() -> Result<()> {
    if shell("which slurmctld slurmd srun munged mungekey > /dev/null").is_err() {
        bail!("there is no Slurm: apt-get install slurmctld slurmd slurm-client munge");
    }
    let folder = place("slurm")?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
    let (socket, key) = (folder.join("munge.socket"), folder.join("munge.key"));
    let config = folder.join("slurm.conf");
    fs::write(&config, slurm_config(&host, &folder, &socket))?;
    shell(&format!(
        "mungekey --create --keyfile={} && chmod 700 {}",
        key.display(),
        folder.display()
    ))?;
    let log = |name: &str| folder.join(name).display().to_string();
    let start = |line: String| -> Result<Child> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = fs::File::options().create(true).append(true).open(log("daemons.log"))?;
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", &config).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        command.spawn().with_context(|| format!("cannot start `{}`", words[0]))
    };
    let munge = format!(
        "munged --foreground --force --key-file={} --socket={} --pid-file={} --log-file={} --seed-file={}",
        key.display(),
        socket.display(),
        log("munge.pid"),
        log("munge.log"),
        log("munge.seed")
    );
    let mut daemons = Daemons(vec![start(munge)?]);
    wait_for("munged", || socket.exists())?;
    daemons.0.push(start("slurmctld -D".to_owned())?);
    daemons.0.push(start("slurmd -D".to_owned())?);
    let client = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("SLURM_CONF", &config).stdin(Stdio::null());
        command
    };
    let is_idle = || client("sinfo -h -o %T | grep -q idle").status().is_ok_and(|s| s.success());
    wait_for("an idle node", is_idle)?;
    let run = folder.join("run");
    let (server, url) = process::simulator(program::path(), &["--ttft", "5ms", "--itl", "1ms"])?;
    let line = format!(
        "srun -n {SHARDS} --overcommit {} {}",
        program::path().display(),
        bench(&url, &run).join(" ")
    );
    let status =
        client(&line).env("TOKOMETER_SHARD_SECRET", "a secret for this machine alone").status();
    process::end(server);
    let status = status.context("cannot start `srun`")?;
    if !status.success() {
        bail!("`srun` did not pass ({status}); {} has the logs", folder.display());
    }
    check(&run)
}

fn slurm_config(host: &str, folder: &Path, socket: &Path) -> String {
    let folder = folder.display();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "ClusterName=tokometer\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\nMpiDefault=none\n\
         SlurmctldPort=26817\nSlurmdPort=26818\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\nReturnToService=2\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES\n",
        socket.display()
    )
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) -> Result<()> {
    for _ in 0..300 {
        if is_there() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("{what} did not come up within a minute")
}
