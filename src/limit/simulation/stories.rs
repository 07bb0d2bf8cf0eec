//! Simulates single clients over many minutes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;

use super::random::SeededRandom;
use super::redis::{Key, SharedServer, SimulatedRedis, SimulatedServer};
use crate::config::WithoutRedis;
use crate::limit::LimitOptions;
use crate::limit::limiter::Limiter;
use crate::limit::window::WINDOW;
use crate::ops::LimitMetrics;
use crate::sync::lock;

const KEY: Key = 1;

fn three_replicas() -> (SharedServer, Vec<Limiter<Key, SimulatedRedis>>) {
    let server: SharedServer = Arc::new(Mutex::new(SimulatedServer::new(3, SeededRandom(7), 0)));
    let replica = |number| {
        let options = LimitOptions {
            replicas: 3,
            without_redis: WithoutRedis::Local,
            enforce: true,
            metrics: LimitMetrics::default(),
        };
        Limiter::new(Some(SimulatedRedis::new(&server, number)), options)
    };
    let replicas = (0..3).map(replica).collect();
    (server, replicas)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_polls_slightly_too_fast_is_served_its_full_limit_in_each_window() {
    let (server, replicas) = three_replicas();
    let pause = Duration::from_millis(1_900);
    let mut refused = 0;
    for poll in 0..1_000 {
        sleep(pause).await;
        let decision = replicas[poll % 3].decide(KEY, 30).await.expect("a decision");
        refused += u32::from(!decision.admitted);
    }
    let windows = &lock(&server).windows;
    let (_last, whole) = windows.split_last().expect("windows");
    assert!(whole.len() > 25 && refused > 25, "{} {refused}", whole.len());
    for (window, next) in windows.iter().zip(&windows[1..]) {
        assert_eq!(window.granted, 30);
        assert!(next.opened - window.opened < WINDOW + 2 * pause, "a window opened late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_as_told_is_never_refused_twice_in_a_row() {
    let (_server, replicas) = three_replicas();
    for poll in 0..2_000 {
        sleep(Duration::from_millis(poll * 37 % 1_000)).await;
        let replica = &replicas[poll as usize % 3];
        let decision = replica.decide(KEY, 7).await.expect("a decision");
        if !decision.admitted {
            sleep(Duration::from_secs(decision.retry_after_seconds())).await;
            assert!(replica.decide(KEY, 7).await.expect("a decision").admitted, "{decision:?}");
        }
    }
}
