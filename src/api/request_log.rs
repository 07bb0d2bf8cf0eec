//! What listeners say of requests in their logs: their ids and causes.

use std::sync::atomic::{AtomicU64, Ordering};

use poem::http::{HeaderMap, HeaderValue};

use super::header_text::HeaderText;
use super::headers;

pub(crate) use crate::ops::error_chain;

/// Identifiers of requests, unique among replicas: a random beginning and a number.
pub(crate) struct RequestIds {
    /// With the dash behind it.
    beginning: String,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        // Without randomness, ids are only unique within this replica.
        let beginning = getrandom::u64().unwrap_or_default();
        Self { beginning: format!("{beginning:016x}-"), next: AtomicU64::new(1) }
    }
}

impl RequestIds {
    /// The caller's own id where it has the right form, else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(headers::REQUEST_ID).filter(|id| is_request_id(id.as_bytes()));
        given.cloned().unwrap_or_else(|| self.new_id())
    }

    fn new_id(&self) -> HeaderValue {
        let mut text = HeaderText::default();
        text.text(&self.beginning);
        text.hexadecimal(self.next.fetch_add(1, Ordering::Relaxed)).end();
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
    fn request_ids_are_taken_over_only_in_the_right_form() {
        let ids = RequestIds::default();
        let of = |given: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(headers::REQUEST_ID, HeaderValue::from_bytes(given).expect("a value"));
            ids.of(&headers)
        };
        assert_eq!(of(b"a.B_c-9"), "a.B_c-9");
        assert_eq!(of(&[b'a'; 64]), "a".repeat(64));
        for wrong in [&b""[..], b"a b", b"a\"", b"\xc3\xa9", &[b'a'; 65]] {
            assert_ne!(of(wrong).as_bytes(), wrong);
            assert!(is_request_id(of(wrong).as_bytes()));
        }
    }
}
