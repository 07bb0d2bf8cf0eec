//! The proxies of the test support.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::process::Launch;
use crate::support::proxy::{Cut, FaultProxy, Mode};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Long enough for a response, short enough to wait for none.
const SILENCE: Duration = Duration::from_millis(300);

/// A proxy before a server that echoes what it receives.
async fn echo() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap().to_string()).await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                drop(tokio::io::copy(&mut reader, &mut writer).await);
            });
        }
    });
    proxy
}

async fn round_trip(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"word").await?;
    let mut response = [0; 4];
    stream.read_exact(&mut response).await?;
    assert_eq!(&response, b"word");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_stalls_and_then_delivers_what_it_held_back() {
    let proxy = echo().await;
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut old).await.unwrap();

    proxy.set(Mode::Stall).await;
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    old.write_all(b"word").await.unwrap();
    let mut response = [0; 4];
    assert!(timeout(SILENCE, old.read_exact(&mut response)).await.is_err());
    assert!(timeout(SILENCE, round_trip(&mut new)).await.is_err());
    proxy.set(Mode::Pass).await;

    timeout(TIMEOUT, old.read_exact(&mut response)).await.unwrap().unwrap();
    timeout(TIMEOUT, new.read_exact(&mut response)).await.unwrap().unwrap();
    assert_eq!((proxy.accepted(), proxy.open()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_refuses_and_then_listens_again() {
    let proxy = echo().await;
    let mut old = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut old).await.unwrap();

    proxy.set(Mode::Refuse).await;
    assert!(round_trip(&mut old).await.is_err());
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    proxy.set(Mode::Pass).await;

    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let mut new = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut new).await.unwrap();
}

/// A child process has all files of its parent until it executes its program, sockets that listen too.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_listens_again_while_processes_start() {
    let proxy = echo().await;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let starts = std::thread::spawn(move || {
        let mut started = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            drop(Launch::new("short", "true").start());
            started += 1;
        }
        started
    });
    for _ in 0..500 {
        proxy.set(Mode::Refuse).await;
        assert!(std::net::TcpListener::bind(proxy.addr()).is_err(), "the port stays bound");
        proxy.set(Mode::Pass).await;
    }
    drop(stop);
    assert!(starts.join().unwrap() > 0);
    round_trip(&mut TcpStream::connect(proxy.addr()).await.unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_delays_cuts_and_retargets_connections() {
    let (proxy, other) = (echo().await, echo().await);
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();

    proxy.set(Mode::Delay(Duration::from_millis(80))).await;
    let start = Instant::now();
    round_trip(&mut stream).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(80));

    proxy.cut(Cut::Close).await;
    assert_eq!(stream.read(&mut [0; 4]).await.unwrap(), 0);

    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut stream).await.unwrap();
    proxy.cut(Cut::Reset).await;
    let error = stream.read(&mut [0; 4]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    proxy.retarget(other.addr().to_string());
    let mut stream = TcpStream::connect(proxy.addr()).await.unwrap();
    round_trip(&mut stream).await.unwrap();
    assert_eq!((proxy.accepted(), other.accepted()), (3, 1));
    let url = proxy.url("postgres://user:secret@somewhere:5432/name");
    assert_eq!(url, format!("postgres://user:secret@{}/name", proxy.addr()));
}
