//! Batches as callers see them: what shares one, its bounds, and panics.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::*;
use crate::sync::supervised::panics;

/// Replies with the index among the callers of an entry, once the gate lets a batch pass.
#[derive(Debug)]
struct Recording {
    gate: Semaphore,
    batches: Mutex<Vec<Vec<(u8, usize)>>>,
    panics: AtomicBool,
    gives_up: bool,
}

impl Recording {
    fn new(panics: bool, gives_up: bool) -> Self {
        let (gate, panics) = (Semaphore::new(0), AtomicBool::new(panics));
        Self { gate, batches: Mutex::default(), panics, gives_up }
    }

    fn batches(&self) -> Vec<Vec<(u8, usize)>> {
        self.batches.lock().expect("not poisoned").clone()
    }
}

impl BatchExecutor<u8, usize> for Recording {
    async fn execute(
        &self,
        batch: Vec<BatchEntry<u8, usize>>,
        waiting: WaitingRequests<'_, u8, usize>,
    ) {
        let contents = batch.iter().map(|entry| (entry.request, entry.callers())).collect();
        self.batches.lock().expect("not poisoned").push(contents);
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a panic that the test asks for");
        self.gate.acquire().await.expect("it is open").forget();
        batch.into_iter().for_each(|entry| entry.reply_each(|index| index));
        if self.gives_up {
            waiting.reply_where(|request| *request < 9, |_| usize::MAX);
        }
    }

    fn weight(&self, request: &u8) -> usize {
        if *request < 20 { 1 } else { usize::from(*request) }
    }
}

fn dropping_batcher() -> Batcher<u8, usize, Recording> {
    let limits = BatchLimits {
        max_batch: 22,
        max_workers: 1,
        max_waiting: 60,
        when_full: WhenFull::DropOldest,
    };
    Batcher::new("test_batches", Recording::new(false, false), limits)
}

fn batcher(executor: Recording, max_workers: usize) -> Batcher<u8, usize, Recording> {
    let limits =
        BatchLimits { max_batch: 2, max_workers, max_waiting: 6, when_full: WhenFull::RejectNew };
    Batcher::new("test_batches", executor, limits)
}

#[tokio::test]
async fn requests_that_wait_are_merged_and_executed_in_order_of_arrival() {
    let batcher = batcher(Recording::new(false, false), 1);
    let mut first = Box::pin(batcher.run(0));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::yield_now().await;
    let waiting = join_all([1, 2, 1, 3, 2, 1].map(|request| batcher.run(request)));
    let mut waiting = Box::pin(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(batcher.run(4).await, Err(BatchError::QueueFull));
    batcher.executor().gate.add_permits(3);
    assert_eq!(first.await, Ok(0));
    assert_eq!(waiting.await, [0, 0, 1, 0, 1, 2].map(Ok));
    let expected = [vec![(0, 1)], vec![(1, 3), (2, 2)], vec![(3, 1)]];
    assert_eq!(batcher.executor().batches(), expected);
}

#[tokio::test]
async fn a_full_queue_gives_up_the_oldest_and_batches_end_at_a_weight() {
    let batcher = dropping_batcher();
    let mut first = Box::pin(batcher.run(0));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::yield_now().await;
    // Those from 20 on weigh as much as their number.
    let waiting = join_all([30, 21, 25, 3, 4].map(|request| batcher.run(request)));
    let mut waiting = Box::pin(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    batcher.executor().gate.add_permits(4);
    assert_eq!(first.await, Ok(0));
    assert_eq!(waiting.await, [Err(BatchError::QueueFull), Ok(0), Ok(0), Ok(0), Ok(0)]);
    let expected = [vec![(0, 1)], vec![(21, 1)], vec![(25, 1)], vec![(3, 1), (4, 1)]];
    assert_eq!(batcher.executor().batches(), expected);
}

#[tokio::test]
async fn a_request_that_is_heavier_than_all_may_be_waits_alone() {
    let batcher = dropping_batcher();
    let mut first = Box::pin(batcher.run(0));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::yield_now().await;
    let mut waiting = Box::pin(join_all([30, 200].map(|request| batcher.run(request))));
    assert!((&mut waiting).now_or_never().is_none());
    batcher.executor().gate.add_permits(2);
    assert_eq!(first.await, Ok(0));
    assert_eq!(waiting.await, [Err(BatchError::QueueFull), Ok(0)]);
}

#[tokio::test]
async fn a_caller_that_leaves_before_its_batch_begins_is_left_out() {
    let batcher = batcher(Recording::new(false, false), 1);
    let mut first = Box::pin(batcher.run(0));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::yield_now().await;
    for request in [1, 2, 2] {
        assert!(batcher.run(request).now_or_never().is_none());
    }
    let mut stays = Box::pin(batcher.run(2));
    assert!((&mut stays).now_or_never().is_none());
    batcher.executor().gate.add_permits(2);
    assert_eq!((first.await, stays.await), (Ok(0), Ok(0)));
    assert_eq!(batcher.executor().batches(), [vec![(0, 1)], vec![(2, 1)]]);
}

#[tokio::test]
async fn as_many_batches_as_allowed_are_under_way_at_once() {
    let batcher = batcher(Recording::new(false, false), 3);
    let mut all = Vec::new();
    for request in 0..5 {
        let mut reply = Box::pin(batcher.run(request));
        assert!((&mut reply).now_or_never().is_none());
        tokio::task::yield_now().await;
        all.push(reply);
    }
    assert_eq!(batcher.executor().batches(), [[(0, 1)], [(1, 1)], [(2, 1)]]);
    batcher.executor().gate.add_permits(4);
    assert_eq!(join_all(all).await, [Ok(0); 5]);
    assert_eq!(batcher.executor().batches()[3], [(3, 1), (4, 1)]);
}

#[tokio::test]
async fn an_executor_can_reply_to_requests_that_still_wait() {
    let batcher = batcher(Recording::new(false, true), 1);
    let mut first = Box::pin(batcher.run(0));
    assert!((&mut first).now_or_never().is_none());
    tokio::task::yield_now().await;
    let waiting = join_all([1, 9, 1, 9, 2].map(|request| batcher.run(request)));
    let mut waiting = Box::pin(waiting);
    assert!((&mut waiting).now_or_never().is_none());
    batcher.executor().gate.add_permits(2);
    let replies = waiting.await;
    assert_eq!(replies, [usize::MAX, 0, usize::MAX, 1, usize::MAX].map(Ok));
    assert_eq!(lock(&batcher.0.queue).weight, 0);
}

#[tokio::test]
async fn after_a_panic_the_callers_of_the_batch_get_an_error_and_all_others_a_reply() {
    let batcher = batcher(Recording::new(true, false), 1);
    batcher.executor().gate.add_permits(3);
    let before = panics()["test_batches"];
    let replies = join_all((0..5).map(|request| batcher.run(request))).await;
    let failed = Err(BatchError::TaskPanicked(TaskPanicked));
    assert_eq!(replies, [failed, failed, Ok(0), Ok(0), Ok(0)]);
    assert_eq!(join_all([batcher.run(7), batcher.run(7)]).await, [Ok(0), Ok(1)]);
    assert_eq!(panics()["test_batches"], before + 1);
}

#[test]
fn nobody_waits_forever_on_a_runtime_that_shuts_down() {
    let reply = crate::sync::ending_runtime::on_an_ending_runtime(async {
        batcher(Recording::new(false, false), 1).run(1).await
    });
    assert_eq!(reply, Some(Err(BatchError::TaskPanicked(TaskPanicked))));
}
