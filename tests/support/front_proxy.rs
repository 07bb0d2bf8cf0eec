//! Proxies that terminate TLS, with the files of this repository, before two replicas.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request, Version};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::authority::{Authority, VALID};
use super::process::{Launch, Process, find_program};
use super::replica::Response;
use super::wait::eventually;
use super::{free_port, scratch_folder};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The addresses of the replicas. All have the same ports, because Caddy knows one port for all probes.
pub(crate) const HOSTS: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// The ports of each replica.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) public: u16,
    pub(crate) ops: u16,
}

/// Which proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrontProxyKind {
    HaProxy,
    Nginx,
    Caddy,
}

/// A running proxy. Dropping it ends it.
pub(crate) struct FrontProxy {
    process: Process,
    /// Its URL, without a path.
    pub(crate) url: String,
    authority: Authority,
}

impl FrontProxy {
    /// Starts it before replicas at [`HOSTS`] with these ports.
    pub(crate) async fn start(kind: FrontProxyKind, replicas: Ports) -> Self {
        let (authority, folder, port) =
            (Authority::new(), scratch_folder("front-proxy"), free_port());
        let files = authority.certify("localhost", VALID);
        let files = [&files.0, &files.1].map(|file| file.to_str().unwrap());
        let launch = match kind {
            FrontProxyKind::HaProxy => haproxy(&folder, port, replicas, files),
            FrontProxyKind::Nginx => nginx(&folder, port, replicas, files),
            FrontProxyKind::Caddy => caddy(&folder, port, replicas, files),
        };
        let proxy =
            Self { process: launch.start(), url: format!("https://localhost:{port}"), authority };
        let client = proxy.client(Version::HTTP_11);
        let url = format!("{}/docs", proxy.url);
        eventually(START_TIMEOUT, "the proxy has found a replica", async || {
            assert!(proxy.process.is_running(), "{kind:?}: {}", proxy.process.report());
            let response = client.send(Method::GET, &url, &[]).await;
            response.is_ok_and(|response| response.status == 200)
        })
        .await;
        proxy
    }

    /// A client that speaks this protocol and trusts the proxy's certificate.
    pub(crate) fn client(&self, version: Version) -> TlsClient {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.authority.file).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
        let connector = if version == Version::HTTP_2 {
            connector.enable_http2().build()
        } else {
            connector.enable_http1().build()
        };
        let client = Client::builder(TokioExecutor::new());
        TlsClient { client: client.clone().http2_only(version == Version::HTTP_2).build(connector) }
    }

    /// What it has logged.
    pub(crate) fn report(&self) -> String {
        self.process.report()
    }
}

/// An HTTP client over TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl TlsClient {
    /// The response, or the reason why there is none.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response, String> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).unwrap();
        let response = self.client.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.map_err(|error| format!("{error:?}"))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Response { status, headers, text })
    }
}

/// The file with each text replaced, in the folder; every text must occur.
fn adapted(folder: &Path, file: &str, changes: &[(&str, String)]) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut text = std::fs::read_to_string(&source).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{file} has no {old}");
        text = text.replace(old, new);
    }
    let path = folder.join(source.file_name().unwrap());
    std::fs::write(&path, text).unwrap();
    path
}

fn haproxy(folder: &Path, port: u16, replicas: Ports, files: [&str; 2]) -> Launch {
    let certificate = folder.join("tls.pem");
    let parts = files.map(|file| std::fs::read_to_string(file).unwrap());
    std::fs::write(&certificate, parts.concat()).unwrap();
    let Ports { public, ops } = replicas;
    let servers =
        HOSTS.map(|host| format!("    server r{host} {host}:{public} check port {ops}\n"));
    let file = folder.join("servers.cfg");
    std::fs::write(&file, format!("backend api from service\n{}", servers.concat())).unwrap();
    let bind = format!("127.0.0.1:{port} ssl crt {} alpn h2,http/1.1", certificate.display());
    Launch::new("haproxy", find_program("haproxy"))
        .args(["-db", "-f"])
        .arg(adapted(folder, "config/compose/haproxy.cfg", &[]))
        .arg("-f")
        .arg(file)
        .env("HAPROXY_BIND", bind)
}

fn nginx(folder: &Path, port: u16, replicas: Ports, files: [&str; 2]) -> Launch {
    let public = replicas.public;
    let in_folder = folder.display();
    // Its folders for temporary files are those of the system otherwise.
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {in_folder}/{name};"));
    let file = adapted(
        folder,
        "config/proxies/nginx.conf",
        &[
            ("127.0.0.1:8080", format!("{}:{public}", HOSTS[0])),
            ("127.0.0.2:8080", format!("{}:{public}", HOSTS[1])),
            ("listen 443", format!("listen 127.0.0.1:{port}")),
            ("api.example", "localhost".to_owned()),
            ("/etc/nginx/tls.crt", files[0].to_owned()),
            ("/etc/nginx/tls.key", files[1].to_owned()),
            ("server_tokens off;", format!("server_tokens off; {}", temporary.concat())),
        ],
    );
    Launch::new("nginx", find_program("nginx"))
        .args(["-e", "stderr", "-g"])
        .arg(format!("daemon off; pid {in_folder}/nginx.pid;"))
        .arg("-c")
        .arg(file)
}

fn caddy(folder: &Path, port: u16, replicas: Ports, files: [&str; 2]) -> Launch {
    let Ports { public, ops } = replicas;
    let file = adapted(
        folder,
        "config/proxies/Caddyfile",
        &[
            ("127.0.0.1:8080", format!("{}:{public}", HOSTS[0])),
            ("127.0.0.2:8080", format!("{}:{public}", HOSTS[1])),
            ("health_port 9464", format!("health_port {ops}")),
            ("https://api.example", format!("https://localhost:{port}")),
            ("/etc/caddy/tls.crt", files[0].to_owned()),
            ("/etc/caddy/tls.key", files[1].to_owned()),
            ("admin off", format!("admin off\n\thttp_port {}\n\thttps_port {port}", free_port())),
        ],
    );
    Launch::new("caddy", find_program("caddy"))
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(file)
        .env("XDG_DATA_HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
}
