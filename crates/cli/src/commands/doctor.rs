//! `tokometer doctor`: is this report consistent?

use serde_json::json;
use tokometer_compat::{Report, Selection};
use tokometer_doctor::{
    Examination, ExaminedFile, Finding, Level, doctor_comment, doctor_csv, doctor_html,
    doctor_text, examine,
};
use tokometer_report::export::write_file;
use tokometer_report::sources::NamedSource;

use crate::args::{DoctorArgs, TableFormatArg};
use crate::bench::RunView;
use crate::exit::{Exit, Refusal};
use crate::files::is_standard;
use crate::instrument;
use crate::runs::READING;
use crate::session::Given;
use crate::terminal::{print, print_message, without_secrets};

/// Examines every file; an inconsistent one is an objective missed. A file that cannot be read does not
/// keep the others from being examined.
pub(crate) fn doctor(args: &DoctorArgs, given: &Given) -> anyhow::Result<Exit> {
    if let Some(load) = &args.load {
        let load = instrument::load_of(load, given)?;
        return instrument::doctor(&load, given, args.format);
    }
    let view = RunView::plain(Selection::default());
    let named = |one: NamedSource| Ok((one.name, one.source.reports()?));
    let (mut files, mut unread): (Vec<(String, Vec<Report>)>, Vec<Refusal>) = Default::default();
    for opened in NamedSource::open_each(READING, &args.files, &view) {
        match opened.and_then(named) {
            Ok(file) => files.push(file),
            Err(why) => unread.push(why),
        }
    }
    if !files.is_empty() {
        let exit = show(args, &files)?;
        if unread.is_empty() {
            return Ok(exit);
        }
    }
    // The last one is written by whoever ends the program, with its exit code.
    let last = unread.pop();
    for why in unread {
        print_message(&format!("error: {why}"));
    }
    last.map_or(Ok(Exit::Done), |why| Err(why.into()))
}

fn show(args: &DoctorArgs, files: &[(String, Vec<Report>)]) -> Result<Exit, Refusal> {
    let examined: Vec<Examination> = files.iter().map(|(_, reports)| examine(reports)).collect();
    let views: Vec<ExaminedFile<'_>> = files
        .iter()
        .zip(&examined)
        .map(|((name, reports), examination)| ExaminedFile { name, reports, examination })
        .collect();
    match args.format {
        _ if args.html.is_some() => {
            let page = doctor_html(&views);
            match args.html.as_deref().filter(|path| !is_standard(path)) {
                Some(path) => write_file(path, &without_secrets(&page))?,
                None => print(&page)?,
            }
        }
        TableFormatArg::Markdown => print(&doctor_comment(&views))?,
        TableFormatArg::Json => print(&findings(&views))?,
        TableFormatArg::Csv => print(&doctor_csv(&views))?,
        TableFormatArg::Text => views.iter().try_for_each(|file| print(&doctor_text(*file)))?,
    }
    let worst = examined.iter().filter_map(Examination::worst).max();
    Ok(if worst == Some(Level::Inconsistent) { Exit::Missed } else { Exit::Done })
}

fn findings(files: &[ExaminedFile<'_>]) -> String {
    let entry = |file: &str, block: Option<usize>, finding: &Finding| {
        json!({
            "file": file, "block": block, "level": finding.level.to_string(),
            "rule": finding.rule.code, "what": finding.what, "meaning": finding.meaning,
        })
    };
    let mut list = Vec::new();
    for file in files {
        for (number, _, findings) in file.blocks() {
            list.extend(findings.iter().map(|finding| entry(file.name, Some(number), finding)));
        }
        let of_file = file.examination.file.iter();
        list.extend(of_file.map(|finding| entry(file.name, None, finding)));
    }
    format!("{:#}\n", serde_json::Value::Array(list))
}
