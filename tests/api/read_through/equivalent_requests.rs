//! Equivalent requests share one entry and one read.

use super::{assert_ok, entry_keys, fleet_with_probe};
use crate::support::traffic::routes;

#[tokio::test(flavor = "multi_thread")]
async fn order_defaults_escapes_and_tracking_parameters_do_not_change_the_entry() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let phenotype = routes(&fleet.database).await[1].clone();
    let id = phenotype.split('/').nth(2).unwrap();
    let escaped = format!("%{:02X}{}", id.as_bytes()[0], &id[1..]);
    let spellings: [&[String]; 5] = [
        &[
            "/genes".into(),
            "/genes?".into(),
            "/genes?domain=".into(),
            "/genes?sort=fitness&limit=20&offset=0".into(),
            "/genes?offset=0&limit=20&sort=fitness".into(),
            "/genes?utm_source=mail&fbclid=1&_=1699&domain=&limit=20".into(),
            "/genes?so%72t=fitness".into(),
        ],
        &[
            "/genes?domain=search&fidelity=Wrapped&limit=7".into(),
            "/genes?limit=7&fidelity=Wrapped&domain=search".into(),
            "/genes?limit=7&offset=0&fidelity=%57rapped&domain=s%65arch&sort=fitness".into(),
            "/genes?%64omain=search&limit=7&gclid=x&fidelity=Wrapped".into(),
            "/genes?domain=search&fidelity=Wrapped&limit=%37&x=%00&domains=other".into(),
        ],
        &[
            "/genes?domain=a%20b%3A".into(),
            "/genes?domain=a+b:".into(),
            "/genes?domain=a%20b:".into(),
        ],
        &[
            phenotype.clone(),
            phenotype.replace(id, &id.to_uppercase()),
            format!("{phenotype}?utm_campaign=x&id=other"),
            phenotype.replace(id, &escaped),
        ],
        &[
            "/arena/insights?domain=search".into(),
            "/arena/insights?domain=%73earch".into(),
            "/arena/insights?x=1&domain=search&limit=3".into(),
        ],
    ];
    for (round, spellings) in spellings.iter().enumerate() {
        let mut texts = Vec::new();
        for spelling in *spellings {
            for replica in &fleet.replicas {
                let response = replica.raw_get(spelling, &key).await;
                assert_ok(&response);
                texts.push(response.text);
            }
        }
        texts.dedup();
        assert_eq!(texts.len(), 1, "{spellings:?}");
        assert_eq!(probe.reads(), round + 1, "{spellings:?}");
        assert_eq!(entry_keys(&fleet).await.len(), round + 1, "{spellings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_differ_never_share_an_entry() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let paths = [
        "/genes?limit=1",
        "/genes?limit=1&offset=1",
        "/genes?limit=1&sort=downloads",
        "/genes?limit=1&sort=reputation",
        "/genes?limit=1&fidelity=Native",
        "/genes?limit=1&domain=search",
        "/genes?limit=1&domain=Search",
        "/genes?limit=1&domain=search%20",
        "/genes?limit=1&domain=any:fitness:1:0",
        "/genes?limit=1&domain=%7D%7B",
        "/genes?limit=1&domain=*",
        "/arena/insights?domain=search",
    ];
    for path in paths {
        assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    }
    assert_eq!(entry_keys(&fleet).await.len(), paths.len());
    // A page past a known end is not read.
    assert!(probe.reads() <= paths.len());
}
