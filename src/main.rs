//! The `gene-registry` binary.

fn main() {}
