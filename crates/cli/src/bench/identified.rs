//! The server behind an address, asked before its plan is final.

use tokometer_measure::{IdentifiedServer, identify};

use crate::args::BenchArgs;
use crate::commands::Given;
use crate::exit::Refusal;
use crate::lower::{Lowered, OpenChoices, lower, shorten};
use crate::terminal::{hide, print_message};

/// Asks the server what it is. What the user left open follows from its answers: the backend, and lengths
/// that its context has room for.
pub(crate) fn identified(
    (args, open): (&BenchArgs, OpenChoices),
    lowered: &mut Lowered,
    (order, given): (&[String], &Given),
) -> Result<IdentifiedServer, Refusal> {
    hide(&lowered.secrets.known);
    let server = identify(&lowered.plan, &lowered.secrets, &given.clock)?;
    let mut args = args.clone();
    let mut changes = Vec::new();
    let planned = lowered.plan.targets.first().map(|target| target.backend);
    if open.backend && planned != Some(server.backend) {
        args.target.backend = Some(server.backend.name().to_owned());
        let route = server.backend.path();
        changes.push(format!("the server refuses chat requests; measuring {route} instead"));
    }
    let context = server.context_tokens.filter(|_| open.lengths);
    if let Some((input, output)) = context.and_then(|context| shorten(&mut args, context)) {
        changes.push(format!(
            "the model's context is short; prompts have {input} tokens, answers {output}"
        ));
    }
    if !changes.is_empty() {
        *lowered = lower(&args, order, &given.environment)?;
    }
    for change in changes {
        print_message(&format!("note: {change}"));
    }
    Ok(server)
}
