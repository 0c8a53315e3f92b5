//! The folder of a campaign, with the folders of its runs below it.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokometer_base::WallNanos;
use tokometer_base::refusal::{Refusal, RefusalKind};
use tokometer_plan::options::OutputArgs;
use tokometer_plan::{Output, Record};
use tokometer_record::folder::{clear, create_private, create_private_new, names};
use tokometer_record::stored::{CAPACITY, STAIRCASE, points};
use tokometer_record::{self as record, RemoveEarlier};
use tokometer_shards::SHARDS;

use crate::capacity::STAIRS;

/// What to do with a run that is already in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing: the new run is refused.
    Refused,
    /// Its finished points are not measured again.
    Resumed,
    /// Its files are removed once the new run has sent its first request.
    Removed,
}

impl Earlier {
    /// What is asked for by `--resume` and `--overwrite`. Both need a folder that was named, by a flag or
    /// otherwise.
    pub fn checked(args: &OutputArgs, output: &Output) -> Result<Self, Refusal> {
        let (flag, asked) = match (args.resume, args.overwrite) {
            (true, _) => ("--resume", Self::Resumed),
            (false, true) => ("--overwrite", Self::Removed),
            (false, false) => return Ok(Self::Refused),
        };
        if output.run_dir.is_none() {
            return Err(Refusal::usage(
                format!("cannot use `{flag}` without the folder of the earlier run"),
                format!("add `--run-dir DIR` to `{flag}`"),
            ));
        }
        Ok(asked)
    }
}

/// The folder of one measurement; points of a sweep have folders below it.
#[derive(Debug)]
pub enum RunFolder {
    /// Kept, and locked against other runs as long as this value lives.
    Kept {
        path: PathBuf,
        /// The folder itself, opened: a lock on it leaves no file behind.
        _lock: File,
        /// The earlier runs that the new one replaces.
        earlier: Option<EarlierRuns>,
    },
    /// Used by other processes as well, each with a folder of its own below it, which it locks.
    Shared {
        path: PathBuf,
        /// Against a run that has all of the folder. `None` where shard 0 has locked it for all.
        _lock: Option<File>,
    },
    /// Removed with this value.
    Dropped(tempfile::TempDir),
}

impl RunFolder {
    /// Chooses the folder and makes sure that it can be written, before anything is measured.
    pub fn open(
        output: &Output,
        name: &str,
        started: WallNanos,
        earlier: Earlier,
    ) -> Result<Self, Refusal> {
        if output.record == Record::Dropped {
            let folder = tempfile::Builder::new().prefix("tokometer-").tempdir();
            return folder.map(Self::Dropped).map_err(|why| {
                // The library names the folder that it could not make, which nobody has asked for.
                let (why, parent) = (why.to_string(), std::env::temp_dir());
                let why = why.split(" at path ").next().unwrap_or_default();
                let parent = parent.display();
                let message = format!("cannot make a temporary folder in `{parent}`: {why}");
                Refusal::new(RefusalKind::Write, message)
                    .hint("set TMPDIR to a folder that can be written, or use `--run-dir`")
            });
        }
        if let Some(folder) = &output.run_dir {
            return Self::named(folder, earlier);
        }
        let folder = Path::new("runs").join(format!("{}-{}", stamp(started), slug(name)));
        Self::named(&unused(&folder).map_err(|why| unwritable(&folder, &why))?, Earlier::Refused)
    }

    /// Takes a folder that the user named.
    pub fn named(folder: &Path, earlier: Earlier) -> Result<Self, Refusal> {
        create_private(folder).map_err(|why| unwritable(folder, &why))?;
        let lock = lock(folder)?;
        let held = held(folder);
        if earlier == Earlier::Refused && !held.is_empty() {
            let message = format!("cannot write `{}`: it already holds a run", folder.display());
            return Err(Refusal::new(RefusalKind::Write, message).hint(
                "choose another `--run-dir`, or add `--overwrite` to remove that run, or `--resume` to \
                 keep its finished points",
            ));
        }
        let earlier = (earlier == Earlier::Removed).then(|| EarlierRuns::of(folder, held));
        probe(folder)?;
        Ok(Self::Kept { path: folder.to_owned(), _lock: lock, earlier: earlier.transpose()? })
    }

