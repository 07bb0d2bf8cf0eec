//! The slots of a cluster: which slot a key belongs to, and which node has which slots.

use std::collections::BTreeSet;

use redis::{FromRedisValue, RedisResult, Value};

use super::failure::unexpected;

/// How many slots every cluster has.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: of its hash tag between the first `{` and the next `}` if that is not empty,
/// else of the whole key.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the specification of Redis Cluster defines it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Host and port.
pub(super) type Address = (String, u16);

/// What one node reports about its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterReport {
    /// The version of the configuration that the cluster agreed on; the newest is the highest.
    pub(super) epoch: u64,
    /// Whether the node reports `cluster_state:ok`.
    pub(super) is_ok: bool,
    /// The first slot, the last slot and the address of their primary.
    pub(super) ranges: Vec<(u16, u16, Address)>,
}

impl ClusterReport {
    /// Reads a node's replies to `CLUSTER INFO` and `CLUSTER SLOTS`. `own_host` is the host that
    /// the node was reached at; it replaces hosts that the node does not report.
    pub(super) fn read(own_host: &str, info: Value, slots: Value) -> RedisResult<Self> {
        let info = String::from_redis_value(info)?;
        let field = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
        };
        let Value::Array(slots) = slots else {
            return Err(unexpected("expected a list of slot ranges"));
        };
        let ranges: Option<Vec<_>> =
            slots.iter().map(|range| read_range(own_host, range)).collect();
        Ok(Self {
            epoch: field("cluster_current_epoch").parse().unwrap_or(0),
            is_ok: field("cluster_state") == "ok",
            ranges: ranges.ok_or_else(|| unexpected("expected a slot range"))?,
        })
    }

    /// The addresses of the primaries.
    pub(super) fn primaries(&self) -> BTreeSet<&Address> {
        self.ranges.iter().map(|(.., address)| address).collect()
    }

    /// Whether this report is preferred to `other`: a working cluster first, then the newest.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        (self.is_ok, self.epoch) > (other.is_ok, other.epoch)
    }
}

/// `[first, last, [host, port, ...], replicas...]`
fn read_range(own_host: &str, range: &Value) -> Option<(u16, u16, Address)> {
    let [first, last, Value::Array(primary), ..] = range.as_sequence()? else { return None };
    let [host, port, ..] = &primary[..] else { return None };
    let host = Option::<String>::from_redis_value_ref(host).ok()?;
    let host =
        host.filter(|host| !matches!(&**host, "" | "?")).unwrap_or_else(|| own_host.to_owned());
    let (first, last, port) = (number(first)?, number(last)?, number(port)?);
    (first <= last && last < SLOTS).then_some((first, last, (host, port)))
}

/// Unlike the library's conversion, refuses numbers that do not fit.
fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        for (key, expected) in [
            ("", 0),
            ("foo", 12_182),
            ("{foo}.bar", 12_182),
            ("x{foo}{bar}", 12_182),
            ("bar", 5_061),
        ] {
            assert_eq!(slot(key), expected, "{key}");
        }
        assert_eq!(slot("{}foo"), crc16(b"{}foo") % SLOTS, "an empty tag does not count");
        assert_eq!(slot("{foo"), crc16(b"{foo") % SLOTS, "a tag without an end does not count");
    }

    #[test]
    fn reports_are_read_and_malformed_ones_are_errors() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |host| {
            let primary = Value::Array(vec![host, Value::Int(7000), text("id")]);
            Value::Array(vec![Value::Int(0), Value::Int(16_383), primary])
        };
        let info = || {
            text(
                "cluster_state:ok
cluster_current_epoch:7
",
            )
        };
        for (host, expected) in
            [(text("10.0.0.1"), "10.0.0.1"), (Value::Nil, "asked"), (text("?"), "asked")]
        {
            let report = ClusterReport::read("asked", info(), Value::Array(vec![range(host)]))
                .expect("a report");
            assert_eq!((report.epoch, report.is_ok), (7, true));
            assert_eq!(report.ranges, [(0, 16_383, (expected.to_owned(), 7000))]);
        }
        for nonsense in [Value::Nil, Value::Array(vec![Value::Int(1)]), Value::Okay] {
            assert!(ClusterReport::read("asked", info(), nonsense).is_err());
        }
    }
}
