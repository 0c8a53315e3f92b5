//! How prompts are made, counted and handed over.

use serde::{Deserialize, Serialize};
use tokometer_client::secret::ExtraBody;
use tokometer_workload as workload;

tokometer_base::partial! {
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Prompts / PartialPrompts {
        /// The tokenizer as the user named it; absent: the server's, the hub's or the built-in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tokenizer: Option<String> = None,
        pub form: Form,
        pub row_order: workload::RowOrder,
        pub oversample: workload::Oversample,
        #[serde(skip_serializing_if = "is_default")]
        pub bad_rows: workload::BadRows = workload::BadRows::ByDataset,
        /// Prompts in one request, for backends that answer each of them.
        #[serde(skip_serializing_if = "is_one")]
        pub batch_size: u32 = 1,
        pub templating: workload::Templating,
        /// Further values for a chat template; absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub template_values: Option<ExtraBody> as Option<ExtraBody>,
        /// Longest prompt and answer together; longer ones are left out. Absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub max_model_len: Option<u64> = None,
        /// Makes conversations of the prompts; absent: each stands alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub turns: Option<workload::Turns> as Option<workload::PartialTurns>,
        /// Which answers later turns repeat; absent: recorded for a trace, live otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub answers: Option<workload::Answers> = None,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As the backend takes them: text, or messages on chat routes.
    Text,
    TokenIds,
}
