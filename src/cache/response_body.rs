//! Serialises values to finished response bodies.

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::registry::{Count, GenePage, GeneSearch, GeneSummary, Page, PageOffset, Sort};

/// A response body, and the one header that depends on the same values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseBody {
    /// The JSON.
    pub body: Bytes,
    /// The value of the `Link` header; empty if the response has none.
    pub link: Bytes,
}

impl ResponseBody {
    /// A page, with links to the next and the previous page.
    pub fn page(search: &GeneSearch, data: Vec<GeneSummary>, total: Count) -> Self {
        let (limit, offset) = (search.page.limit(), search.page.offset());
        let link = exact(links(search, total.get()).into());
        Self { body: json(&GenePage { data, total, limit, offset }), link }
    }

    /// Any other value, without links.
    pub fn of(value: &impl Serialize) -> Self {
        Self { body: json(value), link: Bytes::new() }
    }
}

fn json(value: &impl Serialize) -> Bytes {
    // The values of the domain have string keys and finite numbers only, so this cannot fail.
    exact(serde_json::to_vec(value).unwrap_or_default())
}

/// The bytes without spare capacity, since a cache keeps them.
pub(super) fn exact(bytes: Vec<u8>) -> Bytes {
    bytes.into_boxed_slice().into()
}

/// `next` and `prev` (RFC 8288) as query-only references, which are valid behind any proxy and
/// under any path.
fn links(search: &GeneSearch, total: u64) -> String {
    let (limit, offset) = (u64::from(search.page.limit()), u64::from(search.page.offset()));
    let next = Some(offset + limit).filter(|next| *next < total);
    let prev = Some(offset.saturating_sub(limit)).filter(|_| offset > 0);
    [(next, "next"), (prev, "prev")]
        .into_iter()
        .filter_map(|(offset, rel)| {
            let page = search.page.with_offset(PageOffset::new(offset?)?);
            Some(format!("<?{}>; rel=\"{rel}\"", query(search, page)))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Everything but `-._~`, letters and digits.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn query(search: &GeneSearch, page: Page) -> String {
    let mut query = String::new();
    if let Some(domain) = &search.filter.domain {
        query.push_str(&format!("domain={}&", utf8_percent_encode(domain.as_str(), VALUE)));
    }
    if let Some(fidelity) = search.filter.fidelity {
        query.push_str(&format!("fidelity={}&", fidelity.as_str()));
    }
    if search.sort != Sort::default() {
        query.push_str(&format!("sort={}&", search.sort.as_str()));
    }
    query.push_str(&format!("limit={}&offset={}", page.limit(), page.offset()));
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Fidelity, GeneFilter, PageLimit};

    fn search(limit: u64, offset: u64) -> GeneSearch {
        let page = Page::new(
            PageLimit::new(limit).expect("a limit"),
            PageOffset::new(offset).expect("an offset"),
        );
        GeneSearch { page, ..GeneSearch::default() }
    }

    #[test]
    fn links_point_to_the_next_and_previous_page() {
        assert_eq!(links(&search(20, 0), 20), "");
        assert_eq!(links(&search(20, 0), 21), r#"<?limit=20&offset=20>; rel="next""#);
        assert_eq!(
            links(&search(20, 30), 99),
            r#"<?limit=20&offset=50>; rel="next", <?limit=20&offset=10>; rel="prev""#
        );
        assert_eq!(links(&search(20, 7), 7), r#"<?limit=20&offset=0>; rel="prev""#);
    }

    #[test]
    fn no_link_exceeds_the_maximum_offset() {
        let last = search(50, PageOffset::MAX.into());
        assert_eq!(links(&last, u64::MAX), r#"<?limit=50&offset=2147483597>; rel="prev""#);
    }

    #[test]
    fn links_carry_the_filters_and_escape_them() {
        let filter = GeneFilter {
            domain: Some("a&b=\u{1F9EC} >\"".parse().expect("a domain")),
            fidelity: Some(Fidelity::Native),
        };
        let search = GeneSearch { filter, sort: Sort::Downloads, ..search(1, 0) };
        assert_eq!(
            links(&search, 2),
            "<?domain=a%26b%3D%F0%9F%A7%AC%20%3E%22&fidelity=Native&sort=downloads&limit=1&offset=1>; rel=\"next\""
        );
    }
}
