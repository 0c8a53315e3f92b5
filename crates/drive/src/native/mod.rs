//! The machine itself: the kernel's clocks, its threads, epoll and TCP.

mod links;
mod machine;

pub use links::EpollLinks;
pub use machine::Native;
