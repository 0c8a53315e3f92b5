//! `tokometer dataset`: what bench would send, without sending it.

use tokometer_base::Seed;
use tokometer_base::units::counted;
use tokometer_plan::Plan;
use tokometer_report::export::exported;
use tokometer_workload::traces::{OnFlaw, Survey, TraceReader};
use tokometer_workload::{BadRows, Spec};

use crate::args::DatasetArgs;
use crate::exit::{Exit, Refusal};
use crate::files::is_standard;
use crate::lower::{Environment, Lowered, lower};
use crate::session::{say_remarks, show_plan};
use crate::terminal::{print, print_message, print_note};
use tokometer_measure::{Replay, WorkloadInputs, open, tokenizer};

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
    let mut has_flaws = false;
    for point in &lowered.points {
        let plan = &point.plan;
        if let Spec::Trace(trace) = &plan.workload {
            let skips = args.check || plan.prompts.bad_rows == BadRows::Skip;
            let replay = Replay::of(trace)?;
            let reader =
                replay.options.reader(if skips { OnFlaw::Skip } else { OnFlaw::Refuse })?;
            has_flaws |= survey(args, reader, plan, &lowered)?;
            continue;
        }
        if args.check {
            return Err(Refusal::usage("`--check` is for a trace", "name it with `--trace`").into());
        }
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
        if let Some(path) = &args.export {
            exported(path, |rows| anyhow::Ok(opened.workload.export(rows)?))?;
        }
        show(args, &description, &counted(opened.len(), "prompt"))?;
    }
    Ok(if args.check && has_flaws { Exit::Missed } else { Exit::Done })
}

/// Describes a trace, and writes it in our own form where that is wanted. Says whether it has rows that cannot be used.
fn survey(
    args: &DatasetArgs,
    reader: TraceReader,
    plan: &Plan,
    lowered: &Lowered,
) -> anyhow::Result<bool> {
    let tokenizer = || anyhow::Ok(tokenizer(plan, &lowered.secrets, None)?.tokenizer);
    let survey = match &args.export {
        None => Survey::of(reader, |_| anyhow::Ok(()))?,
        Some(to) => exported(to, |rows| Survey::exported(reader, rows, tokenizer))?,
    };
    show(args, &survey.to_text(), &counted(survey.sessions(), "session"))?;
    Ok(survey.has_flaws())
}

/// Prints what is described, beside standard output where that has what was exported.
fn show(args: &DatasetArgs, description: &str, written: &str) -> anyhow::Result<()> {
    match args.export.as_deref() {
        Some(path) if is_standard(path) => print_message(description.trim_end()),
        Some(path) => {
            print(description)?;
            print_note(&format!("wrote {written} to {}", path.display()));
        }
        None => print(description)?,
    }
    Ok(())
}
