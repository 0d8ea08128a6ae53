//! The primitives of `std` that the protocol uses, and its tuning constants. The model test
//! compiles the protocol with `model/sync.rs` instead of this file.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Mutex, MutexGuard};
pub(super) use std::thread::{Thread, current, park, yield_now};

/// The maximum number of spinning workers: with the caller, as many threads as a small matrix
/// product has tiles (`ENOUGH_TILES` of matmul). When all 15 workers of a 16-core machine were
/// spinning, a training step of 0.5 ms took a fifth longer than on 4 threads.
pub(super) const MAX_SPINNING_WORKERS: usize = 3;
/// The number of rounds in which a spinning worker finds no job before it returns to the pool:
/// about 100 us, in which Python prepares the arguments of the next op.
pub(super) const SPIN_ROUNDS: usize = 1 << 6;
/// The number of pauses in a round, after which the worker yields its core to other runnable
/// threads.
pub(super) const PAUSES_PER_ROUND: usize = 1 << 5;
/// The number of pauses of a caller that waits for the last pieces, before it parks.
pub(super) const PAUSES_BEFORE_PARK: usize = 1 << 12;
