//! Limits of the machine that measures.

use super::case::Case;
use super::scripts::hold;

pub(super) const CASES: &[Case] = &[
    Case::sim("more connections than descriptors", &[])
        .shell("ulimit -n 300")
        .flags("--num-prompts 600 --max-concurrency 600")
        .exit(2)
        .says(&["cannot open 600 connections", "236"]),
    Case::every("the descriptors run out during the run", hold)
        .shell("ulimit -n 90")
        .line(
            "bench --base-url {url} --num-prompts 200 --request-rate 2000 --random-input-len 8 \
             --random-output-len 4 --tokenizer cl100k --no-scrape --run-dir r --timeout 3s",
        )
        .counts(0, 200)
        .says(&[
            "raise `ulimit -n`",
            "limit of this machine: this process may open only 90 files",
            "verdict: INVALID",
        ]),
];
