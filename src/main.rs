//! The `gene-registry` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    gene_registry::cli::run()
}
