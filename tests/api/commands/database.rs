//! `migrate`, `seed`, `maintain`

use gene_registry::keys::ApiKey;
use gene_registry::registry::Catalogue;

use super::{TIMEOUT, run_on};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::process::Signal;
use crate::support::replica::{READER, Replica, config, long_timeouts};
use crate::support::scratch_folder;
use crate::support::wait::eventually;

async fn empty() -> Database<'static> {
    PostgresServer::shared().await.create_database().await
}

async fn with_schema() -> Database<'static> {
    let database = empty().await;
    run_on(&database.url(), ["migrate"]).await.ok();
    database
}

async fn number(database: &Database<'_>, sql: &str) -> i64 {
    database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
}

async fn genes(database: &Database<'_>) -> i64 {
    number(database, "select count(*) from registry.gene").await
}

async fn keys(database: &Database<'_>) -> i64 {
    number(database, "select count(*) from registry.api_key").await
}

/// The status that a request with the key gets from a new replica.
async fn status_with(database: &Database<'_>, key: &str) -> u16 {
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    let replica = Replica::start(&config).await;
    replica.get("/genes", Some(key)).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_creates_the_schema_once_and_reports_it() {
    let database = empty().await;
    let first = run_on(&database.url(), ["migrate"]).await.ok();
    let second = run_on(&database.url(), ["migrate"]).await.ok();
    assert!(first.stdout.contains("migrations applied"), "{first:?}");
    assert_eq!(second.stdout, "The schema is up to date.\n");
    assert_eq!(genes(&database).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_migrations_are_safe() {
    let database = empty().await;
    let url = database.url();
    let (one, other) = tokio::join!(run_on(&url, ["migrate"]), run_on(&url, ["migrate"]));
    let said = [one.ok().stdout, other.ok().stdout];
    assert_eq!(said.iter().filter(|text| text.contains("applied")).count(), 1, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_loads_the_sample_prints_one_working_key_and_does_nothing_the_second_time() {
    let database = with_schema().await;
    let first = run_on(&database.url(), ["seed"]).await.ok();
    let key = first.stdout.strip_suffix('\n').unwrap();
    assert!(key.parse::<ApiKey>().is_ok(), "a key alone on standard output: {key:?}");
    assert!(!first.stderr.contains(key), "{first:?}");
    let audited = first.stderr.lines().filter(|line| line.contains("gene_registry::audit"));
    let audited: Vec<_> = audited.filter(|line| line.contains(&key[..11])).collect();
    assert_eq!(audited.len(), 1, "{first:?}");
    let sample = Catalogue::sample().unwrap().genes.len();
    assert_eq!(genes(&database).await, sample as i64);
    assert_eq!(status_with(&database, key).await, 200);
    let limit = number(&database, "select rate_limit_per_minute::bigint from registry.api_key");
    assert_eq!(limit.await, 5000);

    for again in [&["seed"][..], &["seed", "--genes", "7"]] {
        let again = run_on(&database.url(), again).await.ok();
        assert!(again.stdout.contains("nothing was changed"), "{again:?}");
        assert!(!again.stdout.contains("gr_"), "{again:?}");
        assert_eq!((genes(&database).await, keys(&database).await), (sample as i64, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_takes_the_key_from_a_file_and_does_not_print_it() {
    let database = with_schema().await;
    let key = ApiKey::generate().unwrap();
    let file = scratch_folder("key-file").join("key");
    std::fs::write(&file, format!("# the key\n\n  {}\n", key.expose())).unwrap();
    let file = file.to_str().unwrap();
    let seeded = run_on(&database.url(), ["seed", "--key-file", file]).await.ok();
    assert!(!format!("{seeded:?}").contains(key.expose()), "{seeded:?}");
    assert_eq!(status_with(&database, key.expose()).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_refuses_a_key_file_without_a_key_before_it_changes_anything() {
    let database = with_schema().await;
    let file = scratch_folder("key-file").join("key");
    let text = "gr_12345678_secretsecretsecretsecretsecretse000000";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let refused = run_on(&database.url(), ["seed", "--key-file", file]).await;
    let refused = refused.failed(1, &[text, "secretsecret"]);
    assert!(refused.stderr.contains(file), "{refused:?}");
    run_on(&database.url(), ["seed", "--key-file", "/nowhere/key"]).await.failed(1, &[]);
    assert_eq!(genes(&database).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_generates_the_given_number_of_genes_reproducibly() {
    let (one, other) = (with_schema().await, with_schema().await);
    let mut sums = Vec::new();
    for (database, seed) in [(&one, "5"), (&other, "5")] {
        let args = ["seed", "--genes", "500", "--seed", seed];
        let seeded = run_on(&database.url(), args).await.ok();
        assert_eq!(status_with(database, seeded.stdout.trim()).await, 200);
        assert_eq!(genes(database).await, 500);
        let sum = "select sum(hashtextextended(id::text || name || domain || downloads, 0))::text
            from registry.gene";
        let row = database.connect().await.query_one(sum, &[]).await.unwrap();
        sums.push(row.get::<_, String>(0));
    }
    assert_eq!(sums[0], sums[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_without_an_interval_makes_one_round_and_ends() {
    let database = with_schema().await;
    run_on(&database.url(), ["seed"]).await.ok();
    let worst = "(select id from registry.gene where domain = 'search' and published
        order by fitness_score, id desc limit 1)";
    let client = database.connect().await;
    let row = client
        .query_one(
            &format!(
                "update registry.gene set fitness_score = 99
        where id = {worst} returning id"
            ),
            &[],
        )
        .await
        .unwrap();
    let id: uuid::Uuid = row.get(0);
    let old = "insert into registry.change (scope, changed_in, changed_at)
        values ('all', pg_current_xact_id(), now() - interval '49 h')";
    client.execute(old, &[]).await.unwrap();

    run_on(&database.url(), ["maintain"]).await.ok();

    let rank = "select arena_rank::bigint from registry.gene where id = $1";
    assert_eq!(client.query_one(rank, &[&id]).await.unwrap().get::<_, i64>(0), 1);
    let left = "select count(*) from registry.change where changed_at < now() - interval '48 h'";
    assert_eq!(number(&database, left).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_reports_a_locked_table_with_the_remedy_and_goes_on_when_it_is_free() {
    let database = with_schema().await;
    run_on(&database.url(), ["seed"]).await.ok();
    let client = database.connect().await;
    client.execute("update registry.gene set fitness_score = 0", &[]).await.unwrap();
    let holder = database.lock_genes().await;
    let file = scratch_folder("maintain").join("state");
    let maintain = super::gene_registry(["maintain", "--every=1s", "--state-file"]).arg(&file);
    let maintain = maintain.env("DATABASE_URL", database.url()).start();
    let state = || std::fs::read_to_string(&file).unwrap_or_default();
    eventually(TIMEOUT, "the log says what to do", || async {
        let log = maintain.stderr();
        ["has locked a table", "lock timeout", "pg_locks"].iter().all(|told| log.contains(told))
    })
    .await;
    eventually(TIMEOUT, "the round is reported", async || state() == "failed\n").await;
    assert!(maintain.is_running(), "{}", maintain.report());
    holder.batch_execute("rollback").await.unwrap();
    eventually(TIMEOUT, "ranks by id, and no marks", || async {
        let wrong = "select count(*) from (select arena_rank, published,
                row_number() over (partition by domain, published order by id) as place
                from registry.gene) g
            where arena_rank <> case when published then place else 0 end";
        let marks = "select count(*) from registry.rank_due";
        (number(&database, wrong).await, number(&database, marks).await) == (0, 0)
    })
    .await;
    eventually(TIMEOUT, "the round is reported", async || state() == "maintained\n").await;
    maintain.signal(Signal::Term);
    assert_eq!(maintain.wait_exit(TIMEOUT).await.code(), Some(0), "{}", maintain.report());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_cannot_reach_the_database_say_so_without_its_password() {
    let secret = "s3cret-of-the-database";
    for url in [
        format!("postgres://user:{secret}@127.0.0.1:1/none"),
        format!("postgres://user:{secret}@[::1/none"),
        format!("postgres://user:{secret}%zz@127.0.0.1:1/none"),
        format!("host=127.0.0.1 port=1 user=u password={secret}"),
        format!("mysql://user:{secret}@127.0.0.1/none"),
        format!("postgres://user:{secret}@127.0.0.1:port/none?nonsense={secret}"),
    ] {
        for command in ["migrate", "seed", "maintain"] {
            run_on(&url, [command]).await.failed(1, &[secret]);
        }
        let list = ["api-key", "list", "--direct", "--owner", "a"];
        run_on(&url, list).await.failed(1, &[secret]);
    }
    for command in ["migrate", "seed", "maintain"] {
        let ended = super::run(super::gene_registry([command])).await.failed(1, &[]);
        assert!(ended.stderr.contains("DATABASE_URL"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_file_is_named_and_nothing_is_loaded() {
    let database = with_schema().await;
    let file = scratch_folder("key").join("api-key.txt");
    let seed = ["seed", "--key-file", file.to_str().unwrap()];
    let ended = run_on(&database.url(), seed).await.failed(1, &[]);
    for told in [file.to_str().unwrap(), "--key-file", "must hold the key"] {
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    }
    assert!(!file.exists());
    assert_eq!(genes(&database).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_refuses_an_invalid_interval_before_it_connects() {
    for wrong in ["0s", "-1s", "soon", "25h", ""] {
        let every = format!("--every={wrong}");
        let ended =
            run_on("postgres://127.0.0.1:1/none", ["maintain", &every]).await.failed(2, &[]);
        assert!(ended.stderr.contains("--every"), "{wrong}: {ended:?}");
    }
}
