//! A line of the log as JSON: one flat object with time, level, the event's fields and its target.
//!
//! The line is written to one buffer and passed on whole. The formatter of `tracing-subscriber` costs
//! as much as the rest of a cached response, and a serialiser a fiftieth of it (docs/performance.md).

use std::fmt::{self, Debug, Write};
use std::time::Duration;

use jiff::fmt::temporal::DateTimePrinter;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::registry::{Timestamp, is_deceptive};

/// Initial capacity of a line, in bytes: more than the line of a request usually needs.
const LINE_CAPACITY: usize = 512;

const TIME: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// A duration in milliseconds, rounded down to three decimals.
#[inline]
pub(crate) fn log_ms(took: Duration) -> f64 {
    // Durations of more than 2^64 µs do not occur; a conversion of 128 bits costs more.
    (took.as_micros() as u64) as f64 / 1000.0
}

/// Formats events as JSON. Ignores spans, which this service does not use.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line(String::with_capacity(LINE_CAPACITY));
        line.0.push_str("{\"timestamp\":\"");
        TIME.print_timestamp(&Timestamp::now(), &mut line.0).map_err(|_| fmt::Error)?;
        line.0.push('"');
        line.verbatim("level", metadata.level().as_str());
        event.record(&mut line);
        line.verbatim("target", metadata.target());
        line.0.push_str("}\n");
        out.write_str(&line.0)
    }
}

/// An object whose members are the fields of an event.
struct Line(String);

impl Line {
    /// Adds a member whose value is a string.
    fn text(&mut self, name: &str, value: &str) {
        self.json(name, "\"");
        push_escaped(&mut self.0, value);
        self.0.push('"');
    }

    /// Adds a member whose value is a string of the code, which contains nothing to escape.
    fn verbatim(&mut self, name: &str, value: &str) {
        self.json(name, "\"");
        self.0.push_str(value);
        self.0.push('"');
    }

    /// Adds a member whose value is written in JSON already. Names are part of the code, and contain
    /// nothing to escape.
    fn json(&mut self, name: &str, value: &str) {
        self.0.push_str(",\"");
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(value);
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.json(field.name(), itoa::Buffer::new().format(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.json(field.name(), itoa::Buffer::new().format(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.json(field.name(), if value { "true" } else { "false" });
    }

    /// Writes 1.0 as 1; infinities and NaN, which JSON lacks, as null.
    fn record_f64(&mut self, field: &Field, value: f64) {
        let mut digits = zmij::Buffer::new();
        let number = if value.is_finite() { digits.format_finite(value) } else { "null" };
        self.json(field.name(), number.strip_suffix(".0").unwrap_or(number));
    }

    /// Called for messages, for `%` and `?`, and for every other type.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.json(field.name(), "\"");
        // Fails only if the value's own formatting does; then what it wrote so far is kept.
        let _ = write!(Escaped(&mut self.0), "{value:?}");
        self.0.push('"');
    }
}

/// Escapes what is written to it.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_escaped(self.0, text);
        Ok(())
    }
}

/// Whether a byte may begin a character that is escaped: `"`, `\`, a control character, or any that is
/// not ASCII. A table, as every byte of the log is looked up.
const MAY_BE_ESCAPED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] =
            byte < 0x20 || byte >= 0x7f || byte == b'"' as usize || byte == b'\\' as usize;
        byte += 1;
    }
    table
};

/// Appends text as it is written inside a JSON string (RFC 8259, section 7), with escapes also for
/// what a terminal would interpret or not display.
fn push_escaped(line: &mut String, text: &str) {
    let mut rest = text;
    while let Some(index) = rest.bytes().position(|byte| MAY_BE_ESCAPED[usize::from(byte)]) {
        let (plain, from) = rest.split_at(index);
        line.push_str(plain);
        let mut characters = from.chars();
        match characters.next() {
            Some('"') => line.push_str("\\\""),
            Some('\\') => line.push_str("\\\\"),
            Some('\n') => line.push_str("\\n"),
            Some(hidden) if is_deceptive(hidden) => push_units(line, hidden),
            visible => line.extend(visible),
        }
        rest = characters.as_str();
    }
    line.push_str(rest);
}

/// Appends a character as its UTF-16 code units, of which some have two.
fn push_units(line: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        line.push_str(&format!("\\u{unit:04x}"));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    pub(in crate::ops) struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        pub(in crate::ops) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("a lock").clone()).expect("UTF-8")
        }
    }

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
        memory.text().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
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

    #[test]
    fn milliseconds_have_at_most_three_decimals() {
        for (nanoseconds, expected) in
            [(0, "0"), (999, "0"), (67_537_320_999, "67537.32"), (67_537_321, "67.537")]
        {
            let ms = log_ms(Duration::from_nanos(nanoseconds));
            let lines = logged(|| tracing::info!(ms));
            assert_eq!(lines[0]["ms"].to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn no_duration_has_more_decimals(nanoseconds in 0..u64::MAX >> 10) {
            let ms = log_ms(Duration::from_nanos(nanoseconds));
            let text = zmij::Buffer::new().format_finite(ms).to_owned();
            let decimals = text.split('.').nth(1).unwrap_or_default();
            prop_assert!(decimals.len() <= 3, "{text}");
        }

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
