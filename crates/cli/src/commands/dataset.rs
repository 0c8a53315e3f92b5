//! `tokometer dataset`: what bench would send, without sending it.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use tokometer_base::Seed;
use tokometer_record::{STDOUT, WholeFile};

use crate::args::DatasetArgs;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::lower::{Environment, lower, written};
use crate::session::say_remarks;
use crate::terminal::{print, print_message, print_note};
use tokometer_measure::{WorkloadInputs, open, tokenizer};

const SHOWN: u64 = 2;

pub(crate) fn dataset(
    args: &DatasetArgs,
    order: &[String],
    environment: &Environment,
) -> anyhow::Result<Exit> {
    crate::shards::refuse(&args.bench.shards, "dataset")?;
    let lowered = lower(&args.bench, order, environment)?;
    say_remarks(&lowered);
    if args.bench.print_plan {
        print(&written(&lowered.plan, &lowered.origins).context("cannot show the plan")?)?;
        return Ok(Exit::Done);
    }
    for point in &lowered.points {
        let plan = &point.plan;
        let opened = tokenizer(plan, &lowered.secrets, None)?;
        for note in &opened.notes {
            print_note(&format!("note: {note}"));
        }
        let name = opened.tokenizer.name().to_owned();
        let means = WorkloadInputs {
            tokenizer: opened.tokenizer,
            salt: Seed(plan.seed),
            hub: lowered.secrets.hub.clone(),
        };
        let opened = open(plan, means)?;
        let description = opened.workload.describe(args.show.unwrap_or(SHOWN))?;
        let description = format!(
            "{} with the tokenizer `{name}`\n{}",
            plan.workload.name(),
            description.to_text()
        );
        match args.export.as_deref() {
            Some(path) if path == Path::new(STDOUT) => print_message(description.trim_end()),
            _ => print(&description)?,
        }
        if let Some(path) = &args.export {
            let unwritable = |why: std::io::Error| {
                Refusal::new(
                    RefusalKind::Write,
                    format!("cannot write `{}`: {why}", path.display()),
                )
            };
            let mut file = WholeFile::create(path).map_err(unwritable)?;
            let mut rows = BufWriter::new(&mut file);
            opened.workload.export(&mut rows)?.and_then(|()| rows.flush()).map_err(unwritable)?;
            drop(rows);
            file.keep().map_err(unwritable)?;
            if path != Path::new(STDOUT) {
                print_note(&format!("wrote {} prompts to {}", opened.len(), path.display()));
            }
        }
    }
    Ok(Exit::Done)
}
