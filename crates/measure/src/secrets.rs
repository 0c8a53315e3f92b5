//! Keys, and everything that must not be shown or stored. They are passed separately from the plan,
//! because a plan is written to disk and shown.

use serde_json::Value;
use tokometer_base::printable;
use tokometer_base::redact;
use tokometer_client::ApiKey;
use tokometer_client::proxy::Proxies;
use tokometer_client::secret::{cleaned_value, hidden_value};
use tokometer_record::server::Scrape;
use tokometer_record::{Outcome, Timeline};
use tokometer_tokenize::hub;

use crate::Error;

/// Keys that a measurement may use, and all secrets that it knows.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// `None` sends none to the target.
    pub api_key: Option<ApiKey>,
    /// For tokenizers and datasets from the hub.
    pub hub: hub::HubAccess,
    /// The environment's proxies, whose URLs may hold passwords.
    pub proxies: Proxies,
    /// Every secret of the command line, the plan and the environment.
    pub known: redact::Secrets,
}

impl Credentials {
    /// A name or a message from outside, fit to be recorded and shown.
    pub(crate) fn clean(&self, text: &str) -> String {
        printable::short(&self.known.redact(text))
    }

    /// A document from outside, fit to be recorded.
    pub(crate) fn clean_json(&self, value: &Value) -> Value {
        cleaned_value(&hidden_value(value), &|text| self.known.redact(text))
    }

    /// Removes secrets that a server has sent back.
    pub(crate) fn clean_timeline(&self, timeline: &mut Timeline) {
        if let Outcome::Failed(failure) = &mut timeline.outcome {
            failure.message = self.clean(&failure.message);
        }
        // Answers may look like anything, so only what is known to be secret is removed.
        if let Some(text) = timeline.text.as_mut().filter(|text| self.known.are_in(text)) {
            *text = self.known.redact_exact(text);
        }
    }

    /// The same for what it says of itself.
    pub(crate) fn clean_scrape(&self, scrape: &mut Scrape) {
        scrape.error = scrape.error.as_deref().map(|error| self.clean(error));
        if scrape.values.keys().any(|name| self.known.are_in(name)) {
            let values = std::mem::take(&mut scrape.values).into_iter();
            scrape.values =
                values.map(|(name, value)| (self.known.redact_exact(&name), value)).collect();
        }
    }

    /// An error without secrets. Its lines stay as they are.
    pub(crate) fn clean_error(&self, error: Error) -> Error {
        let Error { kind, message, hint } = error;
        Error { kind, message: self.known.redact(&message), hint: self.known.redact(&hint) }
    }
}
