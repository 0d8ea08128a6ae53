//! The submission queue, with a fake driver that records what it receives.

use super::*;
use crate::driver::launch::LaunchAttributes;

/// A fake driver that records the numbers that it receives as parameters. Each launch takes
/// `pause`, and the launch of the number in `fails` fails.
#[derive(Default)]
struct Driver {
    numbers: Mutex<Vec<u64>>,
    threads: Mutex<Vec<std::thread::ThreadId>>,
    functions: Mutex<Vec<usize>>,
    pause: Duration,
    fails: Option<u64>,
}

impl LaunchTarget for Driver {
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult {
        // SAFETY: the tests launch with three numbers.
        let [number, twice, grid] = unsafe { *parameters.cast::<[u64; 3]>() };
        assert_eq!((twice, grid), (number * 2, u64::from(config.grid[0])));
        std::thread::sleep(self.pause);
        self.numbers.lock().push(number);
        self.threads.lock().push(std::thread::current().id());
        self.functions.lock().push(config.function as usize);
        match self.fails == Some(number) {
            true => sys::CUresult::CUDA_ERROR_INVALID_VALUE,
            false => sys::CUresult::CUDA_SUCCESS,
        }
    }
}

/// Returns the configuration of one block of one thread.
fn plain() -> LaunchConfig {
    let attributes = LaunchAttributes::NONE;
    LaunchConfig { function: std::ptr::null_mut(), grid: [1; 3], block: [1; 3], shared_bytes: 0, attributes }
}

fn config_of(blocks: u32) -> LaunchConfig {
    LaunchConfig { grid: [blocks, 1, 1], ..plain() }
}

fn push(queue: &Arc<SubmissionQueue<Driver>>, number: u64, at_once: bool) -> sys::CUresult {
    let grid = (number % 7) as u32;
    let config = config_of(grid);
    // SAFETY: `Driver` takes three numbers.
    unsafe { queue.push("test", config, &[number, number * 2, u64::from(grid)], at_once, |_| ()) }
}

fn queue(driver: Driver) -> Arc<SubmissionQueue<Driver>> {
    Arc::new(SubmissionQueue::with_thread(driver, true))
}

#[test]
fn launches_arrive_in_their_order_whoever_submits_them() {
    let queue = queue(Driver::default());
    let mut sent = 0;
    for round in 0..200u64 {
        for _ in 0..round * 17 % 97 {
            assert_eq!(push(&queue, sent, sent % 31 == 0), sys::CUresult::CUDA_SUCCESS);
            sent += 1;
        }
        // Sometimes wait until the thread sleeps.
        match round % 50 {
            49 => std::thread::sleep(5 * POLL_TIME),
            _ if round % 3 == 0 => queue.drain(),
            _ => {}
        }
    }
    // These are left to the thread.
    for _ in 0..3 * DIRECT_LAUNCHES {
        assert_eq!(push(&queue, sent, false), sys::CUresult::CUDA_SUCCESS);
        sent += 1;
    }
    while queue.target.numbers.lock().len() < sent as usize {
        std::thread::sleep(POLL_TIME);
    }
    assert_eq!(*queue.target.numbers.lock(), (0..sent).collect::<Vec<u64>>());
    let own = std::thread::current().id();
    let threads = queue.target.threads.lock().clone();
    assert!(threads.contains(&own) && threads.iter().any(|thread| *thread != own));
    queue.stop();
}

#[test]
fn launches_wait_for_a_free_slot() {
    let queue = queue(Driver { pause: Duration::from_micros(1), ..Driver::default() });
    let count = 3 * SLOTS as u64;
    (0..count).for_each(|number| assert_eq!(push(&queue, number, false), sys::CUresult::CUDA_SUCCESS));
    queue.stop();
    assert_eq!(*queue.target.numbers.lock(), (0..count).collect::<Vec<u64>>());
}

#[test]
fn several_threads_push_each_in_its_order() {
    let queue = queue(Driver::default());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..2000 {
                    assert_eq!(push(queue, thread * 10_000 + number, false), sys::CUresult::CUDA_SUCCESS);
                    if number % 500 == 499 {
                        queue.drain();
                        let own = thread * 10_000 + number;
                        assert!(queue.target.numbers.lock().contains(&own));
                    }
                }
            });
        }
    });
    queue.stop();
    let numbers = queue.target.numbers.lock().clone();
    for thread in 0..3 {
        let own: Vec<u64> = numbers.iter().copied().filter(|number| number / 10_000 == thread).collect();
        assert_eq!(own, (thread * 10_000..thread * 10_000 + 2000).collect::<Vec<u64>>());
    }
}

