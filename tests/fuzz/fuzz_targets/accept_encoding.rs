//! See `gene_registry::fuzzing::accept_encoding`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::accept_encoding(data));
