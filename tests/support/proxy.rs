//! A TCP proxy that misbehaves on demand.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use super::free_port;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// What the proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards.
    Pass,
    /// Nothing listens, and existing connections are reset.
    Refuse,
    /// Accepts connections, keeps all of them open and forwards nothing, until another mode is set.
    Stall,
    /// Forwards, but delays each piece of the target's replies by this much.
    Delay(Duration),
}

/// How connections are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// RST: the peer sees "connection reset".
    Reset,
    /// FIN: the peer sees the end of the stream.
    Close,
}

/// The state that running connections watch.
#[derive(Debug, Clone)]
struct ProxyState {
    mode: Mode,
    target: String,
    /// The generation of connections; a cut ends those of an earlier one.
    epoch: Arc<()>,
    cut: Cut,
    /// Connections with a lower number never forward anything again.
    silent_below: usize,
}

/// A proxy before one address. Dropping it cuts all connections.
#[derive(Debug)]
pub(crate) struct FaultProxy {
    addr: SocketAddr,
    state: Arc<watch::Sender<ProxyState>>,
    modes: mpsc::UnboundedSender<(Mode, oneshot::Sender<()>)>,
    counts: Arc<ConnectionCounts>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 and forwards to `target` (`host:port`).
    pub(crate) async fn start(target: impl Into<String>) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, free_port()), target).await
    }

    /// Listens on a given address.
    pub(crate) async fn start_at(at: (Ipv4Addr, u16), target: impl Into<String>) -> Self {
        let addr = SocketAddr::from(at);
        let port = Port::bind(addr);
        let state = ProxyState {
            mode: Mode::Pass,
            target: target.into(),
            epoch: Arc::default(),
            cut: Cut::Reset,
            silent_below: 0,
        };
        let state = Arc::new(watch::Sender::new(state));
        let (modes, orders) = mpsc::unbounded_channel();
        let counts = Arc::<ConnectionCounts>::default();
        let task = tokio::spawn(serve_port(port, orders, Arc::clone(&state), Arc::clone(&counts)));
        Self { addr, state, modes, counts, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `url` with the proxy instead of its host and port.
    pub(crate) fn url(&self, url: &str) -> String {
        let mut url: reqwest::Url = url.parse().unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(self.addr.port())).unwrap();
        url.to_string()
    }

    /// Changes the mode; the change is in effect when this returns.
    pub(crate) async fn set(&self, mode: Mode) {
        let (done, wait) = oneshot::channel();
        self.modes.send((mode, done)).unwrap();
        wait.await.unwrap();
    }

    /// Cuts all existing connections, and waits until they are closed.
    pub(crate) async fn cut(&self, cut: Cut) {
        cut_all(&self.state, cut).await;
    }

    /// Forwards new connections to another address (`host:port`); existing ones stay.
    pub(crate) fn retarget(&self, target: impl Into<String>) {
        let target = target.into();
        self.state.send_modify(|state| state.target = target);
    }

    /// Existing connections stay open but forward nothing any more, as if a firewall had forgotten
    /// them; new ones are forwarded.
    pub(crate) fn silence(&self) {
        let taken = self.accepted();
        self.state.send_modify(|state| state.silent_below = taken);
    }

    /// Connections accepted since the start.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> usize {
        self.counts.open.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.state.send_modify(|state| state.epoch = Arc::default());
    }
}

async fn cut_all(state: &watch::Sender<ProxyState>, cut: Cut) {
    let mut old = Arc::default();
    state.send_modify(|state| {
        std::mem::swap(&mut old, &mut state.epoch);
        state.cut = cut;
    });
    super::wait::eventually(Duration::from_secs(5), "the connections are cut", || async {
        Arc::strong_count(&old) == 1
    })
    .await;
}

/// The port of a proxy. It stays bound while nothing listens there, so that no other process gets it.
struct Port(std::net::TcpListener);