#[test]
fn an_isolated_launch_is_submitted_by_its_own_thread() {
    let queue = queue(Driver::default());
    for number in 0..40 {
        assert_eq!(push(&queue, number, false), sys::CUresult::CUDA_SUCCESS);
        assert_eq!(queue.target.numbers.lock().len() as u64, number + 1, "made before it returns");
        queue.drain();
    }
    assert!(queue.handle.lock().is_none(), "no thread was woken");
}

/// Pushes enough launches that the queue's thread submits some of them, and returns the error that
/// the launches themselves returned.
fn push_many(queue: &Arc<SubmissionQueue<Driver>>) -> Option<sys::CUresult> {
    let failed = |code: &sys::CUresult| *code != sys::CUresult::CUDA_SUCCESS;
    let codes: Vec<_> = (0..100).map(|number| push(queue, number, false)).filter(failed).collect();
    codes.first().copied()
}

/// Returns the op and the status of a launch that the driver rejected.
fn op_and_status(launch_error: LaunchError) -> (&'static str, sys::CUresult) {
    match launch_error.reason {
        LaunchErrorReason::Driver(code) => (launch_error.op, code),
        LaunchErrorReason::Kernel(error) => panic!("{error}"),
    }
}

#[test]
fn a_later_error_of_the_driver_is_reported_once_with_the_op() {
    let queue = queue(Driver { fails: Some(60), ..Driver::default() });
    let at_once = push_many(&queue);
    queue.drain();
    // The thread may have fallen asleep if it was kept waiting.
    let reported = queue.take_error_of_this_thread().map(op_and_status);
    assert_eq!(
        at_once.map(|code| ("test", code)).or(reported),
        Some(("test", sys::CUresult::CUDA_ERROR_INVALID_VALUE))
    );
    assert!(queue.take_error_of_this_thread().is_none() && queue.take_error_of_any_thread().is_none());
    queue.stop();
}

#[test]
fn a_launch_error_is_reported_to_its_thread_or_to_one_that_waits() {
    let queue = queue(Driver::default());
    let other = std::thread::spawn(|| std::thread::current().id()).join().expect("no panic");
    let own = std::thread::current().id();
    let reason = || LaunchErrorReason::Driver(sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    let launch_error = |thread, op| LaunchError { thread, op, reason: reason() };
    queue.record_error(launch_error(other, "theirs"));
    assert!(queue.take_error_of_this_thread().is_none(), "not to the next op of another thread");
    queue.record_error(launch_error(own, "ours"));
    queue.record_error(launch_error(own, "later"));
    assert_eq!(queue.take_error_of_this_thread().map(|error| error.op), Some("ours"));
    assert_eq!(queue.take_error_of_any_thread().map(|error| error.op), Some("theirs"), "by a wait");
    assert!(queue.take_error_of_any_thread().is_none());
    queue.record_error(launch_error(other, "theirs"));
    queue.record_error(launch_error(own, "ours"));
    assert_eq!(queue.take_error_of_any_thread().map(|error| error.op), Some("ours"), "its own first");
    assert!(queue.take_error_of_any_thread().is_none());
}

/// A kernel that is compiled when the other end of the channel sends its handle, or fails when that
/// end is dropped.
#[derive(Debug)]
struct Pending(Mutex<std::sync::mpsc::Receiver<usize>>);

impl AwaitedKernel for Pending {
    fn wait(&self) -> ternion_core::Result<sys::CUfunction> {
        let found = self.0.lock().recv();
        found.map(|handle| handle as sys::CUfunction).map_err(|_| Error::invalid("test", "does not compile"))
    }
}

fn push_awaited(queue: &Arc<SubmissionQueue<Driver>>, number: u64) -> std::sync::mpsc::Sender<usize> {
    let (compiled, later) = std::sync::mpsc::channel();
    let config = config_of((number % 7) as u32);
    let parameters = [number, number * 2, number % 7];
    // SAFETY: `Driver` takes three numbers.
    unsafe { queue.push_awaited("test", config, Box::new(Pending(Mutex::new(later))), &parameters, |_| ()) };
    compiled
}

#[test]
fn launches_wait_for_kernels_that_are_compiled_and_keep_their_order() {
    let queue = queue(Driver::default());
    assert_eq!(push(&queue, 0, false), sys::CUresult::CUDA_SUCCESS);
    let first = push_awaited(&queue, 1);
    (2..20).for_each(|number| assert_eq!(push(&queue, number, false), sys::CUresult::CUDA_SUCCESS));
    let second = push_awaited(&queue, 20);
    (21..30).for_each(|number| assert_eq!(push(&queue, number, false), sys::CUresult::CUDA_SUCCESS));
    // A kernel that is compiled sooner does not overtake.
    second.send(2020).expect("awaited");
    std::thread::sleep(5 * POLL_TIME);
    assert_eq!(*queue.target.numbers.lock(), [0], "the second kernel and all between are behind the first");
    first.send(1010).expect("awaited");
    queue.drain();
    assert_eq!(*queue.target.numbers.lock(), (0..30).collect::<Vec<u64>>());
    let functions = queue.target.functions.lock().clone();
    assert!(functions.iter().enumerate().all(|(number, &function)| match number {
        1 => function == 1010,
        20 => function == 2020,
        _ => function == 0,
    }));
    queue.stop();
}

#[test]
fn a_launch_that_goes_straight_waits_for_kernels_before_it() {
    let queue = queue(Driver::default());
    let compiled = push_awaited(&queue, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(2));
            compiled.send(7).expect("awaited");
        });
        assert_eq!(push(&queue, 1, true), sys::CUresult::CUDA_SUCCESS);
    });
    assert_eq!(*queue.target.numbers.lock(), [0, 1]);
    queue.stop();
}

