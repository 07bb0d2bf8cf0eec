//! What a read from a standby may show.

use gene_registry::registry::GeneSearch;
use gene_registry::upstream::{Postgres, RegistryReader};

use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};
use crate::support::standby::primary;
use crate::upstream::database::{TEMPLATE, config};

#[tokio::test(flavor = "multi_thread")]
async fn a_read_tells_that_it_may_show_changes_later_than_the_oldest_running_transaction() {
    need_own_servers!();
    let primary = primary().await;
    let standby = primary.start_standby().await;
    let database = sample(&primary).await;
    let url = |server: &_| PostgresServer::url(server, database.name(), READER);
    let at = |server: &_| Postgres::new(&config(&url(server)), TEMPLATE.to_owned()).unwrap();
    let (running, client) = (database.connect().await, database.connect().await);
    let touch = "update registry.gene set downloads = downloads + 1
        where id = (select min(id::text)::uuid from registry.gene)";
    running.batch_execute(&format!("begin; {touch}")).await.unwrap();
    let renamed = "update registry.gene set name = 'renamed'
        where id <> (select min(id::text)::uuid from registry.gene)";
    client.batch_execute(renamed).await.unwrap();
    primary.wait_for_replay(&standby).await;

    let search = GeneSearch::default();
    let [now, shown] = [at(&primary), at(&standby)].map(async |from| from.search(&search).await);
    let (now, shown) = (now.await.unwrap(), shown.await.unwrap());

    assert_eq!(shown.value, now.value, "it shows the change");
    let (shown, seen) = (shown.seen.shown_transactions, now.seen.transactions());
    assert!(shown >= seen, "it may show {shown} transactions, and shows {seen}");
}
