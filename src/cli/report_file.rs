//! Files in which a command that runs on reports its state to other programs.

use std::path::{Path, PathBuf};

use super::command::CommandError;
use crate::net::io_reason;

/// The file that an option names.
#[derive(Debug)]
pub(super) struct ReportFile {
    pub(super) option: &'static str,
    pub(super) path: PathBuf,
}

impl ReportFile {
    /// Replaces the content. Writes under another name first, so that the file is complete whenever it
    /// exists.
    ///
    /// # Errors
    /// The file cannot be written; the text names the option.
    pub(super) fn write(&self, content: &str) -> Result<(), CommandError> {
        replace(&self.path, content).map_err(|error| {
            let Self { option, path } = self;
            format!("{option}: cannot write {}: {}", path.display(), io_reason(&error)).into()
        })
    }
}

fn replace(path: &Path, content: &str) -> std::io::Result<()> {
    let unfinished = path.with_added_extension("part");
    std::fs::write(&unfinished, content)?;
    std::fs::rename(unfinished, path)
}
