//! Pages with a few values filled in. All responses share the text: a response that waits for a slow
//! client holds only its values.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};

/// A text with placeholders: names in double braces.
pub(crate) struct Template(Vec<Part>);

enum Part {
    Text(Bytes),
    Value(&'static str),
}

impl Template {
    /// Parses a text. A brace pair that is not closed is text.
    pub(crate) fn new(mut rest: &'static str) -> Self {
        let mut parts = Vec::new();
        while let Some((text, after)) = rest.split_once("{{")
            && let Some((name, after)) = after.split_once("}}")
        {
            parts.extend([Part::Text(Bytes::from_static(text.as_bytes())), Part::Value(name)]);
            rest = after;
        }
        parts.push(Part::Text(Bytes::from_static(rest.as_bytes())));
        Self(parts)
    }

    /// The text with a value in place of each name.
    pub(crate) fn filled(&self, value: impl Fn(&str) -> Bytes) -> Parts {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Value(name) => value(name),
        });
        Parts(parts.filter(|part| !part.is_empty()).collect())
    }
}

/// A text in parts.
pub(crate) struct Parts(VecDeque<Bytes>);

impl Parts {
    pub(crate) fn into_body(self) -> poem::Body {
        poem::Body::from(self.map_err(io::Error::other).boxed())
    }

    #[cfg(test)]
    pub(crate) fn to_text(&self) -> String {
        self.0.iter().map(|part| String::from_utf8_lossy(part)).collect()
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &'static str) -> String {
        Template::new(text).filled(|name| Bytes::from(format!("<{name}>"))).to_text()
    }

    #[test]
    fn names_in_double_braces_are_replaced() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("{{a}}", "<a>"),
            ("x{{a}}{{b}} y {{a}}z", "x<a><b> y <a>z"),
            ("{a} {{b", "{a} {{b"),
        ] {
            assert_eq!(filled(text), expected);
        }
    }

    #[tokio::test]
    async fn the_body_is_the_text_and_says_its_length() {
        let parts = Template::new("x{{a}}y{{b}}").filled(|name| Bytes::from(name.to_owned()));
        assert_eq!(parts.size_hint().exact(), Some(4));
        assert_eq!(parts.into_body().into_string().await.expect("a text"), "xayb");
    }
}
