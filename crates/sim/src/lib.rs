//! A simulated inference server.
//!
//! [`Engine`] is a pure state machine that batches, schedules and caches like a real engine and says
//! how long each step takes; [`SimServer`] puts it behind HTTP in real time, in the protocols of the servers
//! it imitates, and can log when each token was handed to the kernel. It shares no wire types with the
//! client: captured streams of real servers judge both.
//!
//! - The model: [`engine`] (scheduler and KV cache), [`cost`] (how long a step takes), [`profile`] (all
//!   parameters of one engine), [`what_if`] (changes of a profile).
//! - The server: [`config`], `http` (requests from bytes), `front` (listener, connections, streams), `wire` (bodies and events per
//!   protocol), `vocabulary` (its words as tokens), [`faults`] on request,
//!   and [`truth`], the log.

pub mod config;
pub mod cost;
pub mod engine;
pub mod faults;
mod front;
mod http;
pub mod profile;
pub mod truth;
mod vocabulary;
pub mod what_if;
mod wire;

pub use config::{AnswerLength, Flavour, SimConfig, TokenTiming, Transport};
pub use engine::{Engine, Job};
pub use faults::Faults;
pub use front::{Error, SimServer};
pub use profile::Profile;
