//! The shape of what is said about a command.

use std::fmt::Write as _;

/// A term and its explanation: an exit status, a variable or a file.
pub(in crate::cli) type HelpEntry = (&'static str, &'static str);

/// What is said about one command.
#[derive(Debug)]
pub(in crate::cli) struct HelpText {
    /// The words after `gene-registry`; none for the program itself.
    pub(in crate::cli) command: &'static str,
    /// Paragraphs, separated by empty lines.
    pub(in crate::cli) notes: &'static str,
    pub(in crate::cli) examples: &'static [Example],
    pub(in crate::cli) exit_statuses: &'static [HelpEntry],
    pub(in crate::cli) environment: &'static [&'static [HelpEntry]],
    pub(in crate::cli) files: &'static [&'static [HelpEntry]],
}

/// A line for a shell, and what it does.
pub(in crate::cli) type Example = (&'static str, &'static str);

impl HelpText {
    /// The end of the help: notes and examples; for the program itself, the exit statuses too.
    pub(super) fn after_help(&self) -> String {
        let mut text = String::new();
        if !self.notes.is_empty() {
            text.push_str(self.notes);
            text.push_str("\n\n");
        }
        text.push_str("Examples:");
        for (number, (line, purpose)) in self.examples.iter().enumerate() {
            let gap = if number == 0 { "" } else { "\n" };
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{gap}\n  # {purpose}\n  {line}");
        }
        if self.command.is_empty() {
            text.push_str("\n\nExit status:");
            for (status, meaning) in self.exit_statuses {
                let meaning = meaning.replace('\n', "\n       ");
                let _ = write!(text, "\n  {status:3}  {meaning}");
            }
        }
        text
    }
}
