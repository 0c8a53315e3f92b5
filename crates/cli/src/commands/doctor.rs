//! `tokometer doctor`: is this report consistent?

use tokometer_report::doctor::{Level, doctor_text, examine};
use tokometer_report::parse;

use crate::args::DoctorArgs;
use crate::exit::{Exit, Refusal};
use crate::terminal::print;

/// Examines every file; an inconsistent one is an objective missed.
pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut worst = None;
    for path in &args.files {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|why| Refusal::usage(format!("cannot read `{shown}`: {why}"), ""))?;
        let reports = parse(&text)
            .map_err(|why| Refusal::usage(format!("cannot read `{shown}`: {why}"), ""))?;
        let examination = examine(&reports);
        print(&doctor_text(&shown, &reports, &examination))?;
        worst = worst.max(examination.worst());
    }
    Ok(if worst == Some(Level::Inconsistent) { Exit::Missed } else { Exit::Done })
}
