//! `tokometer dataset`: what bench would send, without sending it.

use std::io::{BufWriter, Write as _};

use tokometer_base::Seed;
use tokometer_record::WholeFile;
use tokometer_report::export::unwritable;

use crate::args::DatasetArgs;
use crate::exit::Exit;
use crate::files::is_standard;
use crate::lower::{Environment, lower};
use crate::session::{say_remarks, show_plan};
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
        return show_plan(&lowered.plan, &lowered);
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
            Some(path) if is_standard(path) => print_message(description.trim_end()),
            _ => print(&description)?,
        }
        if let Some(path) = &args.export {
            let unwritable = |why: std::io::Error| unwritable(path, &why);
            let mut file = WholeFile::create(path).map_err(unwritable)?;
            let mut rows = BufWriter::new(&mut file);
            opened.workload.export(&mut rows)?.and_then(|()| rows.flush()).map_err(unwritable)?;
            drop(rows);
            file.keep().map_err(unwritable)?;
            if !is_standard(path) {
                print_note(&format!("wrote {} prompts to {}", opened.len(), path.display()));
            }
        }
    }
    Ok(Exit::Done)
}
