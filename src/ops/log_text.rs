//! The fields of an event as text, for a terminal: the message, then `name=value`.
//!
//! Values may be text of clients, servers and databases. Characters that a terminal interprets, or
//! displays other text because of, are written as escapes, so an event is one line of what it says.
//! The joiners of emoji are too: fields are written in pieces, and a piece does not tell whether a
//! joiner at its beginning joins anything.

use std::fmt::{self, Debug, Write};

use tracing::field::Field;
use tracing_subscriber::field::delimited::Delimited;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::registry::is_deceptive;

/// The field of a panic's backtrace, which is many lines.
const BACKTRACE: &str = "backtrace";

/// Formats fields as text.
pub(super) fn text_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    Delimited::new(" ", debug_fn(write_field))
}

fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let name = field.name();
    if name != "message" {
        if out.has_ansi_escapes() {
            // The name in italics, the sign dimmed.
            write!(out, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
        } else {
            write!(out, "{name}=")?;
        }
    }
    write!(VisibleText { out, keeps_lines: name == BACKTRACE }, "{value:?}")
}

/// A text of several lines without other characters that a terminal interprets.
pub(super) fn visible_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // Writing to a string never fails.
    let _ = VisibleText { out: &mut shown, keeps_lines: true }.write_str(text);
    shown
}

/// Writes deceptive characters as escapes of Rust: `\u{1b}`, `\n`.
struct VisibleText<'a, W> {
    out: &'a mut W,
    keeps_lines: bool,
}

impl<W: Write> Write for VisibleText<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_visible = |byte: u8| (0x20..0x7f).contains(&byte);
        if text.bytes().all(is_visible) {
            return self.out.write_str(text);
        }
        let is_hidden =
            |character| is_deceptive(character) && !(self.keeps_lines && character == '\n');
        let mut rest = text;
        while let Some((index, character)) = rest.char_indices().find(|(_, it)| is_hidden(*it)) {
            write!(self.out, "{}{}", &rest[..index], character.escape_default())?;
            rest = &rest[index + character.len_utf8()..];
        }
        self.out.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::log_line::tests::Memory;

    fn logged(has_colours: bool, events: impl FnOnce()) -> String {
        let memory = Memory::default();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(text_fields())
            .without_time()
            .with_ansi(has_colours)
            .with_writer(memory.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, events);
        memory.text()
    }

    #[test]
    fn an_event_is_its_message_and_fields() {
        let events = || {
            let absent: Option<&str> = None;
            tracing::info!(target: "some::where", text = "a\n", n = 7, absent, shown = %"x", "it {}", 1);
        };
        assert_eq!(logged(false, events), " INFO some::where: it 1 text=\"a\\n\" n=7 shown=x\n");
        let coloured = "it 1 \x1b[3mtext\x1b[0m\x1b[2m=\x1b[0m\"a\\n\" ";
        assert!(logged(true, events).contains(coloured), "{}", logged(true, events));
    }

    #[test]
    fn only_colours_and_a_backtrace_have_control_characters() {
        let hidden = "\x1b[2J\n\u{9b}é\u{202e}";
        let shown = "\\u{1b}[2J\\n\\u{9b}é\\u{202e}";
        let line = logged(true, || tracing::warn!(error = %hidden, "{hidden}"));
        let equals = "\x1b[3merror\x1b[0m\x1b[2m=\x1b[0m";
        assert!(line.ends_with(&format!("{shown} {equals}{shown}\n")), "{line:?}");
        let line = logged(false, || tracing::warn!(backtrace = %hidden, "it"));
        let shown = shown.replace("\\n", "\n");
        assert_eq!(line, format!(" WARN {}: it backtrace={shown}\n", module_path!()));
        assert_eq!(visible_lines(hidden), shown);
    }
}
