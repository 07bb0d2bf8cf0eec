//! The key of an entry in Redis: the request in canonical form. (The local cache uses the
//! [`Request`] itself.)
//!
//! Different requests have different keys: every part before the domain is from a fixed
//! vocabulary without colons, and the domain comes last.

use crate::registry::{GeneFilter, GeneSearch, Request};

/// A request as a part of a Redis key.
pub(super) fn canonical_text(request: &Request) -> String {
    match request {
        Request::Search(GeneSearch { filter, sort, page }) => {
            let (fidelity, domain) = filter_texts(filter);
            let (sort, limit, offset) = (sort.as_str(), page.limit(), page.offset());
            format!("genes:{fidelity}:{sort}:{limit}:{offset}{domain}")
        }
        Request::Phenotype(id) => format!("phenotype:{id}"),
        Request::Insights(domain) => format!("insights:{domain}"),
        Request::Numbers => "numbers".to_owned(),
        Request::Counts(filter) => {
            let (fidelity, domain) = filter_texts(filter);
            format!("counts:{fidelity}{domain}")
        }
    }
}

/// The fidelity, and the domain after a colon.
fn filter_texts(filter: &GeneFilter) -> (&str, String) {
    let fidelity = filter.fidelity.map_or("any", |fidelity| fidelity.as_str());
    let domain = filter.domain.as_ref().map(|domain| format!(":{domain}"));
    (fidelity, domain.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::registry::{DomainName, Fidelity, Page, PageLimit, PageOffset, Sort};

    /// Domains that look like other parts of a key.
    fn domain() -> impl Strategy<Value = DomainName> {
        let hostile = prop_oneof![
            Just("any:fitness:20:0".to_owned()),
            Just(":".to_owned()),
            Just("genes:any:fitness:20:0".to_owned()),
            Just("counts:any".to_owned()),
            "[:a-c0-2%*\u{1F9EC} ]{1,8}",
        ];
        hostile.prop_map(|text| text.parse().expect("a domain"))
    }

    fn filter() -> impl Strategy<Value = GeneFilter> {
        let fidelity = prop::option::of(prop::sample::select(Fidelity::ALL.to_vec()));
        (prop::option::of(domain()), fidelity)
            .prop_map(|(domain, fidelity)| GeneFilter { domain, fidelity })
    }

    fn request() -> impl Strategy<Value = Request> {
        let page = (1..=3_u64, 0..=12_u64).prop_map(|(limit, offset)| {
            Page::new(
                PageLimit::new(limit).expect("a limit"),
                PageOffset::new(offset).expect("an offset"),
            )
        });
        let search = (filter(), prop::sample::select(Sort::ALL.to_vec()), page)
            .prop_map(|(filter, sort, page)| Request::Search(GeneSearch { filter, sort, page }));
        prop_oneof![
            search,
            (0..4_u128).prop_map(|id| Request::Phenotype(uuid::Uuid::from_u128(id).into())),
            domain().prop_map(Request::Insights),
            Just(Request::Numbers),
            filter().prop_map(Request::Counts),
        ]
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
