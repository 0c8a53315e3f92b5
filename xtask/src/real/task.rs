//! The task: one server after another, a table for each.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::checks::{self, CheckRow};
use super::install;
use super::recipe::{self, Device, NAMES, Recipe};
use super::server::{Parts, Server};
use super::stage::Stage;
use crate::ci::{cargo, root};

const USAGE: &str =
    "usage: cargo xtask real --server NAME [--gpu] [--program FILE] [--base-url URL] [--install]

  --server NAME    llamacpp, vllm, transformers, sglang, litellm, or all of them: all
  --gpu            the server's build for an NVIDIA GPU
  --program FILE   the tokometer to drive, instead of building one
  --base-url URL   a server that runs already; nothing is installed or started
  --install        install only";

/// What was asked for.
#[derive(Debug, PartialEq)]
struct RealOptions {
    server: String,
    device: Device,
    program: Option<PathBuf>,
    base_url: Option<String>,
    is_install_only: bool,
}

impl RealOptions {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut asked = Self {
            server: String::new(),
            device: Device::Cpu,
            program: None,
            base_url: None,
            is_install_only: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().with_context(|| format!("`{word}` needs a value\n{USAGE}"));
            match word.as_str() {
                "--server" => asked.server.clone_from(value()?),
                "--gpu" => asked.device = Device::Gpu,
                "--program" => asked.program = Some(std::path::absolute(value()?)?),
                "--base-url" => asked.base_url = Some(value()?.clone()),
                "--install" => asked.is_install_only = true,
                other => bail!("`real` has no option `{other}`\n{USAGE}"),
            }
        }
        if asked.server != "all" && !NAMES.contains(&asked.server.as_str()) {
            bail!("no server is called `{}`\n{USAGE}", asked.server);
        }
        Ok(asked)
    }

    fn recipes(&self) -> Vec<&'static Recipe> {
        let is_meant = |name: &&&str| self.server == "all" || self.server == **name;
        NAMES.iter().filter(is_meant).filter_map(|name| recipe::named(name, self.device)).collect()
    }
}

/// Whether the server of the end-to-end tests is installed.
pub(crate) fn is_installed() -> bool {
    recipe::named("llamacpp", Device::Cpu).is_some_and(install::is_installed)
}

/// Runs the task.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let asked = RealOptions::parse(arguments)?;
    if asked.is_install_only {
        return asked.recipes().into_iter().try_for_each(|recipe| {
            let own = install::install(recipe)?;
            install::model(recipe, &own).map(drop)
        });
    }
    let program = asked.program.clone().map_or_else(built, Ok)?;
    let mut failed = 0;
    for recipe in asked.recipes() {
        let rows = match &asked.base_url {
            Some(url) => drive(
                recipe,
                &Server::elsewhere(url),
                program.clone(),
                install::folder().join("tiny"),
            ),
            None => installed(recipe, program.clone())?,
        };
        failed += rows.iter().filter(|row| row.seen.is_err()).count();
        print(recipe, &rows);
    }
    if failed > 0 {
        bail!("{failed} checks failed");
    }
    Ok(())
}

/// Installs, starts, drives and ends a server.
fn installed(recipe: &Recipe, program: PathBuf) -> Result<Vec<CheckRow>> {
    let own = install::install(recipe)?;
    let model = install::model(recipe, &own)?;
    let named = model.clone().unwrap_or_default();
    // Asked for its models, one server lists this folder and fails when it is missing.
    std::fs::create_dir_all(install::folder().join("hf/hub"))?;
    let server = Server::start(&Parts { recipe, own, model, program: &program })?;
    Ok(drive(recipe, &server, program, named))
}

fn drive(recipe: &Recipe, server: &Server, program: PathBuf, model: PathBuf) -> Vec<CheckRow> {
    let stage = Stage {
        program,
        folder: install::folder().join(recipe.name).join("runs"),
        url: server.url.clone(),
        counters_url: server.counters_url.clone(),
        key: recipe.key,
        model,
    };
    let start = match std::fs::create_dir_all(&stage.folder) {
        Ok(()) => Ok(server
            .start_s
            .map_or("already up".to_owned(), |seconds| format!("up after {seconds:.0} s"))),
        Err(why) => Err(why.into()),
    };
    let mut rows = vec![CheckRow { check: "start".to_owned(), seen: start }];
    rows.extend(checks::all(&stage, recipe));
    rows
}

fn built() -> Result<PathBuf> {
    cargo("build --package tokometer")?;
    let target =
        option_env!("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("debug/tokometer"))
}

#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn print(recipe: &Recipe, rows: &[CheckRow]) {
    println!("\n{} ({})", recipe.name, recipe.packages.join(" "));
    println!("| check | outcome | seen |\n|---|---|---|");
    for CheckRow { check, seen } in rows {
        match seen {
            Ok(seen) => println!("| {check} | pass | {} |", one_line(seen)),
            Err(why) => println!("| {check} | FAIL | {} |", one_line(&format!("{why:#}"))),
        }
    }
}

/// A cell of a table has no line ends and no bars.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<RealOptions> {
        RealOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_server_has_a_recipe_for_both_machines() {
        for line in ["--server all", "--server all --gpu"] {
            let recipes = parse(line).unwrap().recipes();
            let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name).collect();
            assert_eq!(names, NAMES, "{line}");
        }
        assert_eq!(parse("--server vllm").unwrap().recipes().len(), 1);
    }

    #[test]
    fn unknown_words_are_refused_with_the_usage() {
        for line in ["", "--server tgi", "--server vllm --cpu", "--server"] {
            let why = parse(line).unwrap_err().to_string();
            assert!(why.contains("usage:"), "{line}: {why}");
        }
    }
}
