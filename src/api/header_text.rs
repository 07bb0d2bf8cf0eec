//! Values of header fields that are put together for each answer.

use std::sync::LazyLock;

use bytes::Bytes;
use poem::http::HeaderValue;

/// Short values of visible ASCII, put together on the stack one behind the other: all of them then
/// take one allocation. By hand, for the formatting machinery costs more than all of the rest of a
/// header, and each answer has a dozen.
pub(super) struct HeaderText {
    bytes: [u8; Self::MOST_BYTES],
    length: usize,
    ends: [usize; Self::MOST_VALUES],
    values: usize,
}

impl Default for HeaderText {
    fn default() -> Self {
        let (bytes, ends) = ([0; Self::MOST_BYTES], [0; Self::MOST_VALUES]);
        Self { bytes, length: 0, ends, values: 0 }
    }
}

impl HeaderText {
    /// More than any answer's values together; what is beyond it would be left out.
    const MOST_BYTES: usize = 256;
    const MOST_VALUES: usize = 8;

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.add(text.as_bytes())
    }

    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.text(itoa::Buffer::new().format(number))
    }

    /// In lower case, without leading zeros.
    pub(super) fn hexadecimal(&mut self, number: u64) -> &mut Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let count = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1) as usize;
        let (mut digits, mut rest) = ([0; 16], number);
        for digit in digits[..count].iter_mut().rev() {
            *digit = DIGITS[(rest & 15) as usize];
            rest >>= 4;
        }
        self.add(&digits[..count])
    }

    fn add(&mut self, bytes: &[u8]) -> &mut Self {
        let end = self.length + bytes.len();
        debug_assert!(end <= Self::MOST_BYTES, "{bytes:?}");
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    /// A value ends here.
    pub(super) fn end(&mut self) {
        debug_assert!(self.values < Self::MOST_VALUES);
        if let Some(end) = self.ends.get_mut(self.values) {
            *end = self.length;
            self.values += 1;
        }
    }

    /// Puts the values into these places, in their order.
    pub(super) fn fill<'a>(&self, places: impl Iterator<Item = &'a mut HeaderValue>) {
        let mut rest = Bytes::copy_from_slice(&self.bytes[..self.length]);
        let mut begin = 0;
        for (place, end) in places.zip(&self.ends[..self.values]) {
            *place = visible(rest.split_to(end - begin));
            begin = *end;
        }
    }

    /// The `N` values.
    pub(super) fn values<const N: usize>(&self) -> [HeaderValue; N] {
        debug_assert_eq!(self.values, N);
        let mut values = [const { HeaderValue::from_static("") }; N];
        self.fill(values.iter_mut());
        values
    }
}

/// A number as a value; most are seconds of a minute, and ready.
pub(super) fn number(number: u64) -> HeaderValue {
    static READY: LazyLock<[HeaderValue; 64]> =
        LazyLock::new(|| std::array::from_fn(HeaderValue::from));
    let ready = usize::try_from(number).ok().and_then(|place| READY.get(place));
    ready.cloned().unwrap_or_else(|| number.into())
}

/// A value of visible ASCII; if it were not, it would be left out.
pub(super) fn visible(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_one_behind_the_other() {
        let mut text = HeaderText::default();
        text.text("a=").number(0).text(";b=").number(u64::MAX).end();
        text.end();
        text.hexadecimal(0).hexadecimal(0x10a).hexadecimal(u64::MAX).end();
        let [first, empty, last] = text.values();
        assert_eq!(first, format!("a=0;b={}", u64::MAX));
        assert_eq!((empty.as_bytes(), last.as_bytes()), (&b""[..], &b"010affffffffffffffff"[..]));
    }
}
