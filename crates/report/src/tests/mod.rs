//! Tests of several modules together.

mod schema;
