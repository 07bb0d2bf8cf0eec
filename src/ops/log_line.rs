//! A line of the log as JSON: one flat object with time, level, the event's fields and its target.
//!
//! The line is written to one buffer and passed on whole. The formatter of `tracing-subscriber` costs
//! as much as the rest of a cached response: it serialises field by field through its writer.

use std::fmt::{self, Debug};

use jiff::fmt::temporal::DateTimePrinter;
use serde::{Serialize, Serializer};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::registry::Timestamp;

/// Initial capacity of a line, in bytes: more than the line of a request usually needs.
const LINE_CAPACITY: usize = 512;

const TIME: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

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
        _: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut line = Line(Vec::with_capacity(LINE_CAPACITY));
        line.0.extend(b"{\"timestamp\":\"");
        TIME.print_timestamp(&Timestamp::now(), &mut line.0).map_err(|_| fmt::Error)?;
        line.0.push(b'"');
        line.member("level", metadata.level().as_str());
        event.record(&mut line);
        line.member("target", metadata.target());
        line.0.extend(b"}\n");
        out.write_str(std::str::from_utf8(&line.0).map_err(|_| fmt::Error)?)
    }
}

/// An object whose members are the fields of an event.
struct Line(Vec<u8>);

impl Line {
    /// Adds a member. Names are part of the code, and contain nothing to escape.
    fn member(&mut self, name: &str, value: impl Serialize) {
        self.0.extend(b",\"");
        self.0.extend(name.as_bytes());
        self.0.extend(b"\":");
        // Writing to memory cannot fail.
        let _ = value.serialize(&mut serde_json::Serializer::new(&mut self.0));
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field.name(), value);
    }

    /// Writes 1.0 as 1; infinities and NaN, which JSON lacks, as null.
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.member(field.name(), value);
        if self.0.ends_with(b".0") {
            self.0.truncate(self.0.len() - 2);
        }
    }

    /// Called for messages, for `%` and `?`, and for every other type.
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.member(field.name(), DebugText(value));
    }
}

/// A value whose JSON is the text of its `Debug`.
struct DebugText<'a>(&'a dyn Debug);

impl Serialize for DebugText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", self.0))
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
