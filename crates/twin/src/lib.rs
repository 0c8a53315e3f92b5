//! Room `twin`.
