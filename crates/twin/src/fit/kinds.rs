//! The kinds of engine that a table may come from, and which of them describes it best.
//!
//! A table of bursts shows how prompts and answers share the engine: by a budget of tokens, prompts first,
//! or admitted in rounds by a router. Each kind is fitted roughly to the rows that cost little; the one that
//! describes them best is the template of the fit proper. Each fold chooses from its own rows.

use sim::Profile;
use sim::profile::Policy;
use tokometer_sim as sim;

use super::Prepared;
use super::model::{Candidate, EngineModel};
use super::search::promise;
use crate::parallel::in_parallel;

/// A kind of engine and how well it describes a table.
#[derive(Debug, Clone)]
pub(super) struct EngineFit {
    pub(super) name: String,
    pub(super) template: Candidate,
    /// How badly it misses the rows that cost little to predict, roughly fitted.
    pub(super) loss: f64,
}

/// Budgets of tokens per step of servers in use: what can be distinguished from outside.
const BUDGETS: [u32; 3] = [512, 2_048, 8_192];

/// A router limits tokens, not sequences.
const ROUTER_SEQS: u32 = 1_000_000;

/// The declared kinds with what they promise for the rows of a set, the best first. Of `given`, the client
/// and what no kind declares are kept.
pub(super) fn among(
    prepared: &Prepared<'_>,
    set: &[usize],
    given: &Candidate,
    threads: usize,
) -> Vec<EngineFit> {
    let templates = declared(&given.profile);
    let mut kinds = in_parallel(&templates, threads, |(name, profile)| {
        let template = Candidate { profile: profile.clone(), ..given.clone() };
        let loss = promise(prepared, &EngineModel::new(template.clone()), set);
        EngineFit { name: name.clone(), template, loss }
    });
    kinds.sort_by(|one, other| one.loss.total_cmp(&other.loss));
    kinds
}

fn declared(base: &Profile) -> Vec<(String, Profile)> {
    let with = |policy: Policy| {
        let mut profile = bare(base);
        if matches!(policy, Policy::Tgi { .. }) {
            profile.scheduler.max_seqs = ROUTER_SEQS;
        }
        profile.scheduler.policy = policy;
        profile
    };
    let mut declared: Vec<(String, Profile)> = BUDGETS
        .iter()
        .map(|budget| {
            let name = format!("chunked prefill, {budget} tokens per step");
            (name, with(Policy::Chunked { token_budget: *budget }))
        })
        .collect();
    let blocking = Policy::Blocking { prefill_budget: 8_192 };
    declared.push(("prefill before decode".to_owned(), with(blocking)));
    let router = Policy::Tgi {
        max_batch_prefill_tokens: 4_096,
        max_batch_total_tokens: 32_768,
        waiting_served_ratio: 0.3,
        max_waiting_tokens: 20,
    };
    declared.push(("router that admits in rounds".to_owned(), with(router)));
    declared
}

/// Only what every kind fits: the terms that some leave alone are not there.
fn bare(base: &Profile) -> Profile {
    let mut profile = base.clone();
    let cost = &mut profile.cost;
    (cost.prefill, cost.experts, cost.graph_context_max) = (None, None, Some(GRAPH_CONTEXT));
    (cost.compute_ms, cost.context_ms, cost.context_free, cost.pair_ms) = (0.0, 0.0, 0.0, 0.0);
    (cost.admission_ms, cost.waiting_ms, cost.quantum_tail_ms) = (0.0, 0.0, 0.0);
    (profile.front_end.gather_ms, profile.front_end.coalesce) = (0.0, 0.0);
    profile
}

/// The longest context of a captured graph by vLLM's default. Where nothing is that long it does not matter.
const GRAPH_CONTEXT: u32 = 8_192;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::OldClient;
    use crate::fit::{MeasuredRow, predict_rows};

    /// Bursts of short prompts, as a known engine would have served them.
    fn table(profile: &Profile) -> Vec<MeasuredRow> {
        let mut rows: Vec<MeasuredRow> = [1, 4, 12, 32, 96]
            .into_iter()
            .map(|requests| MeasuredRow {
                label: requests.to_string(),
                requests,
                input_tokens: 80 * requests,
                output_tokens: 12 * requests,
                output_limit: Some(40),
                duration_s: 1.0,
                ..MeasuredRow::default()
            })
            .collect();
        let all: Vec<usize> = (0..rows.len()).collect();
        for held in predict_rows(&candidate(profile), &rows, &all, 1).unwrap() {
            rows[held.row].cells = held.predicted;
        }
        rows
    }

    fn candidate(profile: &Profile) -> Candidate {
        let (client, spread) = (OldClient::default(), crate::fit::SPREAD);
        Candidate { profile: profile.clone(), client, spread }
    }

    #[test]
    fn a_table_names_the_kind_of_engine_that_it_came_from() {
        let base = Profile::default();
        for (name, profile) in declared(&base) {
            // The limits of the other kinds are beyond what so short a table reaches.
            if !name.contains(" 512 ") && !name.starts_with("prefill before") {
                continue;
            }
            let rows = table(&profile);
            let all: Vec<usize> = (0..rows.len()).collect();
            let found = among(&Prepared::new(&rows), &all, &candidate(&base), 2);
            assert_eq!(found[0].name, name, "{:?}", losses(&found));
            assert!(found[0].loss < found[1].loss, "{:?}", losses(&found));
        }
    }

    fn losses(kinds: &[EngineFit]) -> Vec<(&str, f64)> {
        kinds.iter().map(|kind| (kind.name.as_str(), kind.loss)).collect()
    }
}
