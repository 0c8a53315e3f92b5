//! Limits of the machine that measures.

use super::case::Case;

pub(super) const CASES: &[Case] = &[Case::sim("more connections than descriptors", &[])
    .shell("ulimit -n 300")
    .flags("--num-prompts 600 --max-concurrency 600")
    .exit(2)
    .says(&["cannot open 600 connections"])];
