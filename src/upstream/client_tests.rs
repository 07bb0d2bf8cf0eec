//! Tests of the estimate of the upstream's clock.

use std::sync::Mutex;

use async_trait::async_trait;
use jiff::SignedDuration;

use super::*;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash,
};
use crate::upstream::Snapshot;

/// Says how far its clock is ahead of this machine's, and has a change log or none.
struct Elsewhere {
    ahead: Mutex<SignedDuration>,
    has_log: bool,
}

impl Elsewhere {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.ahead.lock().expect("nothing panics")
    }
}

#[async_trait]
impl Upstream for Elsewhere {
    async fn search(&self, _: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn page(&self, _: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn phenotype(&self, _: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn insights(
        &self,
        _: &DomainName,
        _: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn api_keys(
        &self,
        _: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn changes(&self, _: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        if self.has_log {
            let snapshot = "10:10:".parse().ok();
            Ok(Read { value: Changes::These(vec![]), seen: ReadStamp::new(self.now(), snapshot) })
        } else {
            Ok(Read { value: Changes::NoLog, seen: ReadStamp::new(self.now(), None) })
        }
    }

    async fn ping(&self) -> Result<Timestamp, UpstreamError> {
        Ok(self.now())
    }
}

#[track_caller]
fn assert_follows(client: &UpstreamClient, ahead: SignedDuration) {
    let found = client.now().duration_since(Timestamp::now());
    assert!((found - ahead).abs() < SignedDuration::from_secs(10), "{found:?} {ahead:?}");
}

#[tokio::test]
async fn the_clock_follows_the_database_with_and_without_a_change_log() {
    for has_log in [true, false] {
        let hour = SignedDuration::from_hours(1);
        let elsewhere = Arc::new(Elsewhere { ahead: Mutex::new(hour), has_log });
        let client = UpstreamClient::new(Arc::clone(&elsewhere) as Arc<dyn Upstream>);
        assert_follows(&client, SignedDuration::ZERO);
        for ahead in [hour, -2 * hour, SignedDuration::ZERO, hour] {
            *elsewhere.ahead.lock().expect("nothing panics") = ahead;
            client.poll().await;
            assert_follows(&client, ahead);
        }
        assert!(client.is_settled() && client.is_in_use());
    }
}

#[test]
fn the_clock_assumes_the_middle_of_the_round_trip() {
    let clock = Clock::default();
    let asked = Timestamp::now() - SignedDuration::from_secs(100);
    clock.set(asked + SignedDuration::from_secs(50), asked);
    let off = clock.now().duration_since(Timestamp::now()).abs();
    assert!(off < SignedDuration::from_secs(5), "{off:?}");
}