    /// What removes the earlier runs that this folder's run replaces: to be called when its first request has
    /// left.
    pub fn take_earlier(&mut self) -> Option<RemoveEarlier> {
        let Self::Kept { earlier, .. } = self else { return None };
        // Once: the next run of the measurement may be in a folder that an earlier one was in.
        let earlier = Mutex::new(Some(earlier.take()?));
        let take = move || earlier.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some(Arc::new(move || take().map_or(Ok(()), |earlier| earlier.remove())))
    }

    /// Removes them now, for runs of several processes: they share the folder as soon as they meet.
    pub fn without_earlier(mut self) -> Result<Self, Refusal> {
        if let Some(remove) = self.take_earlier() {
            remove().map_err(|why| Refusal::new(RefusalKind::Write, why.to_string()))?;
        }
        Ok(self)
    }

    /// The folder of shard 0, which has locked it.
    pub fn of_leader(folder: &Path) -> Result<Self, Refusal> {
        create_private(folder).map_err(|why| unwritable(folder, &why))?;
        Ok(Self::Shared { path: folder.to_owned(), _lock: None })
    }

    /// A folder that other shards use as well, without one that leads them.
    pub fn shared(folder: &Path) -> Result<Self, Refusal> {
        create_private(folder).map_err(|why| unwritable(folder, &why))?;
        let lock = lock_by(folder, File::try_lock_shared)?;
        let run = record::RunReader::open(folder).ok();
        if run.is_some_and(|run| run.info().merged().is_none()) {
            let shown = folder.display();
            let message =
                format!("cannot write a shard to `{shown}`: it holds a run of one process");
            return Err(
                Refusal::new(RefusalKind::Write, message).hint("choose another `--run-dir`")
            );
        }
        Ok(Self::Shared { path: folder.to_owned(), _lock: Some(lock) })
    }

    /// The folder of a merged run. Shards below it stay.
    pub fn for_merge(folder: &Path, earlier: Earlier) -> Result<Self, Refusal> {
        // `merge` has no `--run-dir`.
        let elsewhere = |refusal: Refusal| refusal.hint("choose another folder with `-o`");
        create_private(folder).map_err(|why| elsewhere(unwritable(folder, &why)))?;
        let lock = lock(folder).map_err(elsewhere)?;
        if folder.join(names::PLAN).is_file() && earlier != Earlier::Removed {
            let message = format!("cannot write `{}`: it already holds a run", folder.display());
            let hint = "choose another folder with `-o`, or add `--overwrite` to replace that run";
            return Err(Refusal::new(RefusalKind::Write, message).hint(hint));
        }
        probe(folder).map_err(|refusal| {
            // Only an empty folder can be removed this way.
            let _ = std::fs::remove_dir(folder);
            elsewhere(refusal)
        })?;
        Ok(Self::Kept { path: folder.to_owned(), _lock: lock, earlier: None })
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Kept { path, .. } | Self::Shared { path, .. } => path,
            Self::Dropped(folder) => folder.path(),
        }
    }

    /// Removes the folder if nothing was recorded in it.
    pub fn leave_if_empty(&self) {
        if let Self::Kept { path, .. } | Self::Shared { path, .. } = self {
            // Only an empty folder can be removed this way.
            let _ = std::fs::remove_dir(path);
        }
    }

    /// Whether an empty folder may be removed at any time: nobody else uses it.
    pub fn is_removable(&self) -> bool {
        matches!(self, Self::Kept { .. })
    }

    /// Whether the record outlives the program: it does not in a folder that somebody has moved or deleted.
    pub fn is_kept(&self) -> bool {
        matches!(self, Self::Kept { .. } | Self::Shared { .. }) && !held(self.path()).is_empty()
    }
}

