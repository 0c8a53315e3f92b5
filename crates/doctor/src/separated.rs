//! The doctor's findings as comma-separated values.

use crate::rule::{ExaminedFile, Finding};

/// One row per finding, with the block from one; empty for those about a whole file.
pub fn doctor_csv(files: &[ExaminedFile<'_>]) -> String {
    let mut text = "file,block,level,rule,what,meaning\n".to_owned();
    for file in files {
        for (number, _, findings) in file.blocks() {
            let block = number.to_string();
            text.extend(findings.iter().map(|finding| row(file.name, &block, finding)));
        }
        text.extend(file.examination.file.iter().map(|finding| row(file.name, "", finding)));
    }
    text
}

fn row(name: &str, block: &str, finding: &Finding) -> String {
    let Finding { level, rule, what, meaning } = finding;
    let cells = [name, block, level.name(), rule.code, what, meaning];
    cells.map(cell).join(",") + "\n"
}

/// Spreadsheets compute a cell that begins like a formula, so such a cell begins with an apostrophe.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    let is_plain = !text.contains([',', '"', '\n', '\r']);
    if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine;
    use tokometer_compat::parse;

    #[test]
    fn each_finding_is_a_row_and_no_cell_is_a_formula() {
        let text = "==== Serving Benchmark Result ====\nSuccessful requests: =1,\"x\"\n\
                    Benchmark duration (s): -1.00\n====================\n";
        let reports = parse(text);
        let examination = examine(&reports);
        let file = ExaminedFile { name: "=a.txt", reports: &reports, examination: &examination };
        assert_eq!(
            doctor_csv(&[file]),
            "file,block,level,rule,what,meaning\n\
             '=a.txt,1,inconsistent,possible-values,Benchmark duration (s) -1.00 is below zero,\
             \"no count, time or rate is; checks that need it are not made\"\n\
             '=a.txt,1,remark,readable-values,\"`=1,\"\"x\"\"` is not a value of Successful requests (line 2)\",\
             \"its text is kept, and checks that need it are not made\"\n"
        );
    }
}
