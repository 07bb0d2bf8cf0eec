//! See `gene_registry::fuzzing::api_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::api_key(data));
