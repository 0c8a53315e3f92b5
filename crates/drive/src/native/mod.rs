//! The machine itself: kernel clocks, threads, epoll and TCP.

mod links;
mod machine;

pub use links::EpollLinks;
pub use machine::Native;
