//! `tokometer merge`.

use std::path::{Path, PathBuf};

use tokometer_campaign::{self as campaign, Earlier, RunFolder, shard_records};
use tokometer_compat::Selection;
use tokometer_plan::Plan;
use tokometer_record::folder::names;
use tokometer_shards::{self as shards, SHARDS};

use super::refuse_store;
use crate::args::MergeArgs;
use crate::bench::{RunView, Say, write_summary};
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::runs::{self, READING};
use crate::terminal::print_message;

/// Merges shards into one run folder. Shards that are missing or broken off are named; the others are
/// merged all the same.
pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Exit> {
    args.folders.iter().try_for_each(|folder| refuse_store(folder))?;
    let folders = shard_folders(&args.folders)?;
    let out = match (&args.run_dir, args.folders.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [run]) if !is_run(run) => run.clone(),
        (None, _) => {
            return Err(Refusal::usage(
                "cannot merge: no folder for the run",
                "name it with `-o DIR`, or pass the folder of a run with shards below it",
            )
            .into());
        }
    };
    let earlier = if args.overwrite { Earlier::Removed } else { Earlier::Refused };
    let folder = RunFolder::for_merge(&out, earlier)?;
    let merged = campaign::shards::merge(&folders, folder.path(), &mut Say).map_err(|refusal| {
        folder.leave_if_empty();
        match refusal.kind {
            RefusalKind::Write => {
                refusal.hint("free space there, or choose another folder with `-o`")
            }
            _ => refusal,
        }
    })?;
    write_figures(folder.path())?;
    let stopped = shards::stopped_by_leader(&merged.run);
    if let Some(line) = &stopped {
        print_message(&format!("error: {line}"));
    }
    print_message(&format!("merged {} of {} shards", merged.run.shards.len(), merged.run.count));
    print_message(&format!("record: {}", folder.path().display()));
    let is_complete = merged.run.is_whole() && stopped.is_none() && merged.damages.is_empty();
    Ok(if is_complete { Exit::Done } else { Exit::Points })
}

/// Writes `summary.json` with the figures that the plan of the run asks for.
fn write_figures(folder: &Path) -> Result<(), Refusal> {
    let reader = runs::open(folder)?;
    let view = match Plan::of(reader.info()) {
        Ok(plan) => RunView::new(&plan.metrics)?.with_files(&plan.output),
        // Of another version: its record can be read, and has the figures that need no plan.
        Err(_) => RunView::plain(Selection::default()),
    };
    write_summary(&READING.summarise_read(&reader, &view)?, folder)
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
