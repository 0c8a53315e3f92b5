//! One file per dataset: its options with their defaults, and how its prompts are made.

pub mod book;
pub mod burstgpt;
pub mod custom;
pub mod hf;
pub mod image;
pub mod media_files;
pub mod mooncake;
pub mod openai;
pub mod prefix_repetition;
pub mod random;
pub mod random_audio;
pub mod random_ids;
pub mod random_mm;
pub mod random_rerank;
pub mod shared_prefix;
pub mod sharegpt;
pub mod sonnet;
pub mod spec_bench;
pub mod timed_trace;
pub mod trace;
mod trace_table;
