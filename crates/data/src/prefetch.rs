//! Runs an iterator ahead on a separate thread. This module is independent of images.

use crate::error::{DataError, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// An iterator whose items are produced up to `ahead` items before they are requested.
///
/// The first error ends it. A panic of the inner iterator also ends it, and is returned as an
/// error. Dropping it stops the thread after the current item, and waits for the thread.
#[derive(Debug)]
pub(crate) struct Prefetched<T> {
    /// `None` once the iteration has ended.
    receiver: Option<Receiver<Result<T>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Prefetched<T> {
    /// Starts the thread. At most `ahead` finished items are queued. `ahead` is at least 1.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(
        items: impl Iterator<Item = Result<T>> + Send + 'static,
        ahead: usize,
    ) -> Result<Self> {
        let (sender, receiver) = sync_channel(ahead.max(1) - 1);
        let thread = std::thread::Builder::new()
            .name("ternion-prefetch".to_string())
            .spawn(move || send_all(items, &sender))
            .map_err(DataError::PrefetchStart)?;
        Ok(Prefetched { receiver: Some(receiver), thread: Some(thread) })
    }
}

impl<T> Prefetched<T> {
    fn stop(&mut self) {
        // Without the receiver, the thread's pending or next send fails, and the thread ends.
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches panics of the items. The result of any other panic is ignored.
            let _ = thread.join();
        }
    }
}

impl<T> Iterator for Prefetched<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let item = self.receiver.as_ref()?.recv().ok();
        if !matches!(item, Some(Ok(_))) {
            self.stop();
        }
        item
    }
}

impl<T> Drop for Prefetched<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn send_all<T>(items: impl Iterator<Item = Result<T>>, sender: &SyncSender<Result<T>>) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        for item in items {
            if sender.send(item).is_err() {
                return;
            }
        }
    }));
    if let Err(payload) = caught {
        // The send fails only if the receiver has been dropped.
        let _ = sender.send(Err(DataError::PrefetchPanic(panic_text(&*payload))));
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A counter that exposes how many items it produced, and whether it has been dropped.
    struct Counter {
        produced: Arc<AtomicUsize>,
        _alive: Arc<()>,
        fail_at: usize,
    }

    impl Iterator for Counter {
        type Item = Result<usize>;

        fn next(&mut self) -> Option<Result<usize>> {
            let number = self.produced.fetch_add(1, Ordering::SeqCst);
            Some(if number == self.fail_at { Err(DataError::ZeroBatchSize) } else { Ok(number) })
        }
    }

    fn counter(fail_at: usize) -> (Counter, Arc<AtomicUsize>, Arc<()>) {
        let (produced, alive) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
        (Counter { produced: produced.clone(), _alive: alive.clone(), fail_at }, produced, alive)
    }

    #[test]
    fn items_are_in_order_and_the_iterator_is_fused() {
        let mut items = Prefetched::start((0..100).map(Ok), 3).unwrap();
        let collected: Vec<i32> = items.by_ref().map(|item| item.unwrap()).collect();
        assert_eq!(collected, (0..100).collect::<Vec<_>>());
        assert!(items.next().is_none());
    }

    #[test]
    fn an_early_drop_stops_and_joins_the_thread() {
        for ahead in 0..4 {
            let (items, produced, alive) = counter(usize::MAX);
            let mut items = Prefetched::start(items, ahead).unwrap();
            assert_eq!(items.next().unwrap().unwrap(), 0);
            drop(items);
            assert_eq!(Arc::strong_count(&alive), 1, "the thread still holds its iterator");
            // One item received, `ahead - 1` queued, one held by the thread, and one received in
            // between.
            assert!(produced.load(Ordering::SeqCst) <= ahead + 3, "ahead {ahead}: {produced:?}");
        }
    }

    #[test]
    fn at_most_the_requested_number_of_items_is_queued() {
        let (items, produced, _alive) = counter(usize::MAX);
        let _items = Prefetched::start(items, 3).unwrap();
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while produced.load(Ordering::SeqCst) < 3 {
            assert!(std::time::Instant::now() < patience, "nothing is made ahead");
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(produced.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn an_error_is_the_last_item() {
        let (items, _, _) = counter(2);
        let mut items = Prefetched::start(items, 1).unwrap();
        assert_eq!((items.next().unwrap().unwrap(), items.next().unwrap().unwrap()), (0, 1));
        assert!(matches!(items.next(), Some(Err(DataError::ZeroBatchSize))));
        assert!(items.next().is_none());
    }

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let panicking =
            (0..3).map(|number| if number == 2 { panic!("no number {number}") } else { Ok(number) });
        let collected: Vec<_> = Prefetched::start(panicking, 2).unwrap().collect();
        assert_eq!(collected.len(), 3);
        let message = collected[2].as_ref().unwrap_err().to_string();
        assert_eq!(message, "prefetch: the thread panicked: no number 2");
    }
}
