//! Room `tokenize`.
