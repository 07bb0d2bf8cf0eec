//! HTTP/2 floods: streams reset as soon as they are opened (CVE-2023-44487), header blocks without
//! end, pings without end. Their connection is closed or costs little, and other clients are served
//! meanwhile.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::{TIMEOUT, replica};
use crate::support::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, Frame, GET, HEADERS, PING, RST_STREAM, connect, frame,
    goaway_code, until_closed,
};
use crate::support::raw::address;
use crate::support::replica::Replica;

const ENHANCE_YOUR_CALM: u32 = 11;

/// Sends `flood` on a connection of its own while others are served; returns what the server sent
/// until it closed the connection.
async fn send_flood(replica: &Replica, key: &str, flood: Vec<u8>) -> Vec<Frame> {
    let (mut reader, mut writer) = connect(&address(&replica.base), &[]).await.into_split();
    let attack = async move {
        for piece in flood.chunks(16 * 1024) {
            if writer.write_all(piece).await.is_err() {
                break;
            }
        }
        writer
    };
    let attack = tokio::spawn(attack);
    let frames = async {
        let frames = until_closed(&mut reader).await;
        drop(attack.await.unwrap());
        frames
    };
    tokio::pin!(frames);
    loop {
        tokio::select! {
            frames = &mut frames => return frames,
            response = timeout(TIMEOUT, replica.get("/genes", Some(key))) => {
                assert_eq!(response.expect("in time").status, 200);
            }
        }
    }
}

/// A replica with limits so high that only the one under test applies to connections.
async fn start_replica() -> (Replica, String) {
    replica(|config| {
        config.server.head_timeout_ms = 2_000;
        config.server.idle_timeout_ms = 2_000;
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_reset_as_soon_as_they_are_opened_end_their_connection() {
    let (replica, key) = start_replica().await;
    let flood: Vec<u8> = (0..20_000_u32)
        .flat_map(|n| {
            let stream = 2 * n + 1;
            let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, GET);
            [open, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
        })
        .collect();

    let frames = send_flood(&replica, &key, flood).await;

    assert_eq!(goaway_code(&frames), Some(ENHANCE_YOUR_CALM), "{:?}", frames.last());
    let answered = frames.iter().filter(|frame| frame.kind == HEADERS).count();
    assert!(answered < 1_000, "long before all were served: {answered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_end_ends_its_connection() {
    let (replica, key) = start_replica().await;
    // A field that is not indexed: its value grows with each frame.
    let mut flood = frame(HEADERS, END_STREAM, 1, GET);
    let filler: Vec<u8> = (0..1_000).flat_map(|_| [0x00, 0x01, b'x', 0x01, b'y']).collect();
    for _ in 0..2_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &filler));
    }

    let frames = send_flood(&replica, &key, flood).await;

    assert!(goaway_code(&frames).is_some_and(|code| code != 0), "{:?}", frames.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_continuations_without_end_end_their_connection() {
    let (replica, key) = start_replica().await;
    let mut flood = frame(HEADERS, END_STREAM, 1, GET);
    for _ in 0..200_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &[]));
    }

    let frames = send_flood(&replica, &key, flood).await;

    assert!(goaway_code(&frames).is_some_and(|code| code != 0), "{:?}", frames.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_without_end_cost_nobody_else_anything_and_end_with_the_head_timeout() {
    let (replica, key) = start_replica().await;
    let ping = frame(PING, 0, 0, b"12345678");
    let flood = ping.repeat(300_000);
    let begun = tokio::time::Instant::now();

    let frames = send_flood(&replica, &key, flood).await;

    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
    assert!(frames.iter().filter(|frame| frame.kind == PING).count() > 0);
}
