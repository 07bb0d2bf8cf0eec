//! `gene-registry openapi`

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::Outcome;
use super::show::print;
use crate::api;

#[derive(Debug, Args)]
pub(super) struct Openapi {
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Version of OpenAPI
    #[arg(long, value_enum, default_value_t = Version::V30)]
    version: Version,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "3.0")]
    V30,
    #[value(name = "3.1")]
    V31,
}

impl Openapi {
    pub(super) fn run(self) -> Outcome {
        let version = match self.version {
            Version::V30 => api::OpenApiVersion::V30,
            Version::V31 => api::OpenApiVersion::V31,
        };
        let format = match self.format {
            Format::Json => api::DocumentFormat::Json,
            Format::Yaml => api::DocumentFormat::Yaml,
        };
        let text = api::Document::new().text(version, format, "");
        print(std::str::from_utf8(&text)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
