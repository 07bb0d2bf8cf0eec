//! See `gene_registry::fuzzing::redis_values`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::redis_values(data));