impl Port {
    fn bind(addr: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind(addr).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn listen(&self) -> TcpListener {
        let socket = SockRef::from(&self.0);
        socket.set_reuse_address(true).unwrap();
        socket.listen(BACKLOG).unwrap();
        TcpListener::from_std(self.0.try_clone().unwrap()).unwrap()
    }

    /// Stops the socket, not only this descriptor: a child process that has not executed its program yet
    /// has another one. Then others can't bind the port either, with the same option.
    fn stop_listening(&self) {
        let socket = SockRef::from(&self.0);
        socket.shutdown(Shutdown::Both).unwrap();
        socket.set_reuse_address(false).unwrap();
    }
}

async fn serve_port(
    port: Port,
    mut orders: mpsc::UnboundedReceiver<(Mode, oneshot::Sender<()>)>,
    state: Arc<watch::Sender<ProxyState>>,
    counts: Arc<ConnectionCounts>,
) {
    let mut listener = Some(port.listen());
    loop {
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = orders.recv() => {
                let Some((mode, done)) = order else { return };
                state.send_modify(|state| state.mode = mode);
                if mode == Mode::Refuse {
                    if listener.take().is_some() {
                        port.stop_listening();
                    }
                    cut_all(&state, Cut::Reset).await;
                } else if listener.is_none() {
                    listener = Some(port.listen());
                }
                // The caller may have stopped waiting.
                done.send(()).ok();
            }
            Ok((client, _)) = accept => {
                let number = counts.accepted.fetch_add(1, Ordering::SeqCst);
                counts.open.fetch_add(1, Ordering::SeqCst);
                let (state, counts) = (state.subscribe(), Arc::clone(&counts));
                let epoch = Arc::clone(&state.borrow().epoch);
                tokio::spawn(async move {
                    serve(client, state, &epoch, number).await;
                    counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    }
}

/// Runs one connection until it ends or is cut.
async fn serve(
    client: TcpStream,
    state: watch::Receiver<ProxyState>,
    epoch: &Arc<()>,
    number: usize,
) {
    let mut cut = state.clone();
    let mut streams = (client, None);
    let cut = tokio::select! {
        biased;
        state = cut.wait_for(|state| !Arc::ptr_eq(&state.epoch, epoch)) => {
            state.map_or(Cut::Reset, |state| state.cut)
        },
        ended = forward(&mut streams, state, number) => match ended {
            Ok(()) => Cut::Close,
            Err(_) => Cut::Reset,
        },
    };
    if cut == Cut::Reset {
        for stream in [Some(streams.0), streams.1].into_iter().flatten() {
            // Closing it now sends RST. Ignored: it may be closed already.
            drop(stream.set_zero_linger());
        }
    }
}

async fn forward(
    (client, server): &mut (TcpStream, Option<TcpStream>),
    mut state: watch::Receiver<ProxyState>,
    number: usize,
) -> io::Result<()> {
    open(&mut state, number).await;
    let target = state.borrow().target.clone();
    let server = server.insert(TcpStream::connect(&target).await?);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        pump(from_client, to_server, (state.clone(), number), false),
        pump(from_server, to_client, (state, number), true),
    )?;
    Ok(())
}

/// Forwards one direction until its end of stream, which is passed on.
async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    (mut state, number): (watch::Receiver<ProxyState>, usize),
    responses: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        open(&mut state, number).await;
        let length = from.read(&mut buffer).await?;
        // Stalled meanwhile: the received bytes are held back.
        let mode = open(&mut state, number).await;
        if let (Mode::Delay(delay), true) = (mode, responses) {
            tokio::time::sleep(delay).await;
        }
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}

/// Waits for a mode that forwards.
async fn open(state: &mut watch::Receiver<ProxyState>, number: usize) -> Mode {
    let passing = |state: &ProxyState| {
        number >= state.silent_below && matches!(state.mode, Mode::Pass | Mode::Delay(_))
    };
    let mode = state.wait_for(passing).await.map(|state| state.mode);
    match mode {
        Ok(mode) => mode,
        // The proxy has been dropped; the connection is being cut.
        Err(_) => std::future::pending().await,
    }
}
