//! Room `schedule`.
