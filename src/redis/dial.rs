//! Connects to a server. Host names are resolved for each connection; certificates are always
//! verified.

use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use bb8::ManageConnection;
use bb8_redis::RedisConnectionManager;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, RedisResult,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::servers::Server;

/// Connects to `server` and logs in within `timeout`, which then also bounds each reply.
pub(super) async fn dial(server: &Server, timeout: Duration) -> RedisResult<MultiplexedConnection> {
    let connected = tokio::time::timeout(timeout, connect(server)).await;
    let mut connection = connected.map_err(|_| timeout_error("no connection in time"))??;
    // The library's default would end a longer configured timeout early.
    connection.set_response_timeout(timeout);
    Ok(connection)
}

/// A timeout, as an error of the client library.
pub(super) fn timeout_error(what: &'static str) -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, what).into()
}

async fn connect(server: &Server) -> RedisResult<MultiplexedConnection> {
    let Server { address, login, tls } = server;
    let (Some(tls), ConnectionAddr::Tcp(host, port)) = (tls, address) else {
        return connect_plain(address, login).await;
    };
    let stream = TcpStream::connect((host.as_str(), *port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| (ErrorKind::InvalidClientConfig, "not a valid host name for TLS"))?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream).await.map_err(tls_error)?;
    log_in(login, stream).await
}

/// Connects without TLS, by bb8-redis. Its TLS would read the system's certificate authorities for
/// each connection, and could not use those of `redis.tls_ca_file`.
async fn connect_plain(
    address: &ConnectionAddr,
    login: &RedisConnectionInfo,
) -> RedisResult<MultiplexedConnection> {
    let tcp = TcpSettings::default().set_nodelay(true);
    let info = address.clone().into_connection_info()?;
    let info = info.set_redis_settings(login.clone()).set_tcp_settings(tcp);
    RedisConnectionManager::new(info)?.connect().await
}

/// A certificate that is not accepted is a configuration error: retries do not help.
fn tls_error(error: io::Error) -> RedisError {
    if error.kind() == io::ErrorKind::InvalidData {
        return (ErrorKind::InvalidClientConfig, "TLS failed", error.to_string()).into();
    }
    error.into()
}

async fn log_in<S>(login: &RedisConnectionInfo, stream: S) -> RedisResult<MultiplexedConnection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = AsyncConnectionConfig::new();
    let (connection, driver) =
        MultiplexedConnection::new_with_config(login, stream, config).await?;
    // The driver ends with the connection.
    tokio::spawn(driver);
    Ok(connection)
}

/// Host and port of an address as Redis writes it: `host:port`; an IPv6 host may be in brackets.
pub(super) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.filter(|host| host.parse::<Ipv6Addr>().is_ok()).unwrap_or(host);
    Some((host, port.parse().ok()?))
}
