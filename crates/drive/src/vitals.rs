//! Kernel measurements of this process and machine during the run.
//!
//! Taken before and after the measured phase; what a machine does not offer stays unknown. All values
//! come from a [`Kernel`], so that tests can replace it.

use std::net::IpAddr;

use tokometer_base::Nanos;
use tokometer_client::conn::Peer;
use tokometer_record::Health;
use tokometer_record::health::WorkerHealth;

use crate::platform::Kernel;

/// Ticks per second in `/proc/stat`, which Linux fixes for user space.
const TICKS_PER_SEC: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ThreadSample {
    cpu: Option<Nanos>,
    queued: Option<Nanos>,
    involuntary: Option<u64>,
}

impl ThreadSample {
    pub(crate) fn take(kernel: &impl Kernel) -> Self {
        let schedstat = kernel.text("/proc/thread-self/schedstat").unwrap_or_default();
        let mut fields = schedstat.split_ascii_whitespace().map(|field| field.parse().ok());
        let status = kernel.text("/proc/thread-self/status").unwrap_or_default();
        Self {
            cpu: fields.next().flatten().map(Nanos),
            queued: fields.next().flatten().map(Nanos),
            involuntary: field(&status, "nonvoluntary_ctxt_switches:"),
        }
    }

    /// Adds the difference since this sample to a worker's health.
    pub(crate) fn finish(&self, kernel: &impl Kernel, health: &mut WorkerHealth) {
        let now = Self::take(kernel);
        health.cpu_time = since(now.cpu, self.cpu);
        health.run_queue_delay = since(now.queued, self.queued);
        health.involuntary_switches = now
            .involuntary
            .zip(self.involuntary)
            .map(|(after, before)| after.saturating_sub(before));
    }
}

fn since(after: Option<Nanos>, before: Option<Nanos>) -> Option<Nanos> {
    after.zip(before).map(|(after, before)| after - before)
}

/// The number after `name` in a text of lines `name value ...`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VitalsSample {
    cpu: Option<Nanos>,
    pressure: Option<Nanos>,
    throttled: Option<Nanos>,
    stolen: Option<Nanos>,
}

impl VitalsSample {
    pub(crate) fn take(kernel: &impl Kernel) -> Self {
        Self {
            cpu: kernel.process_cpu(),
            pressure: kernel.text("/proc/pressure/cpu").as_deref().and_then(pressure),
            throttled: throttled(kernel),
            stolen: kernel.text("/proc/stat").as_deref().and_then(stolen),
        }
    }

