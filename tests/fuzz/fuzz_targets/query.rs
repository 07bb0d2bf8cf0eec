//! See `gene_registry::fuzzing::query`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::query(data));
