//! See `gene_registry::fuzzing::access_token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::access_token(data));
