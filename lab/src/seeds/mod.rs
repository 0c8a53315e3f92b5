//! `cargo lab seeds DIR [SEARCHES] [vllm|tgi|all|others] [OUT] [THREADS] [SEED]`: the engine model fitted to the
//! five seed reports in DIR, `lab/data/seeds.md` and the shipped profiles in OUT.

mod fit;
mod others;
mod page;
/// The test of the stored fits reads the same tables.
#[path = "../../../crates/twin/tests/seeds/table.rs"]
mod table;

pub(crate) use fit::run;
