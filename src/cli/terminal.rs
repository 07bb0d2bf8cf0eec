//! Prompts on a terminal, and its width.

use std::io::{self, BufRead, IsTerminal, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};
use secrecy::SecretString;

/// The width of a terminal that does not report it.
const DEFAULT_COLUMNS: usize = 80;

/// The width of standard output in columns, if it is a terminal.
pub(super) fn output_columns() -> Option<usize> {
    let stdout = io::stdout();
    let columns = tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    stdout.is_terminal().then_some(if columns == 0 { DEFAULT_COLUMNS } else { columns })
}

/// Whether the user can be prompted: standard input and standard error are terminals.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation; anything but `y` or `yes` means no.
pub(super) fn confirm(question: &str) -> io::Result<bool> {
    let reply = ask(&format!("{question} [y/N] "))?;
    Ok(matches!(reply.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for a secret, which is not shown while it is typed.
pub(super) fn prompt_hidden(question: &str) -> io::Result<SecretString> {
    let shown = tcgetattr(io::stdin())?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    // Before the question: what is typed as soon as it appears is neither shown nor discarded.
    tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
    let reply = ask(question);
    tcsetattr(io::stdin(), OptionalActions::Now, &shown)?;
    // The user's line break was not shown either.
    writeln!(io::stderr())?;
    Ok(SecretString::from(reply?))
}

fn ask(question: &str) -> io::Result<String> {
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes())?;
    err.flush()?;
    let mut reply = String::new();
    io::stdin().lock().read_line(&mut reply)?;
    Ok(reply)
}
