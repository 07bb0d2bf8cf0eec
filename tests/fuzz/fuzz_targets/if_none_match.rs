//! See `gene_registry::fuzzing::if_none_match`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::if_none_match(data));