    /// Adds the differences since this sample, and the machine's final values.
    pub(crate) fn finish(&self, kernel: &impl Kernel, health: &mut Health) {
        let now = Self::take(kernel);
        health.cpu_time = since(now.cpu, self.cpu);
        health.cpu_pressure = since(now.pressure, self.pressure);
        health.throttled = since(now.throttled, self.throttled);
        health.stolen = since(now.stolen, self.stolen);
        health.cores = kernel.cores().and_then(|cores| u32::try_from(cores).ok());
        let status = kernel.text("/proc/self/status").unwrap_or_default();
        health.peak_memory_bytes = field(&status, "VmHWM:").map(|kib| kib * 1_024);
        health.port_limit = port_limit(kernel);
    }
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=123456`, in microseconds.
fn pressure(text: &str) -> Option<Nanos> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    let total = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Nanos::from_micros)
}

/// The eighth number of the line `cpu`.
fn stolen(text: &str) -> Option<Nanos> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: u64 = line.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(Nanos::from_millis(ticks * 1_000 / TICKS_PER_SEC))
}

/// Time that the process's control group was throttled, under either version.
fn throttled(kernel: &impl Kernel) -> Option<Nanos> {
    let groups = kernel.text("/proc/self/cgroup")?;
    let v2 = groups.lines().find_map(|line| line.strip_prefix("0::")).and_then(|path| {
        let stat =
            kernel.text(&format!("/sys/fs/cgroup{}/cpu.stat", path.trim_end_matches('/')))?;
        field(&stat, "throttled_usec ").map(Nanos::from_micros)
    });
    let v1 = || {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|controller| controller == "cpu").then_some(path)
        })?;
        let path = path.trim_end_matches('/');
        let stat = kernel
            .text(&format!("/sys/fs/cgroup/cpu{path}/cpu.stat"))
            .or_else(|| kernel.text("/sys/fs/cgroup/cpu/cpu.stat"))?;
        field(&stat, "throttled_time ").map(Nanos)
    };
    v2.or_else(v1)
}

fn port_limit(kernel: &impl Kernel) -> Option<u32> {
    let range = kernel.text("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut ends = range.split_ascii_whitespace().filter_map(|end| end.parse::<u32>().ok());
    let (low, high) = (ends.next()?, ends.next()?);
    high.checked_sub(low).map(|width| width + 1)
}

/// Whether one of the addresses belongs to this machine. `None` when our own are not known.
pub(crate) fn is_same_host(peers: &[&Peer]) -> Option<bool> {
    let address = |peer: &&Peer| match peer {
        Peer::Tcp(address) => Some(address.ip()),
        Peer::Unix(_) => None,
    };
    let addresses: Vec<IpAddr> = peers.iter().filter_map(address).collect();
    // A Unix-domain socket has no address because it leads nowhere else.
    if addresses.len() < peers.len() || addresses.iter().any(IpAddr::is_loopback) {
        return Some(true);
    }
    if addresses.is_empty() {
        return None;
    }
    let own: Vec<IpAddr> = nix::ifaddrs::getifaddrs()
        .ok()?
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        })
        .collect();
    Some(addresses.iter().any(|address| own.contains(address)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    struct Fake(BTreeMap<&'static str, &'static str>);

    impl Kernel for Fake {
        fn text(&self, path: &str) -> Option<String> {
            self.0.get(path).map(ToString::to_string)
        }
    }

    fn fake(files: &[(&'static str, &'static str)]) -> Fake {
        Fake(files.iter().copied().collect())
    }

    #[test]
    fn a_threads_readings_are_differences() {
        let status = "Name:\tx\nnonvoluntary_ctxt_switches:\t7\n";
        let before = fake(&[
            ("/proc/thread-self/schedstat", "1000 200 3\n"),
            ("/proc/thread-self/status", status),
        ]);
        let after = fake(&[
            ("/proc/thread-self/schedstat", "5000 900 9\n"),
            ("/proc/thread-self/status", "nonvoluntary_ctxt_switches:\t9\n"),
        ]);
        let mut health = WorkerHealth::default();
        ThreadSample::take(&before).finish(&after, &mut health);
        assert_eq!(health.cpu_time, Some(Nanos(4_000)));
        assert_eq!(health.run_queue_delay, Some(Nanos(700)));
        assert_eq!(health.involuntary_switches, Some(2));
    }

    #[test]
    fn unavailable_kernel_values_stay_unknown() {
        let mut health = WorkerHealth::default();
        ThreadSample::take(&fake(&[])).finish(&fake(&[]), &mut health);
        assert_eq!(health, WorkerHealth::default());
        let sample = VitalsSample::take(&fake(&[]));
        assert_eq!((sample.pressure, sample.throttled, sample.stolen), (None, None, None));
        assert_eq!(port_limit(&fake(&[])), None);
    }

    #[test]
    fn kernel_files_are_parsed() {
        let text = "some avg10=0.00 avg60=1.25 avg300=0.00 total=42\nfull avg10=0.00 total=1\n";
        assert_eq!(pressure(text), Some(Nanos::from_micros(42)));
        let stat = "cpu  1 2 3 4 5 6 7 250 0 0\ncpu0 1 2 3\n";
        assert_eq!(stolen(stat), Some(Nanos::from_millis(2_500)));
        let ports = fake(&[("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")]);
        assert_eq!(port_limit(&ports), Some(28_232));
    }

    #[test]
    fn throttling_is_found_under_both_versions_of_control_groups() {
        let v2 = fake(&[
            ("/proc/self/cgroup", "0::/user.slice/me\n"),
            ("/sys/fs/cgroup/user.slice/me/cpu.stat", "usage_usec 5\nthrottled_usec 1200\n"),
        ]);
        assert_eq!(throttled(&v2), Some(Nanos::from_micros(1_200)));
        let v1 = fake(&[
            ("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/abc\n"),
            ("/sys/fs/cgroup/cpu/docker/abc/cpu.stat", "nr_throttled 2\nthrottled_time 777\n"),
        ]);
        assert_eq!(throttled(&v1), Some(Nanos(777)));
        assert_eq!(throttled(&fake(&[("/proc/self/cgroup", "0::/\n")])), None);
    }

    #[test]
    fn loopback_is_this_host() {
        let tcp = |text: &str| Peer::Tcp(text.parse().unwrap());
        assert_eq!(is_same_host(&[&tcp("127.0.0.1:80")]), Some(true));
        assert_eq!(is_same_host(&[&tcp("[::1]:80")]), Some(true));
        assert_eq!(is_same_host(&[&Peer::Unix(Path::new("/s").into())]), Some(true));
        assert_eq!(is_same_host(&[]), None);
    }
}
