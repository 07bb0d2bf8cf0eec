//! `gene-registry openapi`

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::Outcome;
use crate::api::Document;

#[derive(Debug, Args)]
pub(super) struct Openapi {
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

impl Openapi {
    pub(super) fn run(self) -> Outcome {
        let document = Document::new(None);
        let text = match self.format {
            Format::Json => document.json,
            Format::Yaml => document.yaml,
        };
        std::io::stdout().write_all(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
