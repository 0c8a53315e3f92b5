//! Pages that list what the program has: exit codes and environment variables, each from its one list
//! in the code.

use std::fs;

use crate::program::root;

/// Codes with their meaning, from the one list in the code.
fn codes() -> Vec<(u8, String)> {
    let source = fs::read_to_string(root().join("crates/cli/src/exit.rs")).unwrap();
    let body = source.split_once("enum Exit {").unwrap().1.split_once("\n}").unwrap().0;
    let mut codes = Vec::new();
    let mut meaning = String::new();
    for line in body.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("/// ") {
            meaning.push_str(if meaning.is_empty() { "" } else { " " });
            meaning.push_str(more);
        } else {
            let code =
                line.split_once(" = ").and_then(|(_, n)| n.trim_end_matches(',').parse().ok());
            codes.extend(code.map(|code| (code, std::mem::take(&mut meaning))));
        }
    }
    codes
}

/// The part of the command line's page about exit codes.
pub(super) fn exit_codes() -> String {
    let rows = codes()
        .into_iter()
        .map(|(code, meaning)| format!("| {code} | {} |\n", meaning.trim_end_matches('.')));
    format!(
        "\n## Exit codes\n\n\
         A code never changes its meaning.\n\n\
         | code | meaning |\n|---|---|\n{}\n\
         - Standard output is the result, standard error everything else. A closed pipe on standard output is success.\n\
         - `doctor` ends with code 2 if one of its files cannot be read. The findings of the others are printed before.\n\
         - `--against` ends with code 7 if no request to one of the two targets succeeded.\n\
         - A process that a signal ended has no code of its own; the shell shows 128 plus the signal's number.\n",
        rows.collect::<String>()
    )
}

/// Names in the files that read the environment.
#[test]
fn every_environment_variable_has_a_row() {
    let page = fs::read_to_string(root().join("docs/plan-file.md")).unwrap();
    let source = fs::read_to_string(root().join("crates/cli/src/lower/environment.rs")).unwrap();
    let code = source.split("#[cfg(test)]").next().unwrap();
    let is_name = |word: &&str| {
        word.len() > 3 && word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    let names: Vec<&str> = code.split('"').skip(1).step_by(2).filter(is_name).collect();
    assert!(names.contains(&"OPENAI_API_KEY"), "{names:?}");
    // A request header of CGI, not a setting.
    let settings = names.into_iter().filter(|name| *name != "REQUEST_METHOD");
    let upper = page.to_ascii_uppercase();
    let missing: Vec<&str> = settings.filter(|name| !upper.contains(name)).collect();
    assert!(missing.is_empty(), "docs/plan-file.md has no row for {missing:?}");
}