/// Creates the first unused folder of this name: two runs may start in one second.
fn unused(folder: &Path) -> io::Result<PathBuf> {
    let numbered = |number: u32| PathBuf::from(format!("{}-{number}", folder.display()));
    std::fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    for candidate in std::iter::once(folder.to_owned()).chain((2..10_000).map(numbered)) {
        match create_private_new(&candidate) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| candidate),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Locks a folder against other runs. A file system without locks cannot show a conflict, and is no reason to
/// refuse a run.
pub(crate) fn lock(folder: &Path) -> Result<File, Refusal> {
    lock_by(folder, File::try_lock)
}

fn lock_by(
    folder: &Path,
    try_lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<File, Refusal> {
    let file = File::open(folder).map_err(|why| unwritable(folder, &why))?;
    match try_lock(&file) {
        Err(TryLockError::WouldBlock) => {
            let message = format!("cannot write `{}`: another run is using it", folder.display());
            Err(Refusal::new(RefusalKind::Write, message)
                .hint("choose another place with `--run-dir`"))
        }
        Err(TryLockError::Error(_)) | Ok(()) => Ok(file),
    }
}

/// The folders of the runs that a measurement left: its own, and those of its points.
pub(crate) fn held(folder: &Path) -> Vec<PathBuf> {
    let points = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let points = points.filter(|entry| entry.file_name().to_str().is_some_and(is_point));
    let points = points.map(|entry| entry.path());
    let all: Vec<PathBuf> = std::iter::once(folder.to_owned()).chain(points).collect();
    let shards = all.iter().flat_map(|run| shard_records(run));
    let shards: Vec<PathBuf> = shards.collect();
    let all = shards.into_iter().chain(all);
    all.filter(|candidate| candidate.join(names::PLAN).is_file()).collect()
}

/// Whether a name is that of a point's folder, such as `003-max_concurrency=8`; the name of a run by
/// default begins with the eight digits of a date.
fn is_point(name: &str) -> bool {
    let number = name.split('-').next().unwrap_or_default();
    (3..=6).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Runs that a new one replaces. What the user put beside them stays.
#[derive(Debug)]
pub struct EarlierRuns {
    folder: PathBuf,
    held: Vec<PathBuf>,
    /// Of all of them: a shard that is still measured must not cost the others.
    _locks: Vec<File>,
}

impl EarlierRuns {
    /// The runs in `folder`, which is locked, and those of its staircase.
    fn of(folder: &Path, mut held: Vec<PathBuf>) -> Result<Self, Refusal> {
        held.splice(0..0, self::held(&folder.join(STAIRS)));
        let others = held.iter().filter(|run| *run != folder);
        let locks = others.map(|run| lock(run)).collect::<Result<Vec<File>, Refusal>>()?;
        Ok(Self { folder: folder.to_owned(), held, _locks: locks })
    }

    fn remove(&self) -> Result<(), record::Error> {
        for run in &self.held {
            clear(run)?;
            if *run != self.folder {
                // A folder that holds something else stays.
                let _ = std::fs::remove_dir(run);
                if let Some(above) = run.parent().filter(|above| *above != self.folder) {
                    let _ = std::fs::remove_dir(above);
                }
            }
        }
        let stairs = self.folder.join(STAIRS);
        for findings in
            [self.folder.join(CAPACITY), self.folder.join(STAIRCASE), stairs.join(STAIRCASE)]
        {
            match std::fs::remove_file(&findings) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(record::Error::File { action: "remove", path: findings, source });
                }
                _ => {}
            }
        }
        let _ = std::fs::remove_dir(stairs);
        Ok(())
    }
}

fn unwritable(path: &Path, why: &std::io::Error) -> Refusal {
    let file = path.ancestors().find(|part| part.is_file());
    let why = match file {
        Some(file) => format!("`{}` is a file, not a folder", file.display()),
        None => why.to_string(),
    };
    Refusal::new(RefusalKind::Write, format!("cannot write `{}`: {why}", path.display()))
        .hint("choose another place with `--run-dir`, or `--no-run-dir`")
}

/// Writes and removes a file in a folder that is made for it.
pub fn probe(folder: &Path) -> Result<(), Refusal> {
    std::fs::create_dir_all(folder).map_err(|why| unwritable(folder, &why))?;
    let file = folder.join(".tokometer-probe");
    let written = std::fs::write(&file, b"probe");
    // A full disk takes the name of a file, but not its content.
    let removed = std::fs::remove_file(&file);
    written.and(removed).map_err(|why| unwritable(folder, &why))
}

/// `20260131-094501`, in UTC.
pub fn stamp(wall: WallNanos) -> String {
    timestamp(wall).strftime("%Y%m%d-%H%M%S").to_string()
}

/// A wall-clock time as a calendar knows it.
fn timestamp(wall: WallNanos) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(wall.0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// A name that is safe in a path.
pub(crate) fn slug(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | ',');
    name.chars().map(|c| if is_safe(c) { c } else { '-' }).take(80).collect()
}

/// The records of all shards below a run's folder, as far as they are there.
pub fn shard_records(folder: &Path) -> Vec<PathBuf> {
    points(&folder.join(SHARDS))
}

/// A load in the name of a folder, without needless digits.
pub(crate) fn load_name(load: f64) -> String {
    let text = format!("{load:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_safe_and_times_sort() {
        assert_eq!(slug("my run/../x=1,y"), "my-run-..-x=1,y");
        assert_eq!(stamp(WallNanos(0)), "19700101-000000");
        assert_eq!([load_name(12.0), load_name(0.125)], ["12", "0.125"]);
    }

    /// A folder with a single run, a sweep's point, and a file that is not ours.
    fn used() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plan.json", "end.json", "requests.arrows", "capacity.json", "notes.txt"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        for (point, name) in [("000-a=1", "plan.json"), ("20260131-094501-run", "plan.json")] {
            std::fs::create_dir(folder.path().join(point)).unwrap();
            std::fs::write(folder.path().join(point).join(name), "x").unwrap();
        }
        folder
    }

    fn listed(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_that_holds_a_run_is_refused_unless_told_what_becomes_of_it() {
        let folder = used();
        let before = listed(folder.path());
        let refusal = RunFolder::named(folder.path(), Earlier::Refused).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Write);
        assert!(refusal.to_string().contains("`--overwrite`"), "{refusal}");
        drop(RunFolder::named(folder.path(), Earlier::Resumed).unwrap());
        assert_eq!(listed(folder.path()), before);
        // A run that sends nothing costs nothing.
        let mut replaced = RunFolder::named(folder.path(), Earlier::Removed).unwrap();
        assert_eq!(listed(folder.path()), before);
        replaced.take_earlier().unwrap()().unwrap();
        assert_eq!(listed(folder.path()), ["20260131-094501-run", "notes.txt"]);
        drop(replaced);
        drop(RunFolder::named(folder.path(), Earlier::Refused).unwrap());
    }

    #[test]
    fn two_runs_cannot_have_one_folder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunFolder::named(folder.path(), Earlier::Refused).unwrap();
        for earlier in [Earlier::Refused, Earlier::Resumed, Earlier::Removed] {
            let refusal = RunFolder::named(folder.path(), earlier).unwrap_err();
            assert!(refusal.to_string().contains("another run"), "{refusal}");
        }
        drop(first);
        drop(RunFolder::named(folder.path(), Earlier::Refused).unwrap());
    }

    /// Two shards of one rank wrote into the same files, and `--overwrite` removed those of a running shard.
    #[test]
    fn a_folder_of_shards_is_no_run_s_until_they_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let shards = [folder.path(), folder.path()].map(|path| RunFolder::shared(path).unwrap());
        let record = folder.path().join("shards/001");
        std::fs::create_dir_all(&record).unwrap();
        std::fs::write(record.join(names::PLAN), "x").unwrap();
        let refusal = RunFolder::named(folder.path(), Earlier::Removed).unwrap_err();
        assert!(refusal.to_string().contains("another run"), "{refusal}");
        drop(shards);
        let running = lock(&record).unwrap();
        let refusal = RunFolder::named(folder.path(), Earlier::Removed).unwrap_err();
        assert!(refusal.to_string().contains("001`: another run"), "{refusal}");
        assert!(record.join(names::PLAN).is_file());
        drop(running);
        let _alone = RunFolder::named(folder.path(), Earlier::Removed).unwrap().without_earlier();
        assert!(!record.exists());
    }

    /// Both asked whether a name was free before either had made its folder.
    #[test]
    fn runs_that_start_together_get_folders_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("runs/one");
        let made: std::collections::BTreeSet<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| unused(&name).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made.len(), 8);
        assert!(made.iter().all(|folder| folder.is_dir()));
    }

    #[test]
    fn a_run_folder_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::named(&folder.path().join("a/run"), Earlier::Refused).unwrap();
        let mode = std::fs::metadata(run.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_folder_below_a_file_is_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let merged = RunFolder::for_merge(&file.join("run"), Earlier::Refused).unwrap_err();
        assert_eq!(merged.hint, "choose another folder with `-o`", "`merge` has no `--run-dir`");
        let refusal = probe(&file.join("run")).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Write);
        assert!(refusal.to_string().contains("file/run"), "{refusal}");
    }
}
