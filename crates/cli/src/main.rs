//! `tokometer`: measures LLM inference servers.
//!
//! Flags as typed (`args`) become a plan as meant (`lower`); `commands` do what was asked,
//! most of it in `bench`. Errors end here, as a message on stderr and one of the codes of `exit`.

mod activity;
mod args;
mod bench;
mod calibrate;
mod capacity;
mod command_line;
mod commands;
mod compare;
mod dashboard;
mod exit;
mod files;
mod instrument;
mod lower;
mod pages;
mod predict;
mod runs;
mod session;
mod shards;
mod signals;
mod silence;
mod terminal;
mod version;

use std::process::ExitCode;
use std::sync::Arc;

use tokometer_base::MonotonicClock;

use exit::{Exit, code_of};
use terminal::{print, print_message};
use tokometer_base::redact::redact;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|fault| {
        print_message(&format!(
            "error: internal error (please report this bug): {fault}\n  include the command line in the report"
        ));
    }));
    let words = match command_line::words() {
        Ok(words) => words,
        Err(refusal) => return finish(Err(refusal.into())),
    };
    terminal::hide(&lower::of_words(&words));
    match args::parse(&words) {
        // No other function of this crate makes a clock: this one is passed to everything else.
        Ok(typed) => finish(commands::run(typed, Arc::new(MonotonicClock))),
        Err(args::ParseOutcome::Refused(refusal)) => finish(Err(refusal.into())),
        Err(args::ParseOutcome::Clap(error)) => {
            if let Some(refusal) = args::complaint(&error, &words) {
                return finish(Err(refusal.into()));
            }
            let text = error.render();
            if error.use_stderr() {
                print_message(redact(&text.to_string()).trim_end());
                return Exit::Usage.into();
            }
            finish(print(&text.to_string()).map(|()| Exit::Done).map_err(Into::into))
        }
    }
}

fn finish(outcome: anyhow::Result<Exit>) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            print_message(&redact(&format!("error: {error:#}")));
            code_of(&error).into()
        }
    }
}
