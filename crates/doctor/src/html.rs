//! The doctor's findings as a page that needs nothing else.

use crate::page::described;
use crate::rule::{ExaminedFile, Finding};
use tokometer_compat::print_same;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em;\
color:#1b1f24;background:#fff}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #d8dee4;padding:.4em .6em;\
text-align:left;vertical-align:top}pre{overflow:auto;background:#f6f8fa;padding:1em}\
.inconsistent{color:#b3261e;font-weight:600}.misleading{color:#8a5a00;font-weight:600}.remark{color:#57606a}\
.meaning{color:#57606a}@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}\
td,th{border-color:#30363d}pre{background:#161b22}.inconsistent{color:#ff8178}.misleading{color:#e3b341}\
.remark,.meaning{color:#9198a1}}";

pub fn doctor_html(files: &[ExaminedFile<'_>]) -> String {
    let sections: String = files.iter().map(|file| section(*file)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Report check</title><style>{STYLE}</style></head>\n<body><h1>Report check</h1>\n\
         <p>Printed values are intervals of their last digit. <b>inconsistent</b>: lines of the block do not \
         agree. <b>misleading</b>: they agree, but are easily misread. <b>remark</b>: for information.</p>\n\
         {sections}</body></html>\n"
    )
}

fn section(file: ExaminedFile<'_>) -> String {
    let ExaminedFile { name, examination, .. } = file;
    let mut text = String::new();
    for (number, report, findings) in file.blocks() {
        let head = format!("{name}, block {number}{}", described(report));
        text.extend(["<h2>", &escaped(&head), "</h2>\n"]);
        text.push_str(&table(findings));
        if let Some(printed) = print_same(report) {
            let summary = "<details><summary>the block as read</summary><pre>";
            text.extend([summary, &escaped(&printed), "</pre></details>\n"]);
        }
    }
    if !examination.file.is_empty() {
        text.extend(["<h2>", &escaped(name), ", all blocks</h2>\n"]);
        text.push_str(&table(&examination.file));
    }
    text
}

fn table(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "<p>consistent</p>\n".to_owned();
    }
    let row = |finding: &Finding| {
        let Finding { level, rule, what, meaning } = finding;
        format!(
            "<tr><td class=\"{level}\">{level}</td><td><code>{}</code></td><td>{}<br>\
             <span class=\"meaning\">{}</span></td></tr>\n",
            rule.code,
            escaped(what),
            escaped(meaning)
        )
    };
    let rows: String = findings.iter().map(row).collect();
    format!("<table><tr><th>outcome</th><th>check</th><th>finding</th></tr>\n{rows}</table>\n")
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine;
    use tokometer_compat::parse;

    #[test]
    fn the_page_needs_nothing_else_and_a_file_cannot_add_markup() {
        let text = "# </title><script>alert(1)</script>\n\
                    ============ Serving Benchmark Result ============\n\
                    Successful requests:                     <b>\n\
                    Benchmark duration (s):                  1.00\n\
                    ==================================================\n";
        let reports = parse(text);
        let page = doctor_html(&[ExaminedFile {
            name: "<i>.txt",
            reports: &reports,
            examination: &examine(&reports),
        }]);
        assert!(!page.contains("<script") && !page.contains("<b>\n") && !page.contains("<i>"));
        assert!(page.contains("&lt;b&gt;"), "{page}");
        for remote in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(remote), "{remote}");
        }
    }
}
