//! The connection to the database: why there is none, and whether it is encrypted.

use std::error::Error;

use super::finding::Finding;
use super::session::Session;
use crate::net::tls::is_untrusted_certificate;
use crate::ops::error_chain;
use crate::upstream::postgres::{ConnectError, HostError, NoUsableHost};

pub(super) const CHECK: &str = "database";

pub(super) async fn check(session: &mut Session) -> Result<Vec<Finding>, tokio_postgres::Error> {
    let sql = "SELECT ssl OR coalesce(
            inet_server_addr() <<= '127.0.0.0/8' OR inet_server_addr() = '::1', true) AS is_safe
        FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    if session.row(sql).await?.try_get("is_safe")? {
        return Ok(Vec::new());
    }
    let message = "the connection to another machine is not encrypted".to_owned();
    let remedy = "Add sslmode=verify-full to upstream.url; set upstream.tls_ca_file if the \
                  server's certificate is of a private authority.";
    Ok(vec![Finding::warning(CHECK, message, remedy)])
}

/// Why there is no connection.
pub(super) fn unreachable(error: &ConnectError) -> Finding {
    let causes = std::iter::successors(Some(error as &(dyn Error + 'static)), |&it| it.source());
    let hosts = causes.filter_map(|cause| cause.downcast_ref::<NoUsableHost>()).next();
    let remedy = match (error, hosts) {
        (ConnectError::Setup(_), _) => "See the section Configure of the README.",
        (_, Some(NoUsableHost(errors))) => errors.first().map_or("", remedy),
        _ => "",
    };
    Finding::serious(CHECK, error_chain(error), remedy)
}

fn remedy(error: &HostError) -> &'static str {
    let HostError::Connection(error) = error else {
        return match error {
            HostError::TimedOut => "Check the address, and the firewalls between.",
            _ => "Correct the hosts or target_session_attrs in upstream.url.",
        };
    };
    match error.code().map_or("", |code| code.code()) {
        "3D000" => "Create the database, or correct its name in upstream.url.",
        "53300" => "Raise max_connections of the server, or end other connections.",
        "57P03" => "Wait until the server has started.",
        code if code.starts_with("28") => {
            "Correct the user and password in upstream.url, or admit them in pg_hba.conf."
        }
        _ if is_untrusted_certificate(error) => {
            "Set upstream.tls_ca_file to the PEM file of the authority that issued the server's \
             certificate, and use a host name that is in the certificate."
        }
        _ if error.to_string().contains("password missing") => {
            "Add the password to upstream.url: PGPASSWORD and ~/.pgpass are not read."
        }
        _ => "Start the server, or correct its address and sslmode in upstream.url.",
    }
}
