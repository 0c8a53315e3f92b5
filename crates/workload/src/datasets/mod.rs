//! One file per dataset: its options with their defaults, and how its prompts are made.

pub mod book;
pub mod burstgpt;
pub mod custom;
pub mod hf;
pub mod mooncake;
pub mod openai;
pub mod prefix_repetition;
pub mod random;
pub mod random_ids;
pub mod shared_prefix;
pub mod sharegpt;
pub mod sonnet;
pub mod timed_trace;
