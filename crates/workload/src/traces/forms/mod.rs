//! One file per form of trace: which fields it has, and what they say.

pub(super) mod azure;
pub(super) mod bailian;
pub(super) mod burstgpt;
pub(super) mod conversations;
pub(super) mod dynamo;
pub(super) mod mapped;
pub(super) mod mooncake;
pub(super) mod otel;
pub(super) mod own;
pub(super) mod tracelab;
pub(super) mod weka;
