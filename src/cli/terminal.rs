//! Questions to a person at a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use secrecy::SecretString;

/// Whether there is somebody to ask and somewhere to show the question.
pub(super) fn can_be_asked() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks; anything but `y` or `yes` means no.
pub(super) fn agrees(question: &str) -> io::Result<bool> {
    let mut err = io::stderr().lock();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for something that is not shown while it is typed.
pub(super) fn ask_hidden(question: &str) -> io::Result<SecretString> {
    let terminal = console::Term::stderr();
    terminal.write_str(question)?;
    terminal.read_secure_line().map(SecretString::from)
}
