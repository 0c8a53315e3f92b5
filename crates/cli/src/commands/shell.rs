//! `tokometer completions` and `tokometer man`: files that a package installs beside the program. Both
//! are generated from the flags.

use std::path::Path;

use clap_complete::Shell;

use crate::args;
use crate::exit::{Exit, Refusal, RefusalKind};
use crate::terminal::{print, print_message};

pub(crate) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::declaration(), "tokometer", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

pub(crate) fn man(folder: &Path) -> anyhow::Result<Exit> {
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(args::declaration(), folder));
    written.map_err(|why| {
        Refusal::new(RefusalKind::Write, format!("cannot write to `{}`: {why}", folder.display()))
    })?;
    print_message(&format!("wrote the manual pages to {}", folder.display()));
    Ok(Exit::Done)
}
