//! Help texts: a changed help is a visible difference.

use crate::program::run;

#[test]
fn help_says_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["", "bench", "report", "dataset", "doctor", "sim"] {
        let text = run(folder.path(), &format!("{command} --help")).succeeded().stdout;
        let name = if command.is_empty() { "tokometer" } else { command };
        insta::assert_snapshot!(format!("help-{name}"), text);
    }
}

#[test]
fn the_version_tells_how_it_was_built() {
    let folder = tempfile::tempdir().unwrap();
    let text = run(folder.path(), "--version").succeeded().stdout;
    assert!(text.starts_with("tokometer ") && text.contains('('), "{text}");
}
