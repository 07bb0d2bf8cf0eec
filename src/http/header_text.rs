//! Header values that are built for each response, without allocating for each.

use std::sync::LazyLock;

use bytes::Bytes;
use poem::http::HeaderValue;

/// Builds several short values of visible ASCII in one buffer on the stack, so that all of them
/// take a single allocation. `format!` would cost more than everything else about a header, and
/// each response has a dozen (measured, docs/performance.md).
pub(crate) struct HeaderText {
    bytes: [u8; Self::MAX_BYTES],
    length: usize,
    ends: [usize; Self::MAX_VALUES],
    values: usize,
}

impl Default for HeaderText {
    fn default() -> Self {
        let (bytes, ends) = ([0; Self::MAX_BYTES], [0; Self::MAX_VALUES]);
        Self { bytes, length: 0, ends, values: 0 }
    }
}

impl HeaderText {
    /// More than the values of any response take together; anything beyond would be left out.
    const MAX_BYTES: usize = 256;
    const MAX_VALUES: usize = 8;

    /// Appends a text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let end = self.length + text.len();
        debug_assert!(end <= Self::MAX_BYTES, "{text:?}");
        if let Some(target) = self.bytes.get_mut(self.length..end) {
            target.copy_from_slice(text.as_bytes());
            self.length = end;
        }
        self
    }

    /// Appends a decimal number.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// Ends a value; the next text begins another.
    pub(crate) fn end(&mut self) {
        debug_assert!(self.values < Self::MAX_VALUES);
        if let Some(end) = self.ends.get_mut(self.values) {
            *end = self.length;
            self.values += 1;
        }
    }

    /// Replaces these header values by the built ones, in order.
    pub(crate) fn fill<'a>(&self, targets: impl Iterator<Item = &'a mut HeaderValue>) {
        let mut rest = Bytes::copy_from_slice(&self.bytes[..self.length]);
        let mut start = 0;
        for (target, end) in targets.zip(&self.ends[..self.values]) {
            *target = visible(rest.split_to(end - start));
            start = *end;
        }
    }

    /// The values, of which there must be `N`.
    pub(crate) fn values<const N: usize>(&self) -> [HeaderValue; N] {
        debug_assert_eq!(self.values, N);
        let mut values = [const { HeaderValue::from_static("") }; N];
        self.fill(values.iter_mut());
        values
    }
}

/// A number as a value. Most are seconds within a minute, whose values are built once.
pub(crate) fn number(number: u64) -> HeaderValue {
    static PREBUILT: LazyLock<[HeaderValue; 64]> =
        LazyLock::new(|| std::array::from_fn(HeaderValue::from));
    let prebuilt = usize::try_from(number).ok().and_then(|index| PREBUILT.get(index));
    prebuilt.cloned().unwrap_or_else(|| number.into())
}

/// A value of visible ASCII; empty if the text is anything else.
fn visible(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_where_they_end() {
        let mut text = HeaderText::default();
        text.text("a=").number(0).text(";b=").number(u64::MAX).end();
        text.end();
        text.text("c").end();
        let [first, empty, last] = text.values();
        assert_eq!(first, format!("a=0;b={}", u64::MAX));
        assert_eq!((empty.as_bytes(), last.as_bytes()), (&b""[..], &b"c"[..]));
    }
}
