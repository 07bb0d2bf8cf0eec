//! Parses the `traceparent` header of W3C Trace Context, so that logs and spans join the caller's trace.
//! <https://www.w3.org/TR/trace-context/>

use std::fmt;

use data_encoding::HEXLOWER;
use poem::http::{HeaderMap, HeaderName};

const HEADER: HeaderName = HeaderName::from_static("traceparent");

/// Length of version, trace, parent and flags, separated by dashes.
const LENGTH: usize = 55;

/// The identifier of a trace; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(pub [u8; 16]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

/// The caller's trace and span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The caller's span; never zero.
    pub parent: [u8; 8],
    /// Whether the caller records it.
    pub sampled: bool,
}

impl TraceContext {
    /// The context of a request; `None` unless the header occurs once and is well-formed.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        // Most requests have none, and to look for one costs less than for all.
        let one = headers.get(HEADER)?;
        let is_single = headers.get_all(HEADER).iter().nth(1).is_none();
        if is_single { Self::parse(one.as_bytes()) } else { None }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LENGTH)?;
        let version = bytes::<1>(&known[..2])?[0];
        // Later versions may append another dash and more fields.
        let has_known_form = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        if !has_known_form || [2, 35, 52].iter().any(|index| known[*index] != b'-') {
            return None;
        }
        let (trace, parent) = (bytes::<16>(&known[3..35])?, bytes::<8>(&known[36..52])?);
        let flags = bytes::<1>(&known[53..])?[0];
        let is_valid = trace != [0; 16] && parent != [0; 8];
        is_valid.then_some(Self { trace: TraceId(trace), parent, sampled: flags & 1 == 1 })
    }
}

/// The `N` bytes at the beginning of these lower-case hexadecimal digits.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    HEXLOWER.decode_mut(digits.get(..2 * N)?, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn trace_parent_and_flag_are_parsed() {
        let context = TraceContext::parse(GOOD.as_bytes()).expect("a context");
        assert_eq!(context.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(context.sampled);
        let not_sampled = GOOD.replace("-01", "-02");
        assert!(!TraceContext::parse(not_sampled.as_bytes()).expect("a context").sampled);
        let later = format!("01{}-more", &GOOD[2..]);
        assert_eq!(TraceContext::parse(later.as_bytes()), Some(context));
    }

    #[test]
    fn malformed_headers_are_ignored() {
        let wrong = [
            String::new(),
            GOOD[..54].to_owned(),
            format!("{GOOD}0"),
            format!("{GOOD}-more"),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            format!("ff{}", &GOOD[2..]),
            GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            format!("01{}x", &GOOD[2..]),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text}");
        }
        let mut twice = HeaderMap::new();
        twice.append(HEADER, HeaderValue::from_static(GOOD));
        assert!(TraceContext::of(&twice).is_some());
        twice.append(HEADER, HeaderValue::from_static(GOOD));
        assert_eq!(TraceContext::of(&twice), None);
    }
}
