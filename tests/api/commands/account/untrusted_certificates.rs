//! Servers with a certificate of a private authority.

use super::AccountSetup;
use crate::commands::run;
use crate::support::authority::{Authority, EXPIRED, VALID};

#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_an_untrusted_certificate_has_the_remedy() {
    let authority = Authority::new();
    for (years, is_good) in [(VALID, true), (EXPIRED, false)] {
        let files = authority.certify("localhost", years);
        // Only the public listener serves TLS itself, so it stands for the proxy in front of a
        // control listener.
        let setup = AccountSetup::with(|config| {
            (config.server.tls.cert_file, config.server.tls.key_file) =
                (Some(files.0), Some(files.1));
        })
        .await;
        let port = setup.replica.base.trim_end_matches("/v1").rsplit_once(':').unwrap().1;
        let server = format!("https://localhost:{port}");
        let login = || setup.ana.command(&["login", "--server", &server]);
        let ended = run(login()).await.failed(1, &[]);
        assert!(ended.stderr.contains("SSL_CERT_FILE=ca.pem gene-registry"), "{ended:?}");
        assert!(ended.stderr.contains(&server), "{ended:?}");
        let ended = run(login().env("SSL_CERT_FILE", &authority.file)).await.failed(1, &[]);
        let trusted = ended.stderr.contains("Check that it is the address of the control listener");
        assert_eq!(trusted, is_good, "{ended:?}");
        assert_eq!(ended.stderr.contains("SSL_CERT_FILE"), !is_good, "{ended:?}");
    }
    let setup = AccountSetup::with(|_| {}).await;
    let ended = setup.ana.run(&["login", "--server", "http://127.0.0.1:1"]).await.failed(1, &[]);
    assert!(!ended.stderr.contains("SSL_CERT_FILE"), "another error without the remedy: {ended:?}");
}
