//! Random paths, ids and domains: the service's memory stays bounded.

use futures_util::{StreamExt, stream};

use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::random_hex;
use crate::support::replica::{READER, sample};

/// Requests before the measurement begins: bounded caches are full by then.
const WARM_UP_REQUESTS: usize = 12_000;
const REQUESTS: usize = 20_000;
const CONCURRENCY: usize = 8;

/// Allowed growth, for allocators keep freed memory.
const MAX_GROWTH: u64 = 24 << 20;

fn made_up(n: usize) -> String {
    let hex = random_hex(16);
    match n % 6 {
        0 => format!("/genes/{hex}/phenotype"),
        1 => format!("/{hex}"),
        2 => format!("/genes?domain={hex}"),
        3 => format!("/arena/insights?domain={hex}"),
        _ => {
            let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
            format!("/genes/{a}-{b}-{c}-{d}-{e}/phenotype")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_random_paths_and_ids_leave_no_series_and_no_memory_behind() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let url = database.url_as(READER);
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &url),
        ("GENE_REGISTRY__CACHE__LOCAL_MAX_BYTES", "1000000"),
        // A cached 404 expires late here, so that the cache's bound is what keeps memory flat.
        ("GENE_REGISTRY__CACHE__NOT_FOUND_S", "3600"),
        ("GENE_REGISTRY__SHED__WAIT_MS", "1900"),
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
    ])
    .await;
    let replica = &process.replica;
    let send_requests = async |requests: usize| {
        let sent = stream::iter(0..requests).map(|n| {
            let key = &key;
            async move {
                let key = Some(key.as_str()).filter(|_| n % 12 != 1);
                let response = replica.get(&made_up(n), key).await;
                assert!([200, 400, 401, 404].contains(&response.status.as_u16()), "{response:?}");
            }
        });
        sent.buffer_unordered(CONCURRENCY).for_each(|()| async {}).await;
        let metrics = replica.ops("/metrics").await.text;
        (metrics.lines().filter(|line| !line.starts_with('#')).count(), process.memory())
    };

    let (series, memory) = send_requests(WARM_UP_REQUESTS).await;
    let (series_after, memory_after) = send_requests(REQUESTS).await;

    assert_eq!(series_after, series);
    assert!(memory_after < memory + MAX_GROWTH, "{memory} {memory_after}");
}
