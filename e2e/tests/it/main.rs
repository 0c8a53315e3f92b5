//! The built binary against servers.
