//! Faults of the stores: each is stopped, stalled and restarted independently, so that sometimes
//! both are unavailable.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::postgres::PostgresServer;
use crate::support::random::Random;
use crate::support::redis::RedisServer;

#[derive(Debug, Clone, Copy)]
enum Fault {
    Stopped,
    Stalled,
    Restarted,
}

/// A store that tests can break.
pub(super) trait Store {
    const NAME: &'static str;
    fn pause(&self);
    fn resume(&self);
    async fn stop(&self);
    async fn start(&self);
}

impl Store for RedisServer {
    const NAME: &'static str = "redis";
    fn pause(&self) {
        self.pause();
    }
    fn resume(&self) {
        self.resume();
    }
    async fn stop(&self) {
        self.kill().await;
    }
    async fn start(&self) {
        self.restart().await;
    }
}

impl Store for PostgresServer {
    const NAME: &'static str = "postgres";
    fn pause(&self) {
        self.pause();
    }
    fn resume(&self) {
        self.resume();
    }
    async fn stop(&self) {
        self.stop_immediate().await;
    }
    async fn start(&self) {
        self.restart().await;
    }
}

/// Breaks a store repeatedly until `until` and repairs it at the end; returns the number of faults.
pub(super) async fn inject_faults<S: Store>(store: &S, mut random: Random, end: Instant) -> u32 {
    let mut count = 0;
    loop {
        tokio::time::sleep(random.millis(300..3000)).await;
        if Instant::now() >= end {
            return count;
        }
        let fault = *random.of(&[Fault::Stopped, Fault::Stalled, Fault::Restarted]);
        let left = end.saturating_duration_since(Instant::now());
        let lasts = random.millis(200..5000).min(left);
        eprintln!("chaos: {} {fault:?} for {lasts:?}", S::NAME);
        inject_fault(store, fault, lasts).await;
        count += 1;
    }
}

async fn inject_fault<S: Store>(store: &S, fault: Fault, lasts: Duration) {
    match fault {
        Fault::Stopped => {
            store.stop().await;
            tokio::time::sleep(lasts).await;
            store.start().await;
        }
        Fault::Stalled => {
            store.pause();
            tokio::time::sleep(lasts).await;
            store.resume();
        }
        Fault::Restarted => store.start().await,
    }
}
