//! `tokometer dataset`: what bench would send, without sending it.

use std::fs::File;
use std::io::BufWriter;

use tokometer_base::Seed;

use crate::args::DatasetArgs;
use crate::exit::{Exit, Refusal};
use crate::lower::{Environment, lower};
use crate::terminal::{print, print_message};
use tokometer_measure::{WorkloadInputs, open, tokenizer};

/// Default number of prompts shown.
const SHOWN: u64 = 2;

/// Describes the prompts of each point, and exports them.
pub(crate) fn dataset(
    args: &DatasetArgs,
    order: &[String],
    environment: &Environment,
) -> anyhow::Result<Exit> {
    crate::shards::refuse(&args.bench.shards, "dataset")?;
    let lowered = lower(&args.bench, order, environment)?;
    for remark in &lowered.remarks {
        print_message(&format!("note: {remark}"));
    }
    for point in &lowered.points {
        let plan = &point.plan;
        let opened = tokenizer(plan, &lowered.secrets, None)?;
        for note in &opened.notes {
            print_message(&format!("note: {note}"));
        }
        let name = opened.tokenizer.name().to_owned();
        let means = WorkloadInputs {
            tokenizer: opened.tokenizer,
            salt: Seed(plan.seed),
            hub: lowered.secrets.hub.clone(),
        };
        let opened = open(plan, means)?;
        let description = opened.workload.describe(args.show.unwrap_or(SHOWN))?;
        print(&format!(
            "{} with the tokenizer `{name}`\n{}",
            plan.workload.name(),
            description.to_text()
        ))?;
        if let Some(path) = &args.export {
            let unwritable = |why: std::io::Error| {
                Refusal::new(Exit::Write, format!("cannot write `{}`: {why}", path.display()))
            };
            let mut file = BufWriter::new(File::create(path).map_err(unwritable)?);
            opened.workload.export(&mut file)?.map_err(unwritable)?;
            print_message(&format!("wrote {} prompts to {}", opened.len(), path.display()));
        }
    }
    Ok(Exit::Done)
}
