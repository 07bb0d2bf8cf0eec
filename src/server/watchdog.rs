//! When a connection has been silent, or dripping, for too long.
//!
//! Before its first request, a connection has the head timeout, whatever it sends. After that
//! it may be idle for the idle timeout; on HTTP/1.1 the first byte of the next head starts the
//! head timeout again. (On HTTP/2 bytes may be pings, so the idle timeout alone counts there.)
//! While a request is being answered nothing runs out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use poem::http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// No head has begun.
const NONE: u64 = u64::MAX;

/// Watches one connection.
#[derive(Debug)]
pub(super) struct Watchdog {
    head: Duration,
    idle: Duration,
    born: Instant,
    answering: AtomicUsize,
    /// Answers on HTTP/2 that are not all written yet.
    sending: AtomicUsize,
    had_request: AtomicBool,
    is_http1: AtomicBool,
    // Milliseconds since `born`.
    idle_since: AtomicU64,
    head_since: AtomicU64,
}

impl Watchdog {
    pub(super) fn new(head: Duration, idle: Duration) -> Arc<Self> {
        Arc::new(Self {
            head,
            idle,
            born: Instant::now(),
            answering: AtomicUsize::new(0),
            sending: AtomicUsize::new(0),
            had_request: AtomicBool::new(false),
            is_http1: AtomicBool::new(true),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NONE),
        })
    }

    /// A request has come whole; it is being answered until the result is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Answering {
        self.answering.fetch_add(1, Ordering::AcqRel);
        self.had_request.store(true, Ordering::Release);
        self.is_http1.store(version != Version::HTTP_2, Ordering::Release);
        self.head_since.store(NONE, Ordering::Release);
        Answering(Arc::clone(self))
    }

    /// An answer's body is being sent on HTTP/2, until all of what this returns is dropped.
    pub(super) fn sends(self: &Arc<Self>) -> Arc<Sending> {
        self.sending.fetch_add(1, Ordering::AcqRel);
        Arc::new(Sending(Arc::clone(self)))
    }

    /// Done when the connection has been silent or dripping for too long.
    pub(super) async fn expired(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    fn deadline(&self) -> Instant {
        if self.answering.load(Ordering::Acquire) > 0 {
            return Instant::now() + self.idle;
        }
        if !self.had_request.load(Ordering::Acquire) {
            return self.born + self.head;
        }
        let idle = Duration::from_millis(self.idle_since.load(Ordering::Acquire)) + self.idle;
        let by_idleness = self.born + idle;
        let head_since = self.head_since.load(Ordering::Acquire);
        if head_since == NONE || !self.is_http1.load(Ordering::Acquire) {
            return by_idleness;
        }
        by_idleness.min(self.born + Duration::from_millis(head_since) + self.head)
    }

    /// Done when the connection has been kept for `long` by nothing that is under way: by a head
    /// that is not whole, or, on HTTP/2, by a peer that does not answer our goodbye.
    pub(super) async fn kept_in_vain_for(&self, long: Duration) {
        loop {
            tokio::time::sleep(long).await;
            if self.is_kept_in_vain() {
                return;
            }
        }
    }

    fn is_kept_in_vain(&self) -> bool {
        if self.answering.load(Ordering::Acquire) > 0 || self.sending.load(Ordering::Acquire) > 0 {
            return false;
        }
        let is_http1 = self.is_http1.load(Ordering::Acquire);
        let begun_another = is_http1 && self.head_since.load(Ordering::Acquire) != NONE;
        !is_http1 || begun_another || !self.had_request.load(Ordering::Acquire)
    }

    fn bytes_came(&self) {
        if self.answering.load(Ordering::Acquire) == 0 {
            let now = self.now();
            let _ =
                self.head_since.compare_exchange(NONE, now, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(NONE - 1)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Answering(Arc<Watchdog>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Release);
        self.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer that is being sent.
#[derive(Debug)]
pub(super) struct Sending(Arc<Watchdog>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.sending.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A stream that tells the watchdog when bytes come.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    watchdog: Arc<Watchdog>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, watchdog: Arc<Watchdog>) -> Self {
        Self { stream, watchdog }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watchdog.bytes_came();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    async fn lives_for(watchdog: &Watchdog) -> Duration {
        let start = Instant::now();
        watchdog.expired().await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_the_head_timeout_whatever_it_sends() {
        let watchdog = Watchdog::new(HEAD, IDLE);
        watchdog.bytes_came();
        assert_eq!(lives_for(&watchdog).await.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_the_idle_timeout_and_a_dripping_head_its_own() {
        let watchdog = Watchdog::new(HEAD, IDLE);
        drop(watchdog.begin(Version::HTTP_11));
        assert_eq!(lives_for(&watchdog).await.as_secs(), 75);
        drop(watchdog.begin(Version::HTTP_11));
        watchdog.bytes_came();
        tokio::time::advance(Duration::from_secs(4)).await;
        watchdog.bytes_came();
        assert_eq!(lives_for(&watchdog).await.as_secs(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn pings_do_not_end_an_http2_connection_early() {
        let watchdog = Watchdog::new(HEAD, IDLE);
        drop(watchdog.begin(Version::HTTP_2));
        watchdog.bytes_came();
        assert_eq!(lives_for(&watchdog).await.as_secs(), 75);
    }

    #[tokio::test(start_paused = true)]
    async fn on_http2_nothing_is_given_up_at_the_end_but_a_connection_without_streams() {
        let second = Duration::from_secs(1);
        let watchdog = Watchdog::new(HEAD, IDLE);
        let answering = watchdog.begin(Version::HTTP_2);
        let sending = watchdog.sends();
        let part = Arc::clone(&sending);
        let waits = async || {
            let waited = tokio::time::timeout(second * 10, watchdog.kept_in_vain_for(second));
            waited.await.is_err()
        };
        assert!(waits().await, "while a request is answered");
        drop(answering);
        assert!(waits().await, "while its answer is sent");
        drop(sending);
        assert!(waits().await, "while a part of it is sent");
        drop(part);
        assert!(!waits().await);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_unfinished_head_is_given_up_at_the_end() {
        let second = Duration::from_secs(1);
        let watchdog = Watchdog::new(HEAD, IDLE);
        watchdog.kept_in_vain_for(second).await;
        let answering = watchdog.begin(Version::HTTP_11);
        let waited = tokio::time::timeout(second * 10, watchdog.kept_in_vain_for(second));
        assert!(waited.await.is_err(), "while a request is answered");
        drop(answering);
        let waited = tokio::time::timeout(second * 10, watchdog.kept_in_vain_for(second));
        assert!(waited.await.is_err(), "while its answer is sent");
        watchdog.bytes_came();
        watchdog.kept_in_vain_for(second).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_runs_out_while_a_request_is_answered() {
        let watchdog = Watchdog::new(HEAD, IDLE);
        let answering = watchdog.begin(Version::HTTP_11);
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, watchdog.expired()).await.is_err());
        drop(answering);
        assert_eq!(lives_for(&watchdog).await.as_secs(), 75);
    }
}
