//! Room `drive`.
