//! Keys. They are passed beside the plan, because a plan is written to disk and shown.

use tokometer_client::ApiKey;
use tokometer_tokenize::hub;

/// Keys that a measurement may use.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Sent to the target; `None` sends none.
    pub api_key: Option<ApiKey>,
    /// For tokenizers and datasets of the hub.
    pub hub: hub::Access,
}
