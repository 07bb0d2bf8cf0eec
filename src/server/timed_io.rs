//! Tells the watchdog when a connection's bytes are received, wait to be sent, and are sent.
//!
//! While bytes wait for the client, nothing is read from it: otherwise it could request more and
//! more responses, all of which the HTTP library would buffer. A few KiB of heads can take a hundred
//! times as much memory, so a connection that has read [`TURN_BYTES`] gives way to other tasks, above
//! all to those that use what it has read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::watchdog::Watchdog;

/// Bytes that a connection reads before other tasks have their turn.
const TURN_BYTES: usize = 8 * 1024;

/// A stream over TCP.
pub(super) trait TcpBased {
    /// Makes the system discard what the client has not taken when the stream is closed. Otherwise
    /// it would keep this in memory for minutes, beyond every bound.
    fn discard_on_close(&self);
}

impl TcpBased for TcpStream {
    fn discard_on_close(&self) {
        // Fails only if the connection is closed already.
        let _ = self.set_zero_linger();
    }
}

impl TcpBased for TlsStream<TcpStream> {
    fn discard_on_close(&self) {
        self.get_ref().0.discard_on_close();
    }
}

/// A stream that reports to the watchdog. Writes that the system takes at once are not reported.
#[derive(Debug)]
pub(super) struct TimedIo<S: TcpBased> {
    stream: S,
    watchdog: Arc<Watchdog>,
    /// Wakes a read that was refused while bytes waited.
    reader: Option<Waker>,
    /// Bytes read in this turn.
    read_bytes: usize,
}

impl<S: TcpBased> TimedIo<S> {
    pub(super) fn new(stream: S, watchdog: Arc<Watchdog>) -> Self {
        Self { stream, watchdog, reader: None, read_bytes: 0 }
    }

    fn note_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Pending => self.watchdog.write_blocked(),
            Poll::Ready(Ok(bytes)) if self.watchdog.is_blocked() => self.watchdog.written(*bytes),
            Poll::Ready(_) => {}
        }
        written
    }

    fn note_drained(&mut self) {
        self.watchdog.write_drained();
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl<S: TcpBased> Drop for TimedIo<S> {
    fn drop(&mut self) {
        if self.watchdog.is_cut_off() {
            self.stream.discard_on_close();
        }
    }
}

impl<S: TcpBased + AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.watchdog.is_blocked() {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        if self.read_bytes >= TURN_BYTES {
            self.read_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len() - before;
        if read > 0 {
            self.watchdog.bytes_received();
        }
        self.read_bytes = if result.is_pending() { 0 } else { self.read_bytes + read };
        result
    }
}

impl<S: TcpBased + AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The HTTP library calls this once it has written all that it holds.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        match &flushed {
            Poll::Pending => self.watchdog.write_blocked(),
            Poll::Ready(Ok(())) if self.watchdog.is_blocked() => self.note_drained(),
            Poll::Ready(_) => {}
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
    use tokio::time::timeout;

    use super::*;
    use crate::server::watchdog::tests::watchdog;

    impl TcpBased for DuplexStream {
        fn discard_on_close(&self) {}
    }

    #[tokio::test]
    async fn a_connection_that_reads_much_gives_way_to_other_tasks() {
        let (mut client, server) = duplex(4 * TURN_BYTES);
        let mut server = TimedIo::new(server, watchdog());
        client.write_all(&vec![b'x'; 4 * TURN_BYTES]).await.expect("room");
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..4 * TURN_BYTES / 1024 {
            server.read_exact(&mut [0; 1024]).await.expect("all");
        }
        assert!(turns.load(Ordering::Relaxed) >= 3);
        other.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_while_bytes_wait_for_the_client() {
        let (mut client, server) = duplex(16);
        let (mut reader, mut writer) = split(TimedIo::new(server, watchdog()));
        client.write_all(b"ask").await.expect("room");
        let writing = tokio::spawn(async move {
            writer.write_all(&[b'x'; 40]).await.expect("a client");
            writer.flush().await.expect("a client");
        });
        tokio::task::yield_now().await;

        let mut asked = [0; 3];
        let mut read = Box::pin(reader.read_exact(&mut asked));
        assert!(timeout(Duration::from_secs(9), &mut read).await.is_err(), "it waits");
        client.read_exact(&mut [0; 40]).await.expect("all that was written");

        timeout(Duration::from_secs(9), read).await.expect("it is woken").expect("three bytes");
        assert_eq!(&asked, b"ask");
        writing.await.expect("no panic");
    }
}
