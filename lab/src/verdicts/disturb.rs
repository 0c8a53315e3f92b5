//! What is done to the client while it measures.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::cases::Disturbance;
use super::stage::INTO_THE_RUN;
use crate::process::{Kept, burn, shell};

/// A disturbance under way. It ends when dropped.
pub(super) struct Disturber {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _busy: Vec<Kept>,
    has_group: bool,
}

impl Drop for Disturber {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if self.has_group {
            let _ = std::fs::remove_dir(group());
        }
    }
}

impl Disturber {
    pub(super) fn start(disturbance: Disturbance, client: u32, core: &str) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = match disturbance {
            Disturbance::Busy(programs) => (0..programs).map(|_| burn(core)).collect(),
            _ => Ok(Vec::new()),
        }?;
        let pid = Pid::from_raw(client.cast_signed());
        let ended = Arc::clone(&is_over);
        let thread: Option<JoinHandle<()>> = match disturbance {
            Disturbance::Stop(millis) => Some(std::thread::spawn(move || {
                sleep(INTO_THE_RUN);
                stop(pid, Duration::from_millis(millis));
            })),
            Disturbance::Stutter(stopped, every) => Some(std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    stop(pid, Duration::from_millis(stopped));
                    sleep(Duration::from_millis(every - stopped));
                }
            })),
            _ => None,
        };
        let has_group = matches!(disturbance, Disturbance::Quota(_));
        Ok(Self { is_over, thread, _busy: busy, has_group })
    }
}

/// Stops a process for a time. One that has ended in the meantime is left alone: its parent has not
/// waited for it yet, so its number is not taken.
fn stop(pid: Pid, length: Duration) {
    if kill(pid, Signal::SIGSTOP).is_ok() {
        sleep(length);
        let _ = kill(pid, Signal::SIGCONT);
    }
}

/// How long the wall clock of the client stays ahead.
const STEP_MS: u64 = 300;

/// Variables for a client whose wall clock is set forward by so many milliseconds during the run, and back.
/// A preloaded library shows the client another clock; that of the machine is not touched.
pub(super) fn stepped_clock(folder: &Path, millis: u64) -> Result<[(&'static str, String); 2]> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/verdicts/stepped_clock.c");
    let library = folder.join("stepped_clock.so").display().to_string();
    shell(&format!("cc -O1 -shared -fPIC -o {library} {}", source.display()))?;
    let times = format!("{} {STEP_MS} {millis}", INTO_THE_RUN.as_millis());
    Ok([("LD_PRELOAD", library), ("TOKOLAB_CLOCK_STEP", times)])
}

/// Folder of the control group, under either version of control groups.
pub(super) fn group() -> String {
    let first = Path::new("/sys/fs/cgroup/cpu");
    let root = if first.is_dir() { first } else { Path::new("/sys/fs/cgroup") };
    root.join("tokolab").display().to_string()
}

/// Makes the group with a share of one core, in percent, per 100 ms.
pub(super) fn make_group(percent: u32) -> Result<()> {
    let folder = PathBuf::from(group());
    let _ = std::fs::create_dir(&folder);
    let micros = percent * 1_000;
    if folder.join("cpu.cfs_quota_us").exists() {
        std::fs::write(folder.join("cpu.cfs_period_us"), "100000")?;
        std::fs::write(folder.join("cpu.cfs_quota_us"), micros.to_string())?;
    } else {
        std::fs::write(folder.join("cpu.max"), format!("{micros} 100000"))
            .context("control groups cannot be used")?;
    }
    Ok(())
}

/// A script that enters the group named first and becomes the program that follows.
pub(super) fn enter_script(folder: &Path) -> Result<String> {
    let path = folder.join("enter.sh");
    std::fs::write(&path, "echo $$ > \"$1/cgroup.procs\"\nshift\nexec \"$@\"\n")?;
    Ok(path.display().to_string())
}
