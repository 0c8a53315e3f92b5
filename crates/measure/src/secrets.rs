//! Keys. They are passed separately from the plan, because a plan is written to disk and shown.

use tokometer_client::ApiKey;
use tokometer_tokenize::hub;

/// Keys that a measurement may use.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// `None` sends none to the target.
    pub api_key: Option<ApiKey>,
    /// For tokenizers and datasets from the hub.
    pub hub: hub::Access,
}
