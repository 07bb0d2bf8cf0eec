//! The key of an entry in Redis: the request in canonical form. (The local cache uses the
//! [`Request`] itself.)
//!
//! Different requests have different keys: every part before the domain is from a fixed
//! vocabulary without colons, and the domain comes last.

use crate::registry::Request;

/// A request as a part of a Redis key.
pub(super) fn canonical_text(request: &Request) -> String {
    match request {
        Request::Search(search) => {
            let fidelity = search.filter.fidelity.map_or("any", |fidelity| fidelity.as_str());
            let (sort, page) = (search.sort.as_str(), search.page);
            let domain = search.filter.domain.as_ref().map(|domain| format!(":{domain}"));
            let (limit, offset, domain) = (page.limit(), page.offset(), domain.unwrap_or_default());
            format!("genes:{fidelity}:{sort}:{limit}:{offset}{domain}")
        }
        Request::Phenotype(id) => format!("phenotype:{id}"),
        Request::Insights(domain) => format!("insights:{domain}"),
        Request::Numbers => "numbers".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::registry::{
        DomainName, Fidelity, GeneFilter, GeneSearch, Page, PageLimit, PageOffset, Sort,
    };

    /// Domains that look like other parts of a key.
    fn domain() -> impl Strategy<Value = DomainName> {
        let hostile = prop_oneof![
            Just("any:fitness:20:0".to_owned()),
            Just(":".to_owned()),
            Just("genes:any:fitness:20:0".to_owned()),
            "[:a-c0-2%*\u{1F9EC} ]{1,8}",
        ];
        hostile.prop_map(|text| text.parse().expect("a domain"))
    }

    fn request() -> impl Strategy<Value = Request> {
        let search = (
            prop::option::of(domain()),
            prop::option::of(prop::sample::select(Fidelity::ALL.to_vec())),
            prop::sample::select(Sort::ALL.to_vec()),
            (1..=3_u64, 0..=12_u64),
        )
            .prop_map(|(domain, fidelity, sort, (limit, offset))| {
                let page = Page::new(
                    PageLimit::new(limit).expect("a limit"),
                    PageOffset::new(offset).expect("an offset"),
                );
                Request::Search(GeneSearch { filter: GeneFilter { domain, fidelity }, sort, page })
            });
        let phenotype =
            (0..4_u128).prop_map(|id| Request::Phenotype(uuid::Uuid::from_u128(id).into()));
        prop_oneof![search, phenotype, domain().prop_map(Request::Insights), Just(Request::Numbers)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn keys_are_equal_exactly_when_requests_are(a in request(), b in request()) {
            let equal_keys = canonical_text(&a) == canonical_text(&b);
            prop_assert_eq!(equal_keys, a == b);
        }
    }
}
