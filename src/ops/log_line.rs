//! A line of the log as JSON: one flat object with time, level, the event's fields and its target.
//!
//! Put together in one piece of memory, and handed on whole: with an event a request, the library's
//! own way of doing it (a serializer, field by field) would cost as much as the rest of a cached
//! answer, and each piece that goes through its writer a tenth of a header.

use std::fmt::{self, Debug, Write};

use jiff::fmt::temporal::DateTimePrinter;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::registry::Timestamp;

/// More than a request's line takes, as a rule.
const ROOM: usize = 512;

const TIME: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

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
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        let mut line = Line(String::with_capacity(ROOM));
        line.0.push_str("{\"timestamp\":\"");
        TIME.print_timestamp(&Timestamp::now(), &mut line.0).map_err(|_| fmt::Error)?;
        line.0.push('"');
        line.text("level", about.level().as_str());
        event.record(&mut line);
        line.text("target", about.target());
        line.0.push_str("}\n");
        out.write_str(&line.0)
    }
}

/// An object that takes an event's fields as its members.
struct Line(String);

impl Line {
    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push('"');
        add_escaped(&mut self.0, value);
        self.0.push('"');
    }

    /// Names are written by who writes the code: nothing in them needs an escape.
    fn name(&mut self, name: &str) {
        debug_assert!(!name.bytes().any(is_escaped), "{name:?}");
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    fn plain(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push_str(value);
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field.name(), itoa::Buffer::new().format(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field.name(), itoa::Buffer::new().format(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field.name(), if value { "true" } else { "false" });
    }

    /// JSON has no words for what is not finite.
    fn record_f64(&mut self, field: &Field, value: f64) {
        let mut digits = zmij::Buffer::new();
        let number = if value.is_finite() { digits.format_finite(value) } else { "null" };
        self.plain(field.name(), number.strip_suffix(".0").unwrap_or(number));
    }

    /// Messages, `%` and `?` come this way, and every other type.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.name(field.name());
        self.0.push('"');
        // Only a value's own formatting can fail: then as much of it stands there as there is.
        let _ = write!(Escaping(&mut self.0), "{value:?}");
        self.0.push('"');
    }
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        add_escaped(self.0, text);
        Ok(())
    }
}

/// By a table, for every byte of the log is looked at.
fn is_escaped(byte: u8) -> bool {
    const ESCAPED: [bool; 256] = {
        let (mut escaped, mut control) = ([false; 256], 0);
        while control < 0x20 {
            escaped[control] = true;
            control += 1;
        }
        escaped[b'"' as usize] = true;
        escaped[b'\\' as usize] = true;
        escaped
    };
    ESCAPED[usize::from(byte)]
}

/// Adds text as it stands inside a JSON string (RFC 8259, section 7).
fn add_escaped(line: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.as_bytes().iter().position(|byte| is_escaped(*byte)) {
        line.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => line.push_str("\\\""),
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            control => line.push_str(&format!("\\u{control:04x}")),
        }
        rest = &rest[at + 1..];
    }
    line.push_str(rest);
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
