//! The option `--config`, which most commands have.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::{CONFIG_FILE_VARIABLE, InvalidConfig, LoadedConfig};

/// The configuration file.
#[derive(Debug, Args)]
pub(super) struct ConfigFile {
    /// Configuration file (TOML); keys it leaves out have their defaults
    #[arg(long, value_name = "FILE", env = CONFIG_FILE_VARIABLE)]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads the file, and the environment over it.
    pub(super) fn read(&self) -> Result<LoadedConfig, InvalidConfig> {
        LoadedConfig::read(self.path())
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}
