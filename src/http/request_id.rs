//! Request ids: the caller's own, or a new one that is unique among replicas.

use std::sync::atomic::{AtomicU64, Ordering};

use poem::http::{HeaderMap, HeaderValue};

use super::header_text::HeaderText;
use super::headers;

/// Chooses request ids. New ones are a random prefix of this replica and a serial number.
pub(crate) struct RequestIds {
    /// Ends in a dash.
    prefix: String,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        // Without randomness, ids are only unique within this replica.
        let prefix = getrandom::u64().unwrap_or_default();
        Self { prefix: format!("{prefix:016x}-"), next: AtomicU64::new(1) }
    }
}

impl RequestIds {
    /// The caller's own `X-Request-Id` if it is 1 to 64 of `[A-Za-z0-9._-]`, else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(headers::REQUEST_ID).filter(|id| is_request_id(id.as_bytes()));
        given.cloned().unwrap_or_else(|| self.new_id())
    }

    fn new_id(&self) -> HeaderValue {
        let mut text = HeaderText::default();
        text.text(&self.prefix).number(self.next.fetch_add(1, Ordering::Relaxed)).end();
        let [id] = text.values();
        id
    }
}

fn is_request_id(id: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    (1..=64).contains(&id.len()) && id.iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_of_callers_are_kept_only_if_well_formed() {
        let ids = RequestIds::default();
        let of = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(headers::REQUEST_ID, HeaderValue::from_bytes(given).expect("a value"));
            ids.of(&headers)
        };
        assert_eq!(of(b"a.B_c-9"), "a.B_c-9");
        assert_eq!(of(&[b'a'; 64]), "a".repeat(64));
        for malformed in [&b""[..], b"a b", b"a\"", b"\xc3\xa9", &[b'a'; 65]] {
            assert_ne!(of(malformed).as_bytes(), malformed);
            assert!(is_request_id(of(malformed).as_bytes()));
        }
    }
}
