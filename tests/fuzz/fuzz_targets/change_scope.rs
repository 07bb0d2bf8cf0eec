//! See `gene_registry::fuzzing::change_scope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::change_scope(data));
