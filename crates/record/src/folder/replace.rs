//! Replaces a run by another one.

use std::fs;
use std::io;
use std::path::Path;

use super::{Error, file_error, names};

/// Moves the files of a run to another folder of the same file system, replacing the run there. The
/// end is removed first and moved last: a folder that this did not complete for has no end.
pub fn replace(from: &Path, to: &Path) -> Result<(), Error> {
    for name in [names::END, names::SUMMARY, names::CLOCK] {
        remove_if_there(&to.join(name))?;
    }
    for name in [names::SERVER, names::STARTS, names::REQUESTS, names::PLAN, names::END] {
        let (new, old) = (from.join(name), to.join(name));
        match fs::rename(&new, &old) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && !new.exists() => {
                remove_if_there(&old)?;
            }
            moved => moved.map_err(file_error("write", &old))?,
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(file_error("remove", path)(why)),
        _ => Ok(()),
    }
}
