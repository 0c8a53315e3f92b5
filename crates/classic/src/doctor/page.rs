//! The doctor's findings as text and as a page.

use super::examine;
use super::rule::{Examination, Finding, Rule};
use crate::model::{Field, Report};

/// The findings of one file for a terminal, worst first, one block after the other.
pub fn doctor_text(name: &str, reports: &[Report], examination: &Examination) -> String {
    let blocks = reports.iter().zip(&examination.blocks).enumerate();
    let mut parts: Vec<String> = blocks
        .map(|(index, (report, findings))| {
            let outcome = if findings.is_empty() { ": consistent" } else { ":" };
            let head = format!("{name}, block {}{}{outcome}\n", index + 1, described(report));
            head + &findings.iter().map(finding_text).collect::<String>()
        })
        .collect();
    if !examination.file.is_empty() {
        parts.push(format!("{name}, all blocks:\n"));
        parts.extend(examination.file.iter().map(finding_text));
    }
    parts.concat()
}

fn finding_text(finding: &Finding) -> String {
    let Finding { level, rule, what, meaning } = finding;
    format!("  {level}[{}]: {what}\n    {meaning}\n", rule.code())
}

/// `(Decode, v4, 512 requests)`, of what is known.
fn described(report: &Report) -> String {
    let parts = [
        report.context.heading.clone(),
        report.layout.map(|layout| layout.name().to_owned()),
        report
            .number(Field::Successful)
            .map(|count| format!("{count} request{}", if count > 1.5 { "s" } else { "" })),
        report
            .number(Field::InputTokens)
            .zip(report.number(Field::Successful))
            .map(|(tokens, count)| format!("{:.0} tokens per prompt", tokens / count.max(1.0))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// `docs/doctor.md`: the identities, and the outcome for every block of these files.
pub fn doctor_markdown(files: &[(String, Vec<Report>)]) -> String {
    let mut page = String::from(
        "# The report doctor\n\n\
         Written by the program; do not edit by hand. `tokometer doctor FILE` checks printed and saved\n\
         reports against identities that a valid report satisfies. Printed digits are intervals, so\n\
         rounding alone never fails one. *inconsistent*: the figures contradict each other (exit code 1).\n\
         *misleading*: right, but not what a reader would think. *remark*: worth knowing.\n\n\
         ## Identities\n\n| | code | what must hold |\n|---|---|---|\n",
    );
    page.extend(Rule::TABLE.map(|(rule, number, ..)| {
        let number = number.map_or_else(|| "+".to_owned(), |number| number.to_string());
        format!("| {number} | `{}` | {} |\n", rule.code(), rule.sentence())
    }));
    page.push_str("\n## The seed reports\n");
    page.extend(files.iter().map(|(name, reports)| file_section(name, reports)));
    page
}

fn file_section(name: &str, reports: &[Report]) -> String {
    let head = format!("\n### {name}\n\n| block | what it is | outcome |\n|---|---|---|\n");
    let examination = examine(reports);
    let blocks = reports.iter().zip(&examination.blocks).enumerate();
    let rows = blocks.map(|(index, (report, findings))| {
        let what = described(report);
        let what = what.trim_matches([' ', '(', ')']);
        format!("| {} | {what} | {} |\n", index + 1, outcome(findings))
    });
    let file = Some(&examination.file)
        .filter(|findings| !findings.is_empty())
        .map(|findings| format!("| all | | {} |\n", outcome(findings)));
    head + &rows.chain(file).collect::<String>()
}

fn outcome(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "consistent".to_owned();
    }
    let cell = |finding: &Finding| {
        let Finding { level, rule, what, meaning } = finding;
        format!("**{level}** `{}`: {what}; {meaning}", rule.code()).replace('|', "\\|")
    };
    findings.iter().map(cell).collect::<Vec<_>>().join("<br>")
}
