//! The task: one server after another, a table for each.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::checks::{self, CheckRow};
use super::install;
use super::recipe::{self, Device, NAMES, Recipe};
use super::routes::{self, RouteSuite};
use super::server::{Parts, Server};
use super::stage::Stage;
use crate::process::{built, cargo};

const USAGE: &str =
    "usage: cargo lab real --server NAME [--gpu] [--program FILE] [--base-url URL]
       cargo lab real --server NAME [--gpu] --routes [--only WORD,…] [--script FILE | --judge FOLDER]

  --server NAME    llamacpp, vllm, transformers, sglang, litellm, or all of them: all
                   sim: the simulated server, which needs no install and has routes only
  --gpu            the server's build for an NVIDIA GPU
  --program FILE   the tokometer to drive, instead of building one
  --base-url URL   a server that runs already; nothing is installed or started
  --routes         only the newer routes: Responses, Messages, vectors, scores, images, sound
  --only WORD,…    only routes whose case contains one of the words
  --script FILE    write the routes as a shell script and the models beside it, for a machine without cargo
  --judge FOLDER   the table of what such a script left in its folder RESULTS";

/// The simulated server has no recipe.
const SIMULATED: &str = "sim";

#[derive(Debug, PartialEq)]
struct RealOptions {
    server: String,
    device: Device,
    program: Option<PathBuf>,
    base_url: Option<String>,
    routes: Routes,
    only: Vec<String>,
}

/// What is done about the newer routes.
#[derive(Debug, PartialEq)]
enum Routes {
    /// Driven after the other checks.
    Too,
    /// Driven without the other checks.
    Alone,
    Script(PathBuf),
    Judge(PathBuf),
}

impl RealOptions {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut asked = Self {
            server: String::new(),
            device: Device::Cpu,
            program: None,
            base_url: None,
            routes: Routes::Too,
            only: Vec::new(),
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
                "--routes" => asked.routes = Routes::Alone,
                "--script" => asked.routes = Routes::Script(std::path::absolute(value()?)?),
                "--judge" => asked.routes = Routes::Judge(std::path::absolute(value()?)?),
                "--only" => {
                    asked.only = value()?.split(',').map(str::to_owned).collect();
                    if asked.routes == Routes::Too {
                        asked.routes = Routes::Alone;
                    }
                }
                other => bail!("`real` has no option `{other}`\n{USAGE}"),
            }
        }
        let is_known = NAMES.iter().chain(&[SIMULATED, "all"]).any(|name| *name == asked.server);
        if !is_known {
            bail!("no server is called `{}`\n{USAGE}", asked.server);
        }
        Ok(asked)
    }

    fn suites(&self) -> Vec<&'static RouteSuite> {
        let is_meant = |name: &&&str| self.server == "all" || self.server == **name;
        let names = NAMES.iter().chain(&[SIMULATED]).filter(is_meant);
        names.filter_map(|name| routes::suite_of(name, self.device)).collect()
    }

    fn recipes(&self) -> Vec<&'static Recipe> {
        let is_meant = |name: &&&str| self.server == "all" || self.server == **name;
        NAMES.iter().filter(is_meant).filter_map(|name| recipe::named(name, self.device)).collect()
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let asked = RealOptions::parse(arguments)?;
    match &asked.routes {
        Routes::Script(file) => {
            let [suite] = asked.suites()[..] else {
                bail!("`--script` needs one server with routes")
            };
            return routes::write_script(suite, &asked.only, file);
        }
        Routes::Judge(folder) => {
            let [suite] = asked.suites()[..] else {
                bail!("`--judge` needs one server with routes")
            };
            let rows = routes::judged(suite, &asked.only, folder)?;
            routes::print(suite, &rows);
            return verdict(routes::failures(&rows));
        }
        Routes::Too | Routes::Alone => {}
    }
    let program = match &asked.program {
        Some(program) => program.clone(),
        None => {
            cargo("build --package tokometer")?;
            built("debug", "tokometer")
        }
    };
    let mut failed = 0;
    if asked.routes == Routes::Too {
        for recipe in asked.recipes() {
            let rows = checked(&asked, recipe, &program)?;
            failed += rows.iter().filter(|row| row.seen.is_err()).count();
            print(recipe, &rows);
        }
    }
    // A server that runs already serves one model; the routes need several.
    for suite in asked.suites().into_iter().filter(|_| asked.base_url.is_none()) {
        let rows = routes::drive(suite, asked.device, &program, &asked.only)?;
        failed += routes::failures(&rows);
        routes::print(suite, &rows);
    }
    verdict(failed)
}

fn verdict(failed: usize) -> Result<()> {
    if failed > 0 {
        bail!("{failed} checks failed");
    }
    Ok(())
}

fn checked(asked: &RealOptions, recipe: &Recipe, program: &Path) -> Result<Vec<CheckRow>> {
    let program = program.to_owned();
    match &asked.base_url {
        Some(url) => {
            Ok(drive(recipe, &Server::elsewhere(url), program, install::folder().join("tiny")))
        }
        None => installed(recipe, asked.device, program),
    }
}

/// Installs, starts, drives and ends a server.
fn installed(recipe: &Recipe, device: Device, program: PathBuf) -> Result<Vec<CheckRow>> {
    let own = install::install(recipe.name, device)?;
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

#[expect(clippy::print_stdout, reason = "the table is the result of the task")]
fn print(recipe: &Recipe, rows: &[CheckRow]) {
    println!("\n{} ({})", recipe.name, install::versions(recipe.name));
    println!("| check | outcome | seen |\n|---|---|---|");
    for CheckRow { check, seen } in rows {
        match seen {
            Ok(seen) => println!("| {check} | pass | {} |", one_line(seen)),
            Err(why) => println!("| {check} | FAIL | {} |", one_line(&format!("{why:#}"))),
        }
    }
}

/// A cell of a table has no line ends and no bars.
pub(super) fn one_line(text: &str) -> String {
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
    fn routes_are_driven_too_alone_or_elsewhere() {
        let routes = |line: &str| parse(line).unwrap().routes;
        assert_eq!(routes("--server vllm"), Routes::Too);
        assert_eq!(routes("--server vllm --only rerank,score"), Routes::Alone);
        assert_eq!(
            routes("--server vllm --script /s/routes.sh --only rerank"),
            Routes::Script("/s/routes.sh".into())
        );
        assert_eq!(parse("--server vllm --only a,b").unwrap().only, ["a", "b"]);
        let suites = |line: &str| {
            let suites = parse(line).unwrap().suites();
            suites.iter().map(|suite| suite.server).collect::<Vec<_>>()
        };
        assert_eq!(suites("--server sim"), ["sim"]);
        assert_eq!(suites("--server all"), ["llamacpp", "vllm", "sim"]);
        assert_eq!(suites("--server litellm"), [""; 0]);
    }

    #[test]
    fn unknown_words_are_refused_with_the_usage() {
        for line in ["", "--server tgi", "--server vllm --cpu", "--server"] {
            let why = parse(line).unwrap_err().to_string();
            assert!(why.contains("usage:"), "{line}: {why}");
        }
    }
}
