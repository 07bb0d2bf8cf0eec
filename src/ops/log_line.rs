//! A line of the log as JSON: one flat object with time, level, the event's fields and its target.
//!
//! Written straight into the line: with an event a request, the library's own way of doing it
//! (a serializer, field by field) would cost as much as the rest of a cached answer.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::registry::Timestamp;

/// Formats events as JSON. Of spans, which this service has none of, nothing is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        write!(line, "{{\"timestamp\":\"{:.6}\"", Timestamp::now())?;
        write_member(&mut line, "level", about.level().as_str())?;
        let mut fields = Fields { line: &mut line, outcome: Ok(()) };
        event.record(&mut fields);
        fields.outcome?;
        write_member(&mut line, "target", about.target())?;
        line.write_str("}\n")
    }
}

fn write_name(line: &mut impl Write, name: &str) -> fmt::Result {
    line.write_str(",\"")?;
    Escaping(line).write_str(name)?;
    line.write_str("\":")
}

fn write_member(line: &mut impl Write, name: &str, value: &str) -> fmt::Result {
    write_name(line, name)?;
    line.write_char('"')?;
    Escaping(line).write_str(value)?;
    line.write_char('"')
}

/// Writes an event's fields as members of an object; stops at the first that can't be written.
struct Fields<'a, W> {
    line: &'a mut W,
    outcome: fmt::Result,
}

impl<W: Write> Fields<'_, W> {
    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        self.add(|line| {
            write_name(line, field.name())?;
            write!(line, "{value}")
        });
    }

    fn add(&mut self, write: impl FnOnce(&mut W) -> fmt::Result) {
        if self.outcome.is_ok() {
            self.outcome = write(self.line);
        }
    }
}

impl<W: Write> Visit for Fields<'_, W> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(|line| write_member(line, field.name(), value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    /// JSON has no words for what is not finite.
    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.plain(field, value);
        } else {
            self.plain(field, "null");
        }
    }

    /// Messages, `%` and `?` come this way, and every other type.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(|line| {
            write_name(line, field.name())?;
            line.write_char('"')?;
            write!(Escaping(line), "{value:?}")?;
            line.write_char('"')
        });
    }
}

/// The inside of a JSON string (RFC 8259, section 7).
struct Escaping<'a, W>(&'a mut W);

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
            self.0.write_str(&rest[..at])?;
            match rest.as_bytes()[at] {
                b'"' => self.0.write_str("\\\"")?,
                b'\\' => self.0.write_str("\\\\")?,
                b'\n' => self.0.write_str("\\n")?,
                control => write!(self.0, "\\u{control:04x}")?,
            }
            rest = &rest[at + 1..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Memory {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    fn logged(events: impl FnOnce()) -> Vec<Value> {
        let memory = Memory::default();
        let subscriber = tracing_subscriber::fmt()
            .event_format(JsonLine)
            .with_writer(memory.clone())
            .with_max_level(tracing::Level::TRACE)
            .finish();
        tracing::subscriber::with_default(subscriber, events);
        let text = String::from_utf8(memory.0.lock().expect("a lock").clone()).expect("UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    #[test]
    fn an_event_is_one_flat_object() {
        let absent: Option<&str> = None;
        let lines = logged(|| {
            tracing::warn!(
                target: "some::where", text = "a", n = 7_u16, minus = -7_i64, yes = true,
                ms = 0.25, nan = f64::NAN, absent, shown = %"x", debug = ?[1], "the \"message\""
            );
        });
        let mut line = lines[0].clone();
        let time = line["timestamp"].take();
        let time: Timestamp = time.as_str().and_then(|time| time.parse().ok()).expect("a time");
        assert!(Timestamp::now().duration_since(time).as_secs() < 60);
        assert_eq!(
            line,
            json!({
                "timestamp": null, "level": "WARN", "message": "the \"message\"", "text": "a",
                "n": 7, "minus": -7, "yes": true, "ms": 0.25, "nan": null, "shown": "x",
                "debug": "[1]", "target": "some::where",
            })
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_back_as_it_was(text in any::<String>()) {
            let lines = logged(|| tracing::info!(text, shown = %text, "{text}"));
            prop_assert_eq!(lines.len(), 1, "never more than a line");
            for name in ["text", "shown", "message"] {
                prop_assert_eq!(lines[0][name].as_str(), Some(&*text));
            }
        }
    }
}
