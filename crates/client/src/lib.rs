//! Room `client`.
