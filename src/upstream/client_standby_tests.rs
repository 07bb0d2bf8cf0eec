//! Tests of a client whose primary has a standby.

use super::*;

/// A primary with a standby.
fn with_standby() -> (Arc<Elsewhere>, Arc<Elsewhere>) {
    let server = Some(ServerRun { started_at: 5, is_standby: true });
    let standby = Arc::new(Elsewhere { has_log: true, server, ..Elsewhere::default() });
    let each = vec![Arc::clone(&standby) as Arc<dyn Upstream>];
    let max_lag = Duration::from_secs(60);
    let standbys = StandbySet { each, max_lag, ..StandbySet::default() };
    let primary = Elsewhere { has_log: true, standbys, ..Elsewhere::default() };
    (Arc::new(primary), standby)
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_hangs_does_not_delay_the_polls_of_the_primary() {
    let (primary, standby) = with_standby();
    let (client, _task) = watching(&primary).await;
    until(|| client.standbys.is_any_in_use()).await;
    standby.hangs.store(true, Ordering::Relaxed);
    primary.is_down.store(true, Ordering::Relaxed);
    until(|| standby.polls.load(Ordering::Relaxed) > 0).await;

    primary.is_down.store(false, Ordering::Relaxed);

    let polls = primary.polls.load(Ordering::Relaxed);
    let next = until(|| primary.polls.load(Ordering::Relaxed) > polls);
    let limit = Duration::from_millis(1_050);
    tokio::time::timeout(limit, next).await.expect("a poll within the interval");
}

#[tokio::test(start_paused = true)]
async fn a_poll_at_a_standby_does_not_make_its_reads_later_than_those_of_the_primary() {
    let (primary, standby) = with_standby();
    let (client, _task) = watching(&primary).await;
    until(|| client.standbys.is_any_in_use()).await;
    primary.is_down.store(true, Ordering::Relaxed);
    until(|| standby.polls.load(Ordering::Relaxed) > 0).await;
    let mut seen =
        ReadStamp { history: client.log.history(), ..ReadStamp::new(client.now(), None) };
    // As of a result of two reads, the later of which the standby may lack.
    seen.shown_transactions = 100;
    let polls = standby.polls.load(Ordering::Relaxed);
    until(|| standby.polls.load(Ordering::Relaxed) > polls + 2).await;

    let read_after = async |since| {
        let read = |from: Arc<dyn Upstream>| async move {
            let position = from.position().await?;
            let seen = ReadStamp::new(position.read_at, None);
            Ok(Read { value: (), seen: ReadStamp { server: position.server, ..seen } })
        };
        client.read_genes(DependsOn::AllGenes, since, read).await
    };
    assert!(read_after(None).await.is_ok());
    let found = read_after(Some(seen.order())).await.expect("there is no other server");
    assert!(!found.seen.order().supersedes(&seen.order()));
}

#[tokio::test(start_paused = true)]
async fn a_standby_must_show_the_changes_of_each_key_of_a_batch() {
    let (primary, standby) = with_standby();
    let (client, _task) = watching(&primary).await;
    until(|| client.standbys.is_any_in_use()).await;
    primary.is_down.store(true, Ordering::Relaxed);
    until(|| !client.is_primary_in_use() && standby.polls.load(Ordering::Relaxed) > 0).await;
    let hash = |byte| KeyHash([byte; 32]);
    let change = Change { scope: ChangeScope::Key(hash(2)), xid: Some(50) };
    let seen = ReadStamp::new(client.now(), "60:60:".parse().ok());
    let found = Read { value: Changes::These(vec![change]), seen };
    client.log.apply(found, BootInstant::now(), Some(1_000));

    assert!(client.api_keys(&[hash(1), hash(3)]).await.is_ok());
    assert!(client.api_keys(&[hash(1), hash(2)]).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_has_been_promoted_is_not_polled_as_one() {
    let (primary, standby) = with_standby();
    let (client, _task) = watching(&primary).await;
    until(|| client.standbys.is_any_in_use()).await;
    standby.is_promoted.store(true, Ordering::Relaxed);
    primary.is_down.store(true, Ordering::Relaxed);
    until(|| client.polls().failed > 1).await;
    assert_eq!(standby.polls.load(Ordering::Relaxed), 0, "it may have begun another history");
    standby.is_promoted.store(false, Ordering::Relaxed);
    until(|| standby.polls.load(Ordering::Relaxed) > 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_poll_of_a_standby_ends_no_polls() {
    let (primary, standby) = with_standby();
    let (client, _task) = watching(&primary).await;
    let before = panics()["standby_polls"];

    standby.panic_in("position");
    until(|| panics()["standby_polls"] > before).await;

    let polled = standby.positions.load(Ordering::Relaxed);
    until(|| standby.positions.load(Ordering::Relaxed) > polled).await;
    assert_eq!(client.polls().failed, 0);
}
