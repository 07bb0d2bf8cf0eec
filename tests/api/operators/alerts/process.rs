//! Memory, file descriptors and certificates of a replica.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Watch, instance};
use crate::support::authority::{Authority, VALID};
use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::raw::address;
use crate::support::replace_file;
use crate::support::replica::{READER, Replica, sample};

pub(super) const ALERTS: [&str; 4] = [
    "GeneRegistryCertificateEnds",
    "GeneRegistryCertificateRefused",
    "GeneRegistryDescriptors",
    "GeneRegistryMemory",
];

/// Connections with the largest unfinished heads that are accepted, of about 80 kB each.
pub(super) const CONNECTIONS: usize = 3_500;
const HEAD_BYTES: usize = 60_000;

/// The limit of open files of a replica, and how many are open then.
const FILES: usize = 100;
const OPEN_FILES: usize = 90;

/// The days for which a certificate is valid that ends soon.
const DAYS: u64 = 10;

pub(super) async fn fire() {
    let database = sample(PostgresServer::shared().await).await;
    let url = database.url_as(READER);
    let patient =
        [("DATABASE_URL", url.as_str()), ("GENE_REGISTRY__SERVER__HEAD_TIMEOUT_MS", "600000")];
    let small_cache = ("GENE_REGISTRY__CACHE__LOCAL_MAX_BYTES", "1048576");
    let large_process = ReplicaProcess::start(&[patient[0], patient[1], small_cache]).await;
    let limited_process = ReplicaProcess::start_with_files(FILES, &patient).await;
    let authority = Authority::new();
    let files = authority.certify("localhost", VALID);
    let secure_process = ReplicaProcess::start(&[
        patient[0],
        ("GENE_REGISTRY__SERVER__TLS__CERT_FILE", files.0.to_str().unwrap()),
        ("GENE_REGISTRY__SERVER__TLS__KEY_FILE", files.1.to_str().unwrap()),
    ])
    .await;
    let [large, limited, secure] =
        [&large_process, &limited_process, &secure_process].map(|process| &process.replica);
    let watch = Watch::start(&ALERTS, &[large, limited, secure]).await;

    replace_file(&files.0, b"half a certificate");
    let connections = open_with_unfinished_heads(large).await;
    let idle = open_until(limited, OPEN_FILES).await;
    watch.fires_for("GeneRegistryCertificateRefused", &instance(secure)).await;
    let ending = authority.certify_for_days("localhost", DAYS);
    for (target, source) in [(&files.0, &ending.0), (&files.1, &ending.1)] {
        replace_file(target, &std::fs::read(source).unwrap());
    }
    watch.fires_for("GeneRegistryDescriptors", &instance(limited)).await;
    watch.fires_for("GeneRegistryMemory", &instance(large)).await;
    drop((connections, idle));
    watch.fires_for("GeneRegistryCertificateEnds", &instance(secure)).await;
    watch.assert_complete();
}

async fn open_with_unfinished_heads(replica: &Replica) -> Vec<TcpStream> {
    let (address, mut open) = (address(&replica.base), Vec::new());
    let head = format!("GET / HTTP/1.1\r\nHost: t\r\nX-Padding: {}", "x".repeat(HEAD_BYTES));
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        open.push(stream);
    }
    open
}

/// Opens idle connections until the replica has so many files open.
async fn open_until(replica: &Replica, files: usize) -> Vec<TcpStream> {
    let (address, mut open) = (address(&replica.base), Vec::new());
    while replica.metric("process_open_fds").await.unwrap() < files as f64 {
        open.push(TcpStream::connect(&address).await.unwrap());
    }
    open
}
