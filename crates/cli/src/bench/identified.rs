//! The server behind an address, asked before its plan is final.

use tokometer_measure::{IdentifiedServer, identify};

use crate::args::BenchArgs;
use crate::exit::Refusal;
use crate::lower::{Lowered, OwnDefaults, lower_over};
use crate::session::Given;
use crate::terminal::{hide, print_note};

/// Asks the server what it is. What the user left open follows from its answers: the backend, and lengths
/// that its context has room for.
pub(crate) fn identified(
    args: &BenchArgs,
    own: &OwnDefaults,
    lowered: &mut Lowered,
    order: &[String],
    given: &Given,
) -> Result<IdentifiedServer, Refusal> {
    hide(&lowered.secrets.known);
    let server = identify(&lowered.plan, &lowered.secrets, &given.clock)?;
    let mut own = own.clone();
    let mut changes = Vec::new();
    let planned = lowered.plan.targets.first().map(|target| target.backend);
    if own.open.backend && planned != Some(server.backend) {
        own.put_backend(server.backend);
        let route = server.backend.path();
        changes.push(format!("the server refuses chat requests; measuring {route} instead"));
    }
    let context = server.context_tokens.filter(|_| own.open.lengths);
    if let Some((input, output)) = context.and_then(|context| own.shorten(context)) {
        changes.push(format!(
            "the model's context is short; prompts have {input} tokens, answers {output}"
        ));
    }
    if !changes.is_empty() {
        *lowered = lower_over(Some(&own), args, order, &given.environment)?;
    }
    for change in changes {
        print_note(&format!("note: {change}"));
    }
    Ok(server)
}
