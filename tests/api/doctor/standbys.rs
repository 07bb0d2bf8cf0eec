//! Standbys.

use super::{Findings, as_reader, healthy};
use crate::support::need_own_servers;
use crate::support::replica::READER;
use crate::support::standby::primary;

#[tokio::test(flavor = "multi_thread")]
async fn standbys_that_cannot_replace_the_primary_are_warnings() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let database = healthy(&primary).await;
    primary.wait_for_replay(&standby).await;
    let mut config = as_reader(&database);
    config.upstream.read_urls = vec![standby.url(database.name(), READER).into()];
    config.upstream.max_lag_ms = 60_000;
    Findings::of(&config).await.assert_only(&[]);
    let name = "entry 1 of upstream.read_urls";

    standby.pause_replay().await;
    let write = "insert into registry.change (scope) values ('genes')";
    database.connect().await.batch_execute(write).await.unwrap();
    config.upstream.max_lag_ms = 300;
    let findings = Findings::of(&config).await;
    findings.assert_warning("standbys", &[name, "lags by more than", "300 ms"]);
    findings.assert_only(&["standbys"]);
    standby.resume_replay().await;
    primary.wait_for_replay(&standby).await;

    let mut elsewhere = config.clone();
    elsewhere.upstream.read_urls = vec![standby.url("postgres", &standby.superuser()).into()];
    let findings = Findings::of(&elsewhere).await;
    findings.assert_warning("standbys", &[name, "another database"]);

    standby.promote().await;
    let findings = Findings::of(&config).await;
    findings.assert_warning("standbys", &[name, "is on timeline 2, and the primary on 1"]);
    findings.assert_only(&["standbys"]);

    standby.kill().await;
    let findings = Findings::of(&config).await;
    findings.assert_warning("standbys", &[name, "cannot be read"]);
    findings.assert_only(&["standbys"]);

    let hide = "revoke execute on function pg_control_system() from public";
    database.connect().await.batch_execute(hide).await.unwrap();
    let findings = Findings::of(&config).await;
    findings.assert_warning("standbys", &["does not report its replication position"]);
}
