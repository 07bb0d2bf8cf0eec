//! `gene-registry openapi` prints the OpenAPI documents.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::command::CommandResult;
use super::output::print;
use crate::api::Document;
use crate::control::control_document;
use crate::http::document::{DocumentFormat, OpenApiVersion};

#[derive(Debug, Args)]
pub(super) struct Openapi {
    /// The document of the control API instead of the one of the public API
    #[arg(long)]
    control: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Json)]
    format: FormatArg,
    /// OpenAPI version
    #[arg(long, value_enum, default_value_t = VersionArg::V30)]
    version: VersionArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormatArg {
    Json,
    Yaml,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VersionArg {
    #[value(name = "3.0")]
    V30,
    #[value(name = "3.1")]
    V31,
}

impl Openapi {
    pub(super) fn run(self) -> CommandResult {
        let version = match self.version {
            VersionArg::V30 => OpenApiVersion::V30,
            VersionArg::V31 => OpenApiVersion::V31,
        };
        let format = match self.format {
            FormatArg::Json => DocumentFormat::Json,
            FormatArg::Yaml => DocumentFormat::Yaml,
        };
        let text = if self.control {
            control_document(version, format, None)
        } else {
            Document::default().text(version, format, "")
        };
        print(std::str::from_utf8(&text)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
