use tokio::time::Instant;

use super::*;
use crate::server::delivery::BYTES_PER_SECOND;

pub(in crate::server) const HEAD: Duration = Duration::from_secs(10);
pub(in crate::server) const IDLE: Duration = Duration::from_secs(75);
pub(in crate::server) const RESPONSE: Duration = Duration::from_secs(30);

const SECOND: Duration = Duration::from_secs(1);

const LIMITS: ConnectionLimits =
    ConnectionLimits { connections: 4, head: HEAD, idle: IDLE, response: RESPONSE, grace: SECOND };

pub(in crate::server) fn watchdog() -> Arc<Watchdog> {
    Watchdog::new(&LIMITS, None)
}

/// How long until the connection must end, in whole seconds.
pub(in crate::server) async fn lives_for(watchdog: &Watchdog) -> Duration {
    let start = Instant::now();
    watchdog.expired().await;
    Duration::from_secs(start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_must_send_its_first_request_within_the_head_timeout() {
    let watchdog = watchdog();
    watchdog.bytes_received();
    assert_eq!(lives_for(&watchdog).await, HEAD);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_has_the_idle_timeout_and_a_dripping_head_the_head_timeout() {
    let watchdog = watchdog();
    drop(watchdog.begin_http1_request());
    assert_eq!(lives_for(&watchdog).await, IDLE);
    drop(watchdog.begin_http1_request());
    watchdog.bytes_received();
    tokio::time::advance(4 * SECOND).await;
    watchdog.bytes_received();
    assert_eq!(lives_for(&watchdog).await, 6 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn in_a_crowd_a_connection_that_is_idle_or_without_a_request_has_a_second() {
    let crowd = Arc::new(Crowd::new(LIMITS.connections));
    let _half = [crowd.open.token(), crowd.open.token()];
    let new = || Watchdog::new(&LIMITS, Some(Arc::clone(&crowd)));
    assert_eq!(lives_for(&new()).await, HEAD);
    let idle = new();
    drop(idle.begin_http1_request());
    assert_eq!(lives_for(&idle).await, IDLE);

    let third = crowd.open.token();
    assert_eq!(lives_for(&new()).await, SECOND);
    drop(idle.begin_http1_request());
    assert_eq!(lives_for(&idle).await, SECOND);
    let answering = idle.begin_http1_request();
    assert!(tokio::time::timeout(IDLE, idle.expired()).await.is_err());
    drop((answering, third));

    // It is noticed within a second.
    let watchdog = new();
    let begin = async {
        tokio::time::sleep(5 * SECOND).await;
        let _third = crowd.open.token();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        lived = lives_for(&watchdog) => assert!(lived <= 6 * SECOND, "{lived:?}"),
        () = begin => {}
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_crowd_a_connection_ends_with_the_first_response_that_is_not_taken() {
    let crowd = Arc::new(Crowd::new(1));
    let _one = crowd.open.token();
    let watchdog = Watchdog::new(&LIMITS, Some(Arc::clone(&crowd)));
    let open_streams = async {
        let mut streams = Vec::new();
        loop {
            let stream = watchdog.open_stream();
            stream.begin_sending();
            streams.push(stream);
            tokio::time::sleep(4 * SECOND).await;
        }
    };
    tokio::select! {
        lived = lives_for(&watchdog) => assert_eq!(lived, 5 * SECOND),
        () = open_streams => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_begins_during_the_wait_has_the_head_timeout() {
    let watchdog = watchdog();
    drop(watchdog.begin_http1_request());
    let begin = async {
        tokio::time::sleep(5 * SECOND).await;
        watchdog.bytes_received();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        lived = lives_for(&watchdog) => assert_eq!(lived, 5 * SECOND + HEAD),
        () = begin => {}
    }
}

#[tokio::test(start_paused = true)]
async fn pings_do_not_end_an_http2_connection_early() {
    let watchdog = watchdog();
    drop(watchdog.open_stream());
    watchdog.bytes_received();
    assert_eq!(lives_for(&watchdog).await, IDLE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_has_the_response_timeout() {
    let watchdog = watchdog();
    drop(watchdog.begin_http1_request());
    watchdog.write_blocked();
    assert_eq!(lives_for(&watchdog).await, RESPONSE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_cut_off_even_while_other_requests_are_answered() {
    let watchdog = watchdog();
    let _answering = watchdog.open_stream();
    watchdog.write_blocked();
    assert_eq!(lives_for(&watchdog).await, RESPONSE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_16_kib_a_second_is_not_cut_off_and_is_idle_afterwards() {
    let watchdog = watchdog();
    drop(watchdog.begin_http1_request());
    watchdog.write_blocked();
    let read = async {
        for _ in 0..200 {
            tokio::time::sleep(SECOND).await;
            watchdog.written(BYTES_PER_SECOND as usize);
        }
        watchdog.write_drained();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        lived = lives_for(&watchdog) => assert_eq!(lived, 200 * SECOND + IDLE),
        () = read => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_byte_a_second_is_cut_off() {
    let watchdog = watchdog();
    drop(watchdog.begin_http1_request());
    watchdog.write_blocked();
    let read = async {
        loop {
            tokio::time::sleep(SECOND).await;
            watchdog.written(1);
        }
    };
    tokio::select! {
        lived = lives_for(&watchdog) => assert_eq!(lived, RESPONSE),
        () = read => {}
    }
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_only_an_http2_connection_without_streams_is_stalled() {
    let watchdog = watchdog();
    let stream = watchdog.open_stream();
    let piece = Arc::clone(&stream);
    let waits = async || {
        let waited = tokio::time::timeout(SECOND * 10, watchdog.stalled_for(SECOND));
        waited.await.is_err()
    };
    assert!(waits().await, "while a request is answered");
    stream.begin_sending();
    drop(stream);
    assert!(waits().await, "while a piece of its response is sent");
    drop(piece);
    assert!(!waits().await);
}

#[tokio::test(start_paused = true)]
async fn at_shutdown_only_an_http1_connection_with_an_incomplete_head_is_stalled() {
    let watchdog = watchdog();
    watchdog.stalled_for(SECOND).await;
    let answering = watchdog.begin_http1_request();
    let waited = tokio::time::timeout(SECOND * 10, watchdog.stalled_for(SECOND));
    assert!(waited.await.is_err(), "while a request is answered");
    drop(answering);
    let waited = tokio::time::timeout(SECOND * 10, watchdog.stalled_for(SECOND));
    assert!(waited.await.is_err(), "while its response is sent");
    watchdog.bytes_received();
    watchdog.stalled_for(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn no_timeout_runs_while_a_request_is_answered() {
    let watchdog = watchdog();
    let answering = watchdog.begin_http1_request();
    let long = Duration::from_secs(3600);
    assert!(tokio::time::timeout(long, watchdog.expired()).await.is_err());
    drop(answering);
    assert_eq!(lives_for(&watchdog).await, IDLE);
}
