//! Files that installers read: the Python package, the image and the GitHub Action. The Action's script
//! is run as a runner would run it, with the built program instead of an installed one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

use crate::program::{self, ProgramExit, Server, ended, root};

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn the_python_package_is_the_binary_of_the_distribution_profile() {
    let package: toml::Table = read("pyproject.toml").parse().unwrap();
    let maturin = &package["tool"]["maturin"];
    assert_eq!(package["build-system"]["build-backend"].as_str(), Some("maturin"));
    assert_eq!(maturin["bindings"].as_str(), Some("bin"));
    assert_eq!(maturin["locked"].as_bool(), Some(true));
    let manifest: toml::Table = read(maturin["manifest-path"].as_str().unwrap()).parse().unwrap();
    assert_eq!(manifest["package"]["name"], package["project"]["name"]);
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let profiles = workspace["profile"].as_table().unwrap();
    assert!(profiles.contains_key(maturin["profile"].as_str().unwrap()));
    assert_eq!(workspace["workspace"]["package"]["license"], package["project"]["license"]);
    // One home for the version: a number here would soon differ from the crates'.
    assert!(!package["project"].as_table().unwrap().contains_key("version"));
    for file in ["LICENSE", package["project"]["readme"].as_str().unwrap()] {
        assert!(root().join(file).is_file(), "{file}");
    }
}

/// The instructions of a Containerfile, with their words.
fn instructions(text: &str) -> Vec<(String, String)> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').unwrap();
            (name.to_owned(), rest.trim().to_owned())
        })
        .collect()
}

#[test]
fn the_image_runs_the_program_as_an_ordinary_user() {
    let all = instructions(&read("packaging/Containerfile"));
    let known = ["FROM", "LABEL", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD"];
    for (name, rest) in &all {
        assert!(known.contains(&name.as_str()), "unexpected instruction {name} {rest}");
    }
    let of = |name: &str| {
        let found: Vec<&str> =
            all.iter().filter(|(one, _)| one == name).map(|(_, rest)| rest.as_str()).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    };
    // Nothing is fetched: the files come from `cargo xtask dist`.
    assert_eq!(of("FROM"), "scratch");
    let (user, group) = of("USER").split_once(':').unwrap();
    assert!(user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0);
    // Without a shell in the image, only lists of words can be started.
    let words = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
    assert_eq!(words(of("ENTRYPOINT")), ["/usr/local/bin/tokometer"]);
    assert_eq!(words(of("CMD")), ["--help"]);
    let copied: Vec<&str> =
        all.iter().filter(|(name, _)| name == "COPY").map(|(_, rest)| rest.as_str()).collect();
    // The names that `cargo xtask dist` lays out; the user owns the folder that runs are written to.
    let home = format!("--chown={user}:{group} image/home/ {}/", of("WORKDIR"));
    assert_eq!(copied, ["image/files/ /", home.as_str()]);
}

fn action() -> Yaml {
    YamlLoader::load_from_str(&read("action.yml")).unwrap().remove(0)
}

fn keys(table: &Yaml) -> BTreeSet<String> {
    let table = table.as_hash().unwrap();
    table.keys().map(|key| key.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_action_declares_the_inputs_that_it_uses() {
    let action = action();
    assert_eq!(action["runs"]["using"].as_str(), Some("composite"));
    let declared = keys(&action["inputs"]);
    let text = read("action.yml");
    let used: BTreeSet<String> = text
        .split("inputs.")
        .skip(1)
        .map(|rest| rest.split([' ', '}']).next().unwrap().to_owned())
        .collect();
    assert_eq!(used, declared);
    for name in &declared {
        let input = &action["inputs"][name.as_str()];
        let has_value =
            input["required"].as_bool() == Some(true) || !input["default"].is_badvalue();
        assert!(has_value && input["description"].as_str().is_some(), "{name}");
    }
}

/// Text of an input inside a command line would be run as a command.
#[test]
fn no_input_reaches_a_command_line() {
    let script = read("packaging/action.sh");
    for step in action()["runs"]["steps"].as_vec().unwrap() {
        let Some(run) = step["run"].as_str() else {
            assert!(step["uses"].as_str().is_some_and(|name| name.contains("@v")), "{step:?}");
            continue;
        };
        assert!(!run.contains("${{"), "{run}");
        assert_eq!(step["shell"].as_str(), Some("bash"), "{run}");
        assert!(run.contains("packaging/action.sh"), "{run}");
        let name = run.rsplit(' ').next().unwrap();
        assert!(script.contains(&format!("\n{name}() {{")), "no step is called {name}");
        for variable in keys(&step["env"]) {
            assert!(script.contains(&variable), "{name} does not read {variable}");
        }
    }
}

/// Runs a step of the Action in `folder`.
fn step(folder: &Path, name: &str, inputs: &[(&str, &str)]) -> ProgramExit {
    let mut command = Command::new(root().join("packaging/action.sh"));
    command.arg(name).current_dir(folder).env("GITHUB_STEP_SUMMARY", folder.join("summary.md"));
    let installed = program::path().parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(installed).chain(std::env::split_paths(&others));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    command.envs(inputs.iter().copied());
    ended(&mut command)
}

#[test]
fn the_action_measures_writes_the_page_and_compares() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::quick();
    let arguments = format!(
        "--base-url {} --num-prompts 40\n --max-concurrency 4 --random-output-len 20\n --name 'a run; $(date)'",
        server.url
    );
    for run_dir in ["before", "after"] {
        let inputs = [("ARGUMENTS", arguments.as_str()), ("RUN_DIR", run_dir), ("STRICT", "false")];
        step(folder.path(), "bench", &inputs).succeeded();
    }
    let plan = std::fs::read_to_string(folder.path().join("after/plan.json")).unwrap();
    assert!(plan.contains("a run; $(date)"), "the words of the name were changed: {plan}");
    step(folder.path(), "page", &[("RUN_DIR", "after"), ("PAGE", "page.html")]).succeeded();
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<html"), "{}", &page[..100]);
    let compared = |rules: &str| {
        let inputs = [("RUN_DIR", "after"), ("BASELINE", "before\n"), ("FAIL_IF", rules)];
        step(folder.path(), "compare", &inputs)
    };
    compared("").succeeded();
    let refused = compared("\nnothing worse by 5%\n");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let summary = std::fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.matches('|').count() > 20, "{summary}");
}

#[test]
fn the_action_fails_with_the_code_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let bench = |arguments: &str| {
        step(folder.path(), "bench", &[("ARGUMENTS", arguments), ("RUN_DIR", "run")]).code
    };
    assert_eq!(bench("--num-prompts none"), Some(2));
    // A quote that is not closed must not start a measurement with half of the words.
    assert_eq!(bench("--num-prompts 1 --no-proxy 'half").map(|code| code == 0), Some(false));
    let page = step(folder.path(), "page", &[("RUN_DIR", "run"), ("PAGE", "page.html")]);
    assert!(page.succeeded().stdout.contains("no page"));
    assert!(!folder.path().join("page.html").exists());
}
