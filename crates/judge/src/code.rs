//! The codes of notes.

use std::fmt;

/// The code of a note, in the order in which notes of one severity are shown. `LateSends` is written
/// `late-sends`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteCode {
    NoSuccess,
    LateSends,
    RateMissed,
    StarvedClient,
    ThrottledClient,
    Stalls,
    LostStamps,
    ClockStep,
    ClockFaults,
    TokenIdsDisagree,
    ServerCountedLess,
    OtherClients,
    TextDisagrees,
    PromptLength,
    MissingUsage,
    UsageContradictsStream,
    ImpossibleNumbers,
    UnstreamedAnswers,
    UserStamps,
    SlowReads,
    SharedReads,
    MergedSegments,
    BusyClient,
    StolenTime,
    CpuPressure,
    CapHits,
    SlowRefill,
    Retransmits,
    OutsideServer,
    RoundTripOutliers,
    DescriptorLimit,
    PortLimit,
    WarmCache,
    FewSamples,
    NoSteadyState,
    ShortSteadyState,
    Overloaded,
    Burst,
    ClientLimit,
    CompressedStream,
    Failures,
    FewFailures,
    PartialRun,
    HiddenReasoning,
    TokensAfterText,
    TokensOutsideTpot,
    AnswerLength,
    EndedAnswers,
    LongAnswers,
    HistoryDrift,
    ContextOverflow,
    OneCore,
    SameHost,
    Proxy,
    SimulatedTarget,
    DroppedFields,
    SeveralChoices,
    OpenBodies,
    ReopenedConnections,
    Retries,
    Preemptions,
    SlowDisk,
    MissingShards,
    ShardStarts,
    ShardClocks,
    CanaryFailed,
    Preparation,
}

impl fmt::Display for NoteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in format!("{self:?}").char_indices() {
            let dash = if at > 0 && letter.is_uppercase() { "-" } else { "" };
            write!(f, "{dash}{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

/// Of a note in a summary, whose code is text: a summary may come from another version.
impl PartialEq<NoteCode> for String {
    fn eq(&self, code: &NoteCode) -> bool {
        let text = code.to_string();
        *self == text
    }
}
