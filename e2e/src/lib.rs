//! Holds nothing: the tests live in `tests/it`.
