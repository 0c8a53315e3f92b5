//! Real Slurm: a cluster of one machine, with its own keys, ports and folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tokometer_e2e::program::{self, Server};

use super::{SECRET, SHARDS, bench, check, empty_folder, load};
use crate::process::{self, root, shell, wait_for};

/// A step, the shipped batch file, and an array job.
pub(super) fn run() -> Result<()> {
    if shell("which slurmctld slurmd srun sbatch munged mungekey > /dev/null").is_err() {
        bail!("there is no Slurm: apt-get install slurmctld slurmd slurm-client munge");
    }
    let cluster = Cluster::start(empty_folder("slurm")?)?;
    let server = Server::quick();
    let url = &server.url;
    let ran =
        cluster.step(url).and_then(|()| cluster.batch_file(url)).and_then(|()| cluster.array(url));
    ran.with_context(|| format!("{} has the logs", cluster.folder.display()))
}

struct Cluster {
    folder: PathBuf,
    config: PathBuf,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.daemons.drain(..).rev() {
            process::end(child);
        }
    }
}

impl Cluster {
    fn start(folder: PathBuf) -> Result<Self> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned();
        let (socket, key) = (folder.join("munge.socket"), folder.join("munge.key"));
        let config = folder.join("slurm.conf");
        fs::write(&config, configuration(&host, &folder, &socket))?;
        shell(&format!(
            "mungekey --create --keyfile={} && chmod 700 {}",
            key.display(),
            folder.display()
        ))?;
        let mut cluster = Self { folder, config, daemons: Vec::new() };
        let file = |name: &str| cluster.folder.join(name).display().to_string();
        let munge = format!(
            "munged --foreground --force --key-file={} --socket={} --pid-file={} --log-file={} --seed-file={}",
            key.display(),
            socket.display(),
            file("munge.pid"),
            file("munge.log"),
            file("munge.seed")
        );
        cluster.daemon(&munge)?;
        wait_for("munged", || socket.exists())?;
        cluster.daemon("slurmctld -D")?;
        cluster.daemon("slurmd -D")?;
        wait_for("an idle node", || cluster.client("sinfo -h -o %T | grep -q idle").is_ok())?;
        Ok(cluster)
    }

    fn daemon(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let log = self.folder.join("daemons.log");
        let output = fs::File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", &self.config).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot start `{}`", words[0]))?;
        self.daemons.push(child);
        Ok(())
    }

    /// Runs a command of Slurm's in the cluster's folder, with the program on the path.
    fn client(&self, line: &str) -> Result<()> {
        let own = program::path().parent().unwrap_or(Path::new("."));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            std::iter::once(own.to_owned()).chain(std::env::split_paths(&path)),
        )?;
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.folder).stdin(Stdio::null());
        command.env("SLURM_CONF", &self.config).env("PATH", path);
        let status = command.env("TOKOMETER_SHARD_SECRET", SECRET).status()?;
        if status.success() { Ok(()) } else { bail!("`{line}` did not pass ({status})") }
    }

    fn step(&self, url: &str) -> Result<()> {
        let run = self.folder.join("step");
        let bench = bench(url, &run);
        self.client(&format!("srun -n {SHARDS} --overcommit tokometer {bench}"))?;
        check(&run)
    }

    /// The shipped file, which names the server and the folder itself; its sizes are those of a larger cluster.
    fn batch_file(&self, url: &str) -> Result<()> {
        let file = root().join("deploy/slurm.sbatch");
        self.client(&format!(
            "sbatch --wait --nodes=1 --ntasks={SHARDS} --ntasks-per-node={SHARDS} --cpus-per-task=1 \
             --overcommit --output=batch.log {} {url} {}",
            file.display(),
            load()
        ))?;
        let runs = fs::read_dir(self.folder.join("runs"))?.flatten().next();
        check(&runs.context("the batch job left no run")?.path())
    }

    /// Every task of an array job is one shard.
    fn array(&self, url: &str) -> Result<()> {
        let run = self.folder.join("array");
        let bench = bench(url, &run);
        let last = SHARDS - 1;
        self.client(&format!(
            "sbatch --wait --array=0-{last} --ntasks=1 --oversubscribe --output=array-%a.log \
             --wrap 'tokometer {bench} --leader 127.0.0.1:26819'"
        ))?;
        check(&run)
    }
}

fn configuration(host: &str, folder: &Path, socket: &Path) -> String {
    let folder = folder.display();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "ClusterName=tokometer\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\nMpiDefault=none\n\
         SlurmctldPort=26817\nSlurmdPort=26818\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\nReturnToService=2\n\
         SchedulerParameters=sched_interval=2,batch_sched_delay=0\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES\n",
        socket.display()
    )
}
