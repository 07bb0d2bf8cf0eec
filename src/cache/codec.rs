//! Entries as bytes in Redis.
//!
//! `[format: 1][crc32: 4][read_at, µs: 8][length of link: 4][link][body]`, integers big-endian.
//! The checksum covers the key and everything after it: an entry that was cut, mixed up or put
//! under another key is a miss.

use bytes::Bytes;
use thiserror::Error;

use super::entry::Entry;
use crate::registry::Timestamp;

/// The version of this encoding; also part of the key, so that releases live side by side.
pub(super) const FORMAT: u8 = 1;

const HEAD: usize = 1 + 4;
const FIXED: usize = HEAD + 8 + 4;

/// The bytes are no entry of this format for this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an entry of this format for this key")]
pub(super) struct Undecodable;

pub(super) fn encode(key: &str, entry: &Entry) -> Vec<u8> {
    let link = entry.link.as_bytes();
    let mut bytes = Vec::with_capacity(FIXED + link.len() + entry.body.len());
    bytes.extend([0; HEAD]);
    bytes.extend(entry.read_at.as_microsecond().to_be_bytes());
    bytes.extend((link.len() as u32).to_be_bytes());
    bytes.extend(link);
    bytes.extend(&entry.body);
    let sum = checksum(key, &bytes[HEAD..]);
    bytes[0] = FORMAT;
    bytes[1..HEAD].copy_from_slice(&sum.to_be_bytes());
    bytes
}

pub(super) fn decode(key: &str, bytes: &Bytes) -> Result<Entry, Undecodable> {
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Undecodable)?;
    let sum = checksum(key, rest).to_be_bytes();
    if head[0] != FORMAT || head[1..] != sum {
        return Err(Undecodable);
    }
    let (read_at, rest) = rest.split_first_chunk::<8>().ok_or(Undecodable)?;
    let (link_length, rest) = rest.split_first_chunk::<4>().ok_or(Undecodable)?;
    let link_length = u32::from_be_bytes(*link_length) as usize;
    let (link, _) = rest.split_at_checked(link_length).ok_or(Undecodable)?;
    let read_at = Timestamp::from_microsecond(i64::from_be_bytes(*read_at));
    Ok(Entry {
        body: bytes.slice(FIXED + link_length..),
        link: std::str::from_utf8(link).map_err(|_| Undecodable)?.into(),
        read_at: read_at.map_err(|_| Undecodable)?,
    })
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

    fn entry() -> impl Strategy<Value = Entry> {
        let body = prop::collection::vec(any::<u8>(), 0..200);
        (body, ".{0,20}", any::<i32>()).prop_map(|(body, link, second)| Entry {
            body: body.into(),
            link: link.into(),
            read_at: Timestamp::from_second(i64::from(second)).expect("a time"),
        })
    }

    proptest! {
        #[test]
        fn entries_come_back_as_they_were(entry in entry(), key: String) {
            let bytes = Bytes::from(encode(&key, &entry));
            prop_assert_eq!(decode(&key, &bytes), Ok(entry));
        }

        #[test]
        fn a_changed_byte_a_cut_and_another_key_are_noticed(
            entry in entry(),
            at: prop::sample::Index,
            change in 1..=255_u8,
        ) {
            let bytes = encode("a", &entry);
            prop_assert_eq!(decode("b", &bytes.clone().into()), Err(Undecodable));
            let at = at.index(bytes.len());
            prop_assert_eq!(decode("a", &bytes[..at].to_vec().into()), Err(Undecodable));
            let mut changed = bytes;
            changed[at] ^= change;
            prop_assert_eq!(decode("a", &changed.into()), Err(Undecodable));
        }

        #[test]
        fn rubbish_is_noticed(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decode("a", &bytes.into()), Err(Undecodable));
        }
    }
}
