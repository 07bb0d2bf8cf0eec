//! Prompts on a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use secrecy::SecretString;

/// Whether the user can be prompted: standard input and standard error are terminals.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation; anything but `y` or `yes` means no.
pub(super) fn confirm(question: &str) -> io::Result<bool> {
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut reply = String::new();
    io::stdin().lock().read_line(&mut reply)?;
    Ok(matches!(reply.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a secret, which is not shown while it is typed.
pub(super) fn prompt_hidden(question: &str) -> io::Result<SecretString> {
    let terminal = console::Term::stderr();
    terminal.write_str(question)?;
    terminal.read_secure_line().map(SecretString::from)
}
