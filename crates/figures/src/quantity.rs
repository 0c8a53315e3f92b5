//! What figures are about.

/// A measured quantity. [`crate::define`] has the definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    Requests,
    Output,
    Prompt,
    /// Prompt and output tokens per second.
    Total,
    PeakOutput,
    Goodput,
    GoodputRate,
    Ttft,
    Tpot,
    /// Time between two events of a stream, which other tools call ITL.
    Itl,
    E2e,
    /// Wait inside the client before the send.
    ClientQueue,
    TtftFromIntended,
    E2eFromIntended,
    UserSpeed,
    /// Inputs or documents per second, where nothing is generated.
    Items,
    E2ePerItem,
    TraceLag,
    Session,
    SessionStretch,
    SessionModel,
    SessionTools,
    SessionClient,
    /// Finished ones per hour.
    Sessions,
}
