//! Targets that were reached, with their tokenizer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokometer_plan::{self as plan, Plan};
use tokometer_tokenize::Tokenizer;

use crate::Error;
use crate::secrets::Credentials;
use crate::target::Reached;

/// Targets and their tokenizer, kept between runs.
pub(crate) struct ReadyTargets {
    pub(crate) targets: Vec<plan::Target>,
    /// As given by the user.
    pub(crate) named_tokenizer: Option<String>,
    pub(crate) reached: Reached,
    /// The second target of an A/B measurement.
    pub(crate) against: Option<Reached>,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) remarks: Vec<String>,
    /// Whether the targets have passed the plan's ready check.
    pub(crate) is_proved: bool,
    /// Whether the next exchange is to be shown.
    pub(crate) wants_exchange: AtomicBool,
}

impl ReadyTargets {
    /// Sections of a plan may change fields of the body while the server stays the same.
    pub(crate) fn settle(&mut self, plan: &Plan, secrets: &Credentials) -> Result<(), Error> {
        self.reached.settle(plan, secrets)?;
        match (&mut self.against, plan.second()) {
            (Some(against), Some(second)) => against.settle(&second, secrets),
            _ => Ok(()),
        }
    }

    pub(crate) fn all_reached(&self) -> impl Iterator<Item = &Reached> {
        std::iter::once(&self.reached).chain(&self.against)
    }
}
