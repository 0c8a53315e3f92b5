//! Help texts: a changed help is a visible difference.

use crate::program::run;

/// The commands that the program lists, without `help`, which takes no flags.
pub(crate) fn commands() -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), "--help").succeeded().stdout;
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    // A line that continues a description is indented further.
    let names = list.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_is_known_to_these_tests() {
    let commands = commands();
    for known in ["bench", "report", "compare", "capacity", "predict", "calibrate", "doctor"] {
        assert!(commands.iter().any(|name| name == known), "no {known} among {commands:?}");
    }
}

#[test]
fn help_says_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    // `docs` and `man` are not listed.
    for command in commands().into_iter().chain(["docs", "man", ""].map(str::to_owned)) {
        let name = if command.is_empty() { "tokometer" } else { command.as_str() };
        for (flag, file) in [("--help", "help"), ("-h", "short")] {
            let text = run(folder.path(), &format!("{command} {flag}")).succeeded().stdout;
            insta::assert_snapshot!(format!("{file}-{name}"), text);
        }
    }
}

#[test]
fn short_help_fits_two_screens_and_help_of_a_command_is_the_long_one() {
    let folder = tempfile::tempdir().unwrap();
    for command in commands() {
        // Two screens of an ordinary terminal, where lines are broken after 80 columns.
        let mut narrow = crate::program::command(folder.path(), &format!("{command} -h"));
        let short = crate::program::ended(narrow.env("COLUMNS", "80")).succeeded().stdout;
        assert!(short.lines().count() <= 48, "{command}: {} lines", short.lines().count());
        let long = run(folder.path(), &format!("{command} --help")).succeeded().stdout;
        let asked = run(folder.path(), &format!("help {command}")).succeeded().stdout;
        assert_eq!(asked, long, "{command}");
    }
    let short = run(folder.path(), "bench -h").succeeded().stdout;
    for flag in
        ["-n, --num-prompts", "-c, --max-concurrency", "-r, --request-rate", "-o, --run-dir"]
    {
        assert!(short.contains(flag), "{flag} is not in {short}");
    }
    let dataset = run(folder.path(), "dataset --help").succeeded().stdout;
    let predict = run(folder.path(), "predict --help").succeeded().stdout;
    for flag in ["--base-url", "--retries", "--live", "--temperature", "--against"] {
        assert!(!dataset.contains(&format!("{flag} ")), "{flag} is in the help of dataset");
        assert!(!predict.contains(&format!("{flag} ")), "{flag} is in the help of predict");
    }
}
