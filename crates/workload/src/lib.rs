//! Room `workload`.
