//! A workload against an engine profile.

use sim::Profile;
use sim::profile::{Policy, PrefixCache};
use tokometer_base::Seed;
use tokometer_sim as sim;

use crate::Error;
use crate::client::OldClient;
use crate::fleet;
use crate::router::Routing;
use crate::sender::FleetShare;
use crate::virtual_time::{KeptDetail, Prediction, ReportForm, VirtualSetup};
use crate::workload::RequestLoad;

/// Answer tokens of which timelines are kept at most: sixteen bytes each.
pub(crate) const TIMELINE_TOKENS_MAX: u64 = 60_000_000;

/// What is wanted of a prediction, beyond the engine and the workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictOptions {
    /// Servers behind the router.
    pub replicas: usize,
    pub routing: Routing,
    /// The client of old tables; the default is a perfect one.
    pub client: OldClient,
    pub keep: KeptDetail,
    /// Threads that may work at once, where the router lets replicas be computed alone.
    pub threads: usize,
}

impl Default for PredictOptions {
    fn default() -> Self {
        Self {
            replicas: 1,
            routing: Routing::default(),
            client: OldClient::default(),
            keep: KeptDetail::default(),
            threads: 1,
        }
    }
}

/// The seeds of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// That of the first run; the others are drawn from it.
    pub first: Seed,
    /// How many runs; at least one is predicted.
    pub count: u64,
}

impl Seeds {
    pub(crate) fn iter(self) -> impl Iterator<Item = Seed> {
        (0..self.count.max(1)).map(move |number| match number {
            0 => self.first,
            _ => Seed(self.first.stream("seeds").draw(number)),
        })
    }
}

/// Predicts a run: what a client would have seen of this engine under this workload.
pub fn predict(
    profile: &Profile,
    workload: &RequestLoad,
    seed: Seed,
    options: PredictOptions,
) -> Result<Prediction, Error> {
    if workload.asks.count() == 0 {
        return Err(Error::Empty);
    }
    if options.replicas == 0 {
        return Err(Error::NoReplicas);
    }
    let setup = VirtualSetup {
        profile,
        workload,
        seed,
        client: options.client,
        replicas: options.replicas,
        routing: options.routing,
        keep: options.keep,
        report_form: report_form(profile, workload, options),
        share: FleetShare::WHOLE,
    };
    if options.keep == KeptDetail::Timelines {
        check_tokens(workload)?;
    }
    let mut shares = fleet::in_shares(setup, options.threads)?.into_iter();
    let Some(mut all) = shares.next() else { return Err(Error::NoReplicas) };
    for share in shares {
        all.figures.merge(&share.figures);
        all.explanation.merge(share.explanation);
        all.end = all.end.max(share.end);
    }
    all.figures.close(all.end);
    Ok(all)
}

/// Ends suffice for figures, unless the client takes its time for each event, a step accepts several draft
/// tokens, prefixes are cached, a request may be cancelled, an answer moves between engines, or a step's budget may not reach all
/// decoding requests.
fn report_form(profile: &Profile, workload: &RequestLoad, options: PredictOptions) -> ReportForm {
    let reaches_all = match profile.scheduler.policy {
        Policy::Chunked { token_budget } => profile.scheduler.max_seqs <= token_budget,
        Policy::Blocking { .. } | Policy::Tgi { .. } => true,
    };
    // The blocks of an answer then become known token by token.
    let is_caching = profile.kv.as_ref().is_some_and(|kv| kv.prefix_cache == PrefixCache::Lru);
    let is_regular = options.client.event_ms <= 0.0
        && profile.scheduler.speculation.is_none()
        && profile.disaggregation.is_none()
        && !workload.asks.has_cancels()
        && !is_caching;
    match options.keep {
        KeptDetail::Figures if reaches_all && is_regular => ReportForm::Ends,
        KeptDetail::Figures | KeptDetail::Timelines => ReportForm::Events,
    }
}

fn check_tokens(workload: &RequestLoad) -> Result<(), Error> {
    let count = workload.asks.count();
    let tokens = (0..count).map(|index| u64::from(workload.asks.ask(index).output_tokens)).sum();
    if tokens > TIMELINE_TOKENS_MAX {
        return Err(Error::TooManyTokens { tokens, most: TIMELINE_TOKENS_MAX });
    }
    Ok(())
}
