//! The parts of a local hit one by one, and the whole of it in process.
//!
//!     cargo bench -p gene-registry-bench

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use gene_registry::cache::ReadThrough;
use gene_registry::keys::{ApiKey, Authenticator};
use gene_registry::limit::Limiter;
use gene_registry::net::RequestSource;
use gene_registry::ops::Metrics;
use gene_registry::registry::{DomainName, GeneFilter, GeneSearch, KeyHash, KeyId, Request};
use gene_registry::server::Handler;
use gene_registry::upstream::ChangePoller;
use moka::sync::Cache;
use support::KEY;
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn search() -> Request {
    let domain: DomainName = "bench.large".parse().expect("a domain");
    let filter = GeneFilter { domain: Some(domain), fidelity: None };
    Request::Search(GeneSearch { filter, ..GeneSearch::default() })
}

fn key() -> ApiKey {
    KEY.parse().expect("a key")
}

/// From the header's text to the hash that identifies the record.
fn keys(c: &mut Criterion) {
    c.bench_function("key: form and check", |b| b.iter(|| black_box(KEY).parse::<ApiKey>()));
    let key = key();
    c.bench_function("key: SHA-256", |b| b.iter(|| black_box(&key).hash()));
    let runtime = runtime();
    let (config, metrics) = (support::config(), Arc::new(Metrics::default()));
    let upstream = support::upstream(&config);
    // Records can be judged current only after the first poll of the change log.
    runtime.spawn(ChangePoller::new(Arc::clone(&upstream)).run());
    let authenticator = Authenticator::new(upstream, false, None, metrics);
    let source = || RequestSource::of([127, 0, 0, 1].into());
    let check = || runtime.block_on(authenticator.check([KEY.as_bytes()].into_iter(), source));
    runtime.block_on(tokio::task::yield_now());
    assert!(check().is_ok());
    c.bench_function("key: all of it, with a known record", |b| b.iter(check));
}

fn limits(c: &mut Criterion) {
    let (runtime, metrics) = (runtime(), Metrics::default());
    let limiter: Limiter<KeyId> = support::limiter(&metrics);
    let id: KeyId = key().hash().id();
    c.bench_function("limit: decision in memory", |b| {
        b.iter(|| runtime.block_on(limiter.decide(black_box(id), 2_147_483_647)));
    });
}

fn caches(c: &mut Criterion) {
    let by_request: Cache<Request, Arc<[u8]>> = Cache::builder().max_capacity(1000).build();
    by_request.insert(search(), Arc::from([0; 16]));
    let request = search();
    c.bench_function("moka: get by request", |b| b.iter(|| by_request.get(black_box(&request))));
    let by_hash: Cache<KeyHash, Arc<[u8]>> = Cache::builder().max_capacity(1000).build();
    let hash = key().hash();
    by_hash.insert(hash, Arc::from([0; 16]));
    c.bench_function("moka: get by hash", |b| b.iter(|| by_hash.get(black_box(&hash))));

    let runtime = runtime();
    let (config, metrics) = (support::config(), Arc::new(Metrics::default()));
    let upstream = support::upstream(&config);
    runtime.spawn(ChangePoller::new(Arc::clone(&upstream)).run());
    let reads = ReadThrough::new(&config, None, upstream, metrics);
    let get = || runtime.block_on(reads.get(black_box(&request)));
    let served = get().expect("a page");
    c.bench_function("cache: get, current and fresh", |b| b.iter(get));
    c.bench_function("entry: entity tag", |b| b.iter(|| served.entry.etag(black_box(false))));
    c.bench_function("entry: gzip form, made before", |b| b.iter(|| served.entry.gzip()));
}

/// From a request's head to the response's body, with the log disabled.
fn whole(c: &mut Criterion) {
    let runtime = runtime();
    let api = runtime.block_on(async { support::public_api() });
    let hit = || {
        runtime.block_on(async {
            support::body(api.handle(support::request(support::PAGE), Ok(())).await).await
        })
    };
    assert!(hit() > 1000);
    c.bench_function("hit: in process, no log", |b| b.iter(hit));
    c.bench_function("hit: the request alone", |b| b.iter(|| support::request(support::PAGE)));
}

criterion_group!(pieces, keys, limits, caches, whole);
criterion_main!(pieces);
