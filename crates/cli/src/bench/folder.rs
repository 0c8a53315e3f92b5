//! Where a run's record goes.

use std::path::{Path, PathBuf};

use tokometer_base::WallNanos;
use tokometer_plan::{Output, Record};
use tokometer_record::Stop;

use crate::exit::{Exit, Refusal};
use crate::runs;

/// The folder of one measurement; points of a sweep have folders below it.
#[derive(Debug)]
pub(crate) enum Place {
    /// Kept.
    Kept(PathBuf),
    /// Removed with this value.
    Dropped(tempfile::TempDir),
}

impl Place {
    /// Chooses the folder and makes sure that it can be written, before anything is measured.
    pub(crate) fn open(output: &Output, name: &str, started: WallNanos) -> Result<Self, Refusal> {
        if output.record == Record::Dropped {
            let folder = tempfile::Builder::new().prefix("tokometer-").tempdir();
            return folder
                .map(Self::Dropped)
                .map_err(|why| unwritable(&std::env::temp_dir(), &why));
        }
        let folder = match &output.run_dir {
            Some(folder) => folder.clone(),
            None => unused(&Path::new("runs").join(format!("{}-{}", stamp(started), slug(name)))),
        };
        probe(&folder)?;
        Ok(Self::Kept(folder))
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Dropped(folder) => folder.path(),
        }
    }

    /// Takes the folder away again when nothing was recorded in it.
    pub(crate) fn leave_if_empty(&self) {
        if let Self::Kept(path) = self {
            // Only an empty folder can be removed this way.
            let _ = std::fs::remove_dir(path);
        }
    }

    /// Whether the record outlives the program.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// Two runs may start in one second.
fn unused(folder: &Path) -> PathBuf {
    let numbered = |number: u32| PathBuf::from(format!("{}-{number}", folder.display()));
    let mut candidates = std::iter::once(folder.to_owned()).chain((2..10_000).map(numbered));
    candidates.find(|candidate| !candidate.exists()).unwrap_or_else(|| folder.to_owned())
}

fn unwritable(path: &Path, why: &std::io::Error) -> Refusal {
    Refusal::new(Exit::Write, format!("cannot write `{}`: {why}", path.display()))
        .hint("choose another place with `--run-dir`, or `--no-run-dir`")
}

/// Writes and removes a file in a folder that is made for it.
pub(crate) fn probe(folder: &Path) -> Result<(), Refusal> {
    std::fs::create_dir_all(folder).map_err(|why| unwritable(folder, &why))?;
    let file = folder.join(".tokometer-probe");
    std::fs::write(&file, b"probe").map_err(|why| unwritable(folder, &why))?;
    std::fs::remove_file(&file).map_err(|why| unwritable(folder, &why))
}

/// `20260131-094501`, in UTC.
pub(crate) fn stamp(wall: WallNanos) -> String {
    timestamp(wall).strftime("%Y%m%d-%H%M%S").to_string()
}

/// A wall-clock time as a calendar knows it.
pub(crate) fn timestamp(wall: WallNanos) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(wall.0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// A name that is safe in a path.
pub(crate) fn slug(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | ',');
    name.chars().map(|c| if is_safe(c) { c } else { '-' }).take(80).collect()
}

/// How the run in a folder ended. `None` where there is none, or it did not come to its own end and
/// has to be measured again.
pub(crate) fn stored_end(folder: &Path) -> Option<Stop> {
    runs::end(folder).map(|end| end.stop).filter(|stop| *stop == Stop::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_safe_and_times_sort() {
        assert_eq!(slug("my run/../x=1,y"), "my-run-..-x=1,y");
        assert_eq!(stamp(WallNanos(0)), "19700101-000000");
    }

    #[test]
    fn a_folder_below_a_file_is_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let refusal = probe(&file.join("run")).unwrap_err();
        assert_eq!(refusal.exit, Exit::Write);
        assert!(refusal.to_string().contains("file/run"), "{refusal}");
    }
}
