//! `tokometer merge`.

use std::path::{Path, PathBuf};

use tokometer_record::folder::names;
use tokometer_shards::{self as shards, MergeError, Merged, SHARDS};

use crate::args::MergeArgs;
use crate::bench::{Earlier, RunFolder};
use crate::exit::{Exit, Refusal};
use crate::shards::shard_records;
use crate::store;
use crate::terminal::print_message;

/// Merges shards into one run folder. Shards that are missing or broken off are named; the others are
/// merged all the same.
pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Exit> {
    let (given, _fetched) = store::fetched(&args.folders)?;
    let folders = shard_folders(&given)?;
    let out = match (&args.output, args.folders.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [run]) if given == args.folders && !is_run(run) => run.clone(),
        (None, _) => {
            return Err(Refusal::usage(
                "cannot merge: no output folder",
                "name it with `-o RUN`, or pass the folder of a run with shards below it",
            )
            .into());
        }
    };
    let earlier = if args.overwrite { Earlier::Removed } else { Earlier::Refused };
    let place = RunFolder::for_merge(&out, earlier)?;
    let merged = merge_to(&folders, place.path()).inspect_err(|_| place.leave_if_empty())?;
    print_message(&format!("merged {} of {} shards", merged.run.shards.len(), merged.run.count));
    print_message(&format!("record: {}", place.path().display()));
    Ok(if merged.run.is_whole() { Exit::Done } else { Exit::Points })
}

/// The same for folders that are known, with messages about what is missing.
pub(crate) fn merge_to(folders: &[PathBuf], out: &Path) -> Result<Merged, Refusal> {
    let merged = shards::merge(folders, out).map_err(|why| refusal(&why))?;
    for damage in &merged.damages {
        print_message(&format!("error: {damage}"));
    }
    for line in shards::lacking(&merged.run) {
        print_message(&format!("error: {line}"));
    }
    Ok(merged)
}

fn refusal(why: &MergeError) -> Refusal {
    let exit = match why {
        MergeError::Unwritten(_) => Exit::Write,
        _ => Exit::Usage,
    };
    Refusal::new(exit, why.to_string())
}

fn is_run(folder: &Path) -> bool {
    folder.join(names::PLAN).is_file() && !folder.join(SHARDS).is_dir()
}

/// Every folder that is a shard itself, and the shards below every other one.
fn shard_folders(given: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let mut folders = Vec::new();
    for folder in given {
        if is_run(folder) {
            folders.push(folder.clone());
            continue;
        }
        let mut found = shard_records(folder);
        if found.is_empty() {
            return Err(Refusal::usage(
                format!("cannot find a shard in `{}`", folder.display()),
                "pass the folders of the shards, or a folder that has them in `shards`",
            ));
        }
        folders.append(&mut found);
    }
    Ok(folders)
}
