//! A file that holds an API key.

use std::path::Path;

use secrecy::zeroize::Zeroizing;

use super::command::CommandError;
use crate::keys::ApiKey;
use crate::net::io_reason;

/// Reads the key in the file's first line that is neither empty nor a comment.
pub(super) fn read_key(path: &Path) -> Result<ApiKey, CommandError> {
    let unreadable = |error| {
        format!(
            "cannot read --key-file {}: {}. The file must hold the key to use",
            path.display(),
            io_reason(&error)
        )
    };
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(unreadable)?);
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    let line = line.ok_or_else(|| format!("--key-file {} holds no key", path.display()))?;
    line.parse().map_err(|error| format!("--key-file {}: {error}", path.display()).into())
}
