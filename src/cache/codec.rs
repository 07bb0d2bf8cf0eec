//! Encodes entries as bytes for Redis.
//!
//! `[format: 1][crc32: 4][transactions, 16 hex digits][read_at, µs, 16 hex digits][entity tag: 16]
//! [length of snapshot: 4][snapshot][length of link: 4][link][body]`, integers big-endian. The
//! checksum covers the key and everything after it: an entry that is truncated, corrupted or stored
//! under another key is a miss. The number of transactions that the entry may show is text of fixed
//! length, so that a script can compare it.

use bytes::Bytes;
use poem::http::HeaderValue;

use super::entry::{Entry, ResponseBody};
use crate::registry::{Request, Timestamp};
use crate::upstream::ReadStamp;

/// The version of this encoding. It is part of the key, so that releases can run side by side.
pub(crate) const FORMAT: u8 = 3;

const HEAD: usize = 1 + 4;

/// The bytes of the two numbers that tell one read from another.
pub(super) const VERSION: std::ops::Range<usize> = HEAD..HEAD + 32;

/// The number of transactions that a read saw, as text whose order is the order of the numbers.
pub(super) fn transactions(seen: &ReadStamp) -> String {
    format!("{:016x}", seen.transactions())
}

/// The snapshot of a read as text; empty if it has none.
pub(super) fn snapshot_text(seen: &ReadStamp) -> String {
    seen.snapshot.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// The text in [`VERSION`]: the number of transactions that a read may show, and its time from 1970
/// on.
pub(super) fn version(seen: &ReadStamp) -> String {
    let micros = u64::try_from(seen.read_at.as_microsecond()).unwrap_or(0);
    format!("{:016x}{micros:016x}", seen.shown_transactions)
}

pub(crate) fn encode(key: &str, entry: &Entry) -> Vec<u8> {
    let snapshot = snapshot_text(&entry.seen);
    let mut bytes = Vec::with_capacity(HEAD + 56 + snapshot.len() + entry.body.len() + 64);
    bytes.extend([0; HEAD]);
    bytes.extend(version(&entry.seen).as_bytes());
    bytes.extend(entry.etag_bytes);
    put_text(&mut bytes, snapshot.as_bytes());
    put_text(&mut bytes, entry.link.as_bytes());
    bytes.extend(&entry.body);
    let sum = checksum(key, &bytes[HEAD..]);
    bytes[0] = FORMAT;
    bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Decodes an entry; `None` if the bytes are not an entry of this format for this key.
pub(crate) fn decode(key: &str, request: &Request, bytes: &Bytes) -> Option<Entry> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    if head[0] != FORMAT || head[1..] != checksum(key, rest).to_be_bytes() {
        return None;
    }
    let (version, rest) = rest.split_at_checked(VERSION.len())?;
    let (etag_bytes, rest) = rest.split_first_chunk::<16>()?;
    let (snapshot, rest) = take_text(rest)?;
    let (link, body) = take_text(rest)?;
    let body = bytes.slice(bytes.len() - body.len()..);
    let response = ResponseBody { body, link: HeaderValue::from_str(link).ok()? };
    Some(Entry::from_parts(request, response, stamp(version, snapshot)?, *etag_bytes))
}

/// Parses a stamp from what [`version`] and [`snapshot_text`] wrote.
pub(super) fn stamp(version: &[u8], snapshot: &str) -> Option<ReadStamp> {
    let (shown_transactions, read_at) = version.split_at_checked(VERSION.len() / 2)?;
    let micros = i64::try_from(number(read_at)?).ok()?;
    let read_at = Timestamp::from_microsecond(micros).ok()?;
    let snapshot = Some(snapshot).filter(|text| !text.is_empty());
    let mut seen = ReadStamp::new(read_at, snapshot.map(str::parse).transpose().ok()?);
    seen.shown_transactions = number(shown_transactions)?;
    Some(seen)
}

fn number(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u32).to_be_bytes());
    bytes.extend(text);
}

fn take_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn checksum(key: &str, rest: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(rest);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> Request {
        Request::Phenotype(uuid::Uuid::nil().into())
    }

    fn entry() -> impl Strategy<Value = Entry> {
        let body = prop::collection::vec(any::<u8>(), 0..200);
        let snapshot = prop::option::of(Just("10:20:10,14"));
        (body, "[ -~]{0,20}", any::<u32>(), snapshot).prop_map(|(body, link, second, snapshot)| {
            let response = ResponseBody {
                body: body.into(),
                link: HeaderValue::from_str(&link).expect("visible"),
            };
            let read_at = Timestamp::from_second(i64::from(second)).expect("a time");
            let snapshot = snapshot.map(|text| text.parse().expect("a snapshot"));
            Entry::new(&request(), response, ReadStamp::new(read_at, snapshot))
        })
    }

    #[test]
    fn what_a_standby_may_show_is_restored() {
        let snapshot = Some("10:20:10,14".parse().expect("a snapshot"));
        let mut seen = ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot);
        seen.shown_transactions += 7;
        let back = stamp(version(&seen).as_bytes(), &snapshot_text(&seen)).expect("a stamp");
        assert_eq!(back.shown_transactions, seen.shown_transactions);
        assert_eq!(back, seen);
    }

    fn is_undecodable(key: &str, bytes: impl Into<Bytes>) -> bool {
        decode(key, &request(), &bytes.into()).is_none()
    }

    proptest! {
        #[test]
        fn decoding_restores_what_was_encoded(entry in entry(), key: String) {
            let bytes = Bytes::from(encode(&key, &entry));
            let back = decode(&key, &request(), &bytes).expect("an entry");
            prop_assert_eq!((&back.body, &back.link), (&entry.body, &entry.link));
            prop_assert_eq!(&back.seen, &entry.seen);
            prop_assert_eq!(back.etag_bytes, entry.etag_bytes);
            prop_assert_eq!(back.ttl_jitter, entry.ttl_jitter);
        }

        #[test]
        fn corruption_truncation_and_another_key_are_detected(
            entry in entry(),
            index: prop::sample::Index,
            change in 1..=255_u8,
        ) {
            let bytes = encode("a", &entry);
            prop_assert!(is_undecodable("b", bytes.clone()));
            let index = index.index(bytes.len());
            prop_assert!(is_undecodable("a", bytes[..index].to_vec()));
            let mut changed = bytes;
            changed[index] ^= change;
            prop_assert!(is_undecodable("a", changed));
        }

        #[test]
        fn arbitrary_bytes_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(is_undecodable("a", bytes));
        }

        #[test]
        fn text_keeps_the_order_of_transactions(a: u32, b: u32) {
            let text = |xmax: u32| {
                let snapshot = format!("{xmax}:{xmax}:").parse().expect("a snapshot");
                transactions(&ReadStamp::new(Timestamp::UNIX_EPOCH, Some(snapshot)))
            };
            prop_assert_eq!(a.cmp(&b), text(a).cmp(&text(b)));
        }
    }
}
