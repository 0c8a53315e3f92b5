//! One fuzzer for all targets: libFuzzer mutates the input, `TOKOMETER_FUZZ_TARGET` names the property.

#![no_main]

mod properties;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// The property that the environment names.
fn property() -> fn(&[u8]) {
    static PROPERTY: OnceLock<fn(&[u8])> = OnceLock::new();
    *PROPERTY.get_or_init(|| {
        let name = std::env::var("TOKOMETER_FUZZ_TARGET").unwrap_or_default();
        let found = properties::PROPERTIES.iter().find(|(has, _)| *has == name);
        found.map(|(_, check)| *check).unwrap_or_else(|| panic!("no target is called `{name}`"))
    })
}

fuzz_target!(|data: &[u8]| property()(data));