#[test]
fn a_kernel_that_does_not_compile_is_reported_and_what_follows_is_launched() {
    let queue = queue(Driver::default());
    drop(push_awaited(&queue, 0));
    assert_eq!(push(&queue, 1, false), sys::CUresult::CUDA_SUCCESS);
    queue.drain();
    let launch_error = queue.take_error_of_this_thread().expect("reported");
    assert!(
        matches!(&launch_error.reason, LaunchErrorReason::Kernel(error) if error.to_string() == "test: does not compile"),
        "{launch_error:?}"
    );
    assert!(launch_error.op == "test" && queue.take_error_of_any_thread().is_none(), "once");
    assert_eq!(*queue.target.numbers.lock(), [1]);
    queue.stop();
}

#[test]
fn more_kernels_than_there_are_slots_are_awaited() {
    let queue = queue(Driver::default());
    let count = 2 * SLOTS as u64 + 3;
    (0..count).for_each(|number| match number % 3 {
        0 => push_awaited(&queue, number).send(number as usize + 1).expect("awaited"),
        _ => assert_eq!(push(&queue, number, false), sys::CUresult::CUDA_SUCCESS),
    });
    queue.drain();
    assert!(queue.take_error_of_any_thread().is_none());
    assert_eq!(*queue.target.numbers.lock(), (0..count).collect::<Vec<u64>>());
    queue.stop();
}

#[test]
fn after_the_end_a_launch_waits_for_its_kernel_by_itself() {
    let queue = queue(Driver::default());
    queue.stop();
    assert!(!queue.can_wait());
    let (compiled, later) = std::sync::mpsc::channel();
    compiled.send(7).expect("awaited");
    // SAFETY: `Driver` takes three numbers.
    unsafe {
        queue.push_awaited("test", config_of(3), Box::new(Pending(Mutex::new(later))), &[3u64, 6, 3], |_| ())
    };
    assert_eq!((&*queue.target.numbers.lock(), &*queue.target.functions.lock()), (&vec![3], &vec![7]));
}

#[test]
fn after_the_end_launches_go_straight_to_the_driver() {
    let queue = queue(Driver::default());
    assert_eq!(push_many(&queue), None);
    queue.stop();
    assert_eq!(queue.target.numbers.lock().len(), 100);
    assert_eq!(push_many(&queue), None);
    assert_eq!(queue.target.numbers.lock().len(), 200);
    queue.stop();
}

