//! See `gene_registry::fuzzing::forwarded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gene_registry::fuzzing::forwarded(data));
