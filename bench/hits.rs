//! Serves a number of cache hits in process and ends: `bench/instructions` counts its instructions.
//!
//!     hits NUMBER
//!
//! One thread, one key, one page, the default log. Start-up and warm-up are not counted.

use gene_registry::api::PublicApi;
use gene_registry::ops::telemetry;
use gene_registry::server::Handler;
use tokio::runtime::Runtime;

// The allocator of the service's own binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fills the caches, and lets background work settle.
const WARM_UP: usize = 1000;

fn main() {
    let number: usize = std::env::args().nth(1).expect("how many").parse().expect("a number");
    telemetry::init(&support::config().log).expect("a log");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let api = runtime.block_on(async { support::public_api() });
    response(&runtime, &api, WARM_UP);
    counted_hits(&runtime, &api, number);
}

/// `bench/instructions` counts the instructions in this function, by its name.
#[inline(never)]
fn counted_hits(runtime: &Runtime, api: &PublicApi, number: usize) {
    response(runtime, api, number);
}

fn response(runtime: &Runtime, api: &PublicApi, number: usize) {
    runtime.block_on(async {
        for _ in 0..number {
            let response = api.handle(support::request(support::PAGE), Ok(())).await;
            assert!(support::body(response).await > 1000);
        }
    });
}