#[test]
fn without_a_thread_every_launch_goes_straight_to_the_driver() {
    let queue = Arc::new(SubmissionQueue::with_thread(Driver { fails: Some(1), ..Driver::default() }, false));
    let codes: Vec<sys::CUresult> = (0..50).map(|number| push(&queue, number, false)).collect();
    assert_eq!(codes[1], sys::CUresult::CUDA_ERROR_INVALID_VALUE, "reported by the launch itself");
    assert_eq!(queue.target.numbers.lock().len(), 50);
    assert!(queue.handle.lock().is_none());
}

/// Parameters with a tensor map after a number, as a kernel takes them.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Aligned {
    number: u64,
    map: AlignedMap,
}

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
struct AlignedMap([u64; 16]);

impl Aligned {
    fn of(number: u64) -> Aligned {
        Aligned { number, map: AlignedMap(std::array::from_fn(|index| number * 100 + index as u64)) }
    }
}

/// Records launches with [`Aligned`] parameters, and checks that these are aligned to 64 bytes.
#[derive(Default)]
struct AlignedDriver(Mutex<Vec<(LaunchConfig, Aligned)>>);

// SAFETY: the function of a configuration, a handle, is compared and not used.
unsafe impl Send for AlignedDriver {}
// SAFETY: as for Send.
unsafe impl Sync for AlignedDriver {}

impl LaunchTarget for AlignedDriver {
    unsafe fn launch(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult {
        assert!((parameters as usize).is_multiple_of(align_of::<Aligned>()), "{parameters:?}");
        // SAFETY: the test launches with such parameters.
        self.0.lock().push((*config, unsafe { *parameters.cast::<Aligned>() }));
        sys::CUresult::CUDA_SUCCESS
    }
}

/// The launches go through slots of the queue, straight to the driver, and as those of a recorded
/// step, which are made at once.
#[test]
fn attributes_and_aligned_parameters_arrive_unchanged() {
    let queue = Arc::new(SubmissionQueue::with_thread(AlignedDriver::default(), true));
    let config = |number: u64| {
        let cluster = [1 + (number % 3) as u8, 1, 1 + (number % 2) as u8];
        let attributes = LaunchAttributes { cluster, is_dependent: number.is_multiple_of(5) };
        LaunchConfig { grid: [number as u32 + 1, 2, 3], shared_bytes: number as u32, attributes, ..plain() }
    };
    let count = 300;
    for number in 0..count {
        // SAFETY: the target takes such parameters.
        let code =
            unsafe { queue.push("test", config(number), &Aligned::of(number), number % 41 == 40, |_| ()) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    }
    queue.stop();
    let mut expected: Vec<_> = (0..count).map(|number| (config(number), Aligned::of(number))).collect();
    assert!(expected[0].0.attributes.is_dependent);
    // The work before the first launch is unknown.
    expected[0].0.attributes.is_dependent = false;
    assert_eq!(*queue.target.0.lock(), expected);
    assert!(
        queue.slots.len() == SLOTS && size_of::<Aligned>() <= MAX_PARAMETER_BYTES,
        "they went through slots"
    );
}

/// On every path to the driver, only launches directly after another launch are dependent.
#[test]
fn launches_after_other_work_wait_for_its_end() {
    for (uses_thread, at_once) in [(true, false), (true, true), (false, false)] {
        let queue = Arc::new(SubmissionQueue::with_thread(AlignedDriver::default(), uses_thread));
        let attributes = LaunchAttributes { is_dependent: true, ..LaunchAttributes::NONE };
        let config = LaunchConfig { attributes, ..plain() };
        let follows_other_work = |number: u64| number % 7 == 3 || number % 50 > 45;
        for number in 0..200 {
            if follows_other_work(number) {
                queue.drain();
            }
            // SAFETY: the target takes such parameters.
            let code = unsafe { queue.push("test", config, &Aligned::of(number), at_once, |_| ()) };
            assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        }
        queue.stop();
        let found: Vec<bool> =
            queue.target.0.lock().iter().map(|(config, _)| config.attributes.is_dependent).collect();
        let expected: Vec<bool> = (0..200).map(|number| number != 0 && !follows_other_work(number)).collect();
        assert_eq!(found, expected, "through slots: {uses_thread}, at once: {at_once}");
    }
}
