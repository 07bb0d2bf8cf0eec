//! Which node of a cluster has which keys.

use redis::{FromRedisValue, RedisResult, Value};

use super::answer::unexpected;

/// Slots of every cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: of what is between the first `{` and the next `}`, where that is anything.
pub(super) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty());
    crc16(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as the cluster's specification asks for.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// Host and port.
pub(super) type Address = (String, u16);

/// What one node knows of its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterReport {
    /// Grows with each change that the cluster agrees on.
    pub(super) epoch: u64,
    /// Whether it says that the cluster works.
    pub(super) works: bool,
    /// From the first slot to the last, and where their primary is.
    pub(super) ranges: Vec<(u16, u16, Address)>,
}

impl ClusterReport {
    /// Reads what a node answers to `CLUSTER INFO` and `CLUSTER SLOTS`; `asked` is the host that
    /// it was reached at, which is its own where it does not know better.
    pub(super) fn read(asked: &str, info: Value, slots: Value) -> RedisResult<Self> {
        let info = String::from_redis_value(info)?;
        let of = |name: &str| {
            let mut lines = info.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
        };
        let Value::Array(slots) = slots else { return Err(unexpected("no list of slots")) };
        let ranges: Option<Vec<_>> =
            slots.into_iter().map(|range| read_range(asked, range)).collect();
        Ok(Self {
            epoch: of("cluster_current_epoch").parse().unwrap_or(0),
            works: of("cluster_state") == "ok",
            ranges: ranges.ok_or_else(|| unexpected("no range of slots"))?,
        })
    }

    /// Whether this tells more than `other` does.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        (self.works, self.epoch) > (other.works, other.epoch)
    }
}

/// `[first, last, [host, port, ...], replicas...]`
fn read_range(asked: &str, range: Value) -> Option<(u16, u16, Address)> {
    let Value::Array(parts) = range else { return None };
    let mut parts = parts.into_iter();
    let (first, last, primary) = (number(&parts.next()?)?, number(&parts.next()?)?, parts.next()?);
    let Value::Array(primary) = primary else { return None };
    let host = match primary.first()? {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let host = if matches!(host, "" | "?") { asked } else { host };
    let address = (host.to_owned(), number(primary.get(1)?)?);
    (first <= last && last < SLOTS).then_some((first, last, address))
}

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
        assert_eq!(slot("{}foo"), crc16(b"{}foo") % SLOTS, "an empty tag is none");
        assert_eq!(slot("{foo"), crc16(b"{foo") % SLOTS, "nor is half a tag");
    }

    #[test]
    fn maps_are_read_and_nonsense_is_refused() {
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
            let map = ClusterReport::read("asked", info(), Value::Array(vec![range(host)]))
                .expect("a map");
            assert_eq!((map.epoch, map.works), (7, true));
            assert_eq!(map.ranges, [(0, 16_383, (expected.to_owned(), 7000))]);
        }
        for nonsense in [Value::Nil, Value::Array(vec![Value::Int(1)]), Value::Okay] {
            assert!(ClusterReport::read("asked", info(), nonsense).is_err());
        }
    }
}
