//! File descriptors: their limit, and the size of the process's table.

use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::Error;

/// Descriptors that a run with many workers needs besides its connections: the record, pollers, timers,
/// libraries.
const RESERVED: u64 = 64;

/// The same for a run with few workers.
const RESERVED_LEAST: u64 = 24;

/// Raises the soft limit as far as permitted. Returns the new limit; `None` when it is unknown.
pub fn raise_limit() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Some(hard);
    }
    Some(soft)
}

/// Connections that fit under a limit of descriptors. Of a small limit they get half.
pub fn most_connections(limit: u64) -> u64 {
    let reserved = (limit / 2).clamp(RESERVED_LEAST, RESERVED);
    limit.saturating_sub(reserved).max(1)
}

pub(crate) fn check(wanted: u64, limit: Option<u64>) -> Result<(), Error> {
    match limit {
        Some(limit) if wanted > most_connections(limit) => {
            Err(Error::Descriptors { wanted, limit, possible: most_connections(limit) })
        }
        _ => Ok(()),
    }
}

/// Grows the descriptor table to its final size. In a process with threads each doubling blocks every
/// `open` for more than ten milliseconds, so it is done once, before threads start.
pub(crate) fn grow_table(wanted: u64, any: impl AsFd) {
    let Ok(high) = i32::try_from(wanted.saturating_add(RESERVED - 1)) else { return };
    // If this fails, the table stays smaller and grows later.
    if let Ok(descriptor) = fcntl(any, FcntlArg::F_DUPFD_CLOEXEC(high)) {
        let _ = nix::unistd::close(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_connections_are_refused_with_the_number_that_is_possible() {
        assert!(check(1_000, Some(1_064)).is_ok());
        assert!(check(1_000_000, None).is_ok());
        assert!(check(32, Some(64)).is_ok());
        assert!(check(33, Some(64)).is_err());
        assert!(check(1, Some(3)).is_ok());
        let refused = check(1_001, Some(1_064)).unwrap_err().to_string();
        assert!(refused.contains("1000 connections"), "{refused}");
    }
}
