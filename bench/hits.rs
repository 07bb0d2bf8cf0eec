//! Answers so many requests in process and ends: what `bench/instructions` counts.
//!
//!     hits NUMBER
//!
//! One thread, one key, one page, the log as it is by default. What comes before, the start and the
//! filling of caches, is not counted.

use gene_registry::api::PublicApi;
use gene_registry::ops::telemetry;
use gene_registry::server::Handler;
use tokio::runtime::Runtime;

// As in the service's own binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fills caches, and lets them come to rest.
const WARM_UP: usize = 1000;

fn main() {
    let number: usize = std::env::args().nth(1).expect("how many").parse().expect("a number");
    telemetry::init(&support::config().log).expect("a log");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let api = runtime.block_on(async { support::public_api() });
    answer(&runtime, &api, WARM_UP);
    counted_hits(&runtime, &api, number);
}

/// By this name, `bench/instructions` knows what to count.
#[inline(never)]
fn counted_hits(runtime: &Runtime, api: &PublicApi, number: usize) {
    answer(runtime, api, number);
}

fn answer(runtime: &Runtime, api: &PublicApi, number: usize) {
    runtime.block_on(async {
        for _ in 0..number {
            let answer = api.handle(support::request(support::PAGE)).await;
            assert!(support::body(answer).await > 1000);
        }
    });
}
