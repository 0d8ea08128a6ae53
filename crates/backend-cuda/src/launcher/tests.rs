//! The queue of launches, before a driver that notes what it gets.

use super::*;

/// Notes the numbers that it gets, as slowly as it is told to; refuses one.
#[derive(Default)]
struct Notes {
    numbers: Mutex<Vec<u64>>,
    threads: Mutex<Vec<std::thread::ThreadId>>,
    pause: Duration,
    refuses: Option<u64>,
}

impl Driver for Notes {
    unsafe fn launch(&self, kernel: &Kernel, parameters: *mut c_void) -> sys::CUresult {
        // SAFETY: the tests launch with three numbers.
        let [number, twice, grid] = unsafe { *parameters.cast::<[u64; 3]>() };
        assert_eq!((twice, grid), (number * 2, u64::from(kernel.grid[0])));
        std::thread::sleep(self.pause);
        self.numbers.lock().push(number);
        self.threads.lock().push(std::thread::current().id());
        match self.refuses == Some(number) {
            true => sys::CUresult::CUDA_ERROR_INVALID_VALUE,
            false => sys::CUresult::CUDA_SUCCESS,
        }
    }
}

fn push(launcher: &Arc<Launcher<Notes>>, number: u64, at_once: bool) -> sys::CUresult {
    let grid = (number % 7) as u32;
    let kernel = Kernel { function: std::ptr::null_mut(), grid: [grid, 1, 1], block: [1; 3], shared: 0 };
    // SAFETY: `Notes` takes three numbers.
    unsafe { launcher.push("test", kernel, &[number, number * 2, u64::from(grid)], at_once) }
}

fn launcher(notes: Notes) -> Arc<Launcher<Notes>> {
    Arc::new(Launcher::with_thread(notes, true))
}

#[test]
fn launches_arrive_in_their_order_whoever_hands_them_over() {
    let launcher = launcher(Notes::default());
    let mut sent = 0;
    for round in 0..200u64 {
        for _ in 0..round * 17 % 97 {
            assert_eq!(push(&launcher, sent, sent % 31 == 0), sys::CUresult::CUDA_SUCCESS);
            sent += 1;
        }
        // Now and then until the thread sleeps.
        match round % 50 {
            49 => std::thread::sleep(5 * PATIENCE),
            _ if round % 3 == 0 => launcher.drain(),
            _ => {}
        }
    }
    // These are left to the thread.
    for _ in 0..3 * ALONE {
        assert_eq!(push(&launcher, sent, false), sys::CUresult::CUDA_SUCCESS);
        sent += 1;
    }
    while launcher.driver.numbers.lock().len() < sent as usize {
        std::thread::sleep(PATIENCE);
    }
    assert_eq!(*launcher.driver.numbers.lock(), (0..sent).collect::<Vec<u64>>());
    let own = std::thread::current().id();
    let threads = launcher.driver.threads.lock().clone();
    assert!(threads.contains(&own) && threads.iter().any(|thread| *thread != own));
    launcher.stop();
}

#[test]
fn more_than_there_are_slots_wait_for_room() {
    let launcher = launcher(Notes { pause: Duration::from_micros(1), ..Notes::default() });
    let count = 3 * SLOTS as u64;
    (0..count).for_each(|number| assert_eq!(push(&launcher, number, false), sys::CUresult::CUDA_SUCCESS));
    launcher.stop();
    assert_eq!(*launcher.driver.numbers.lock(), (0..count).collect::<Vec<u64>>());
}

#[test]
fn several_threads_push_each_in_its_order() {
    let launcher = launcher(Notes::default());
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let launcher = &launcher;
            scope.spawn(move || {
                for number in 0..2000 {
                    assert_eq!(push(launcher, thread * 10_000 + number, false), sys::CUresult::CUDA_SUCCESS);
                    if number % 500 == 499 {
                        launcher.drain();
                        let own = thread * 10_000 + number;
                        assert!(launcher.driver.numbers.lock().contains(&own));
                    }
                }
            });
        }
    });
    launcher.stop();
    let numbers = launcher.driver.numbers.lock().clone();
    for thread in 0..3 {
        let own: Vec<u64> = numbers.iter().copied().filter(|number| number / 10_000 == thread).collect();
        assert_eq!(own, (thread * 10_000..thread * 10_000 + 2000).collect::<Vec<u64>>());
    }
}

#[test]
fn a_lone_launch_is_made_by_its_own_thread() {
    let launcher = launcher(Notes::default());
    for number in 0..40 {
        assert_eq!(push(&launcher, number, false), sys::CUresult::CUDA_SUCCESS);
        assert_eq!(launcher.driver.numbers.lock().len() as u64, number + 1, "made before it returns");
        launcher.drain();
    }
    assert!(launcher.handle.lock().is_none(), "nobody was woken");
}

/// Launches so many that the thread has to do with them, and says what was refused by the launches themselves.
fn push_many(launcher: &Arc<Launcher<Notes>>) -> Option<sys::CUresult> {
    let refused = |code: &sys::CUresult| *code != sys::CUresult::CUDA_SUCCESS;
    let codes: Vec<_> = (0..100).map(|number| push(launcher, number, false)).filter(refused).collect();
    codes.first().copied()
}

#[test]
fn what_the_driver_refuses_later_is_told_once_with_the_op() {
    let launcher = launcher(Notes { refuses: Some(60), ..Notes::default() });
    let at_once = push_many(&launcher);
    launcher.drain();
    // A thread that is kept waiting may have fallen asleep meanwhile.
    let told = launcher.refused_to_this_thread();
    assert_eq!(
        at_once.map(|code| ("test", code)).or(told),
        Some(("test", sys::CUresult::CUDA_ERROR_INVALID_VALUE))
    );
    assert_eq!((launcher.refused_to_this_thread(), launcher.refused()), (None, None));
    launcher.stop();
}

#[test]
fn what_is_refused_to_one_thread_is_told_to_it_or_to_whoever_waits() {
    let launcher = launcher(Notes::default());
    let other = std::thread::spawn(|| std::thread::current().id()).join().expect("no panic");
    let own = std::thread::current().id();
    let refusal = |thread, op| Refusal { thread, op, code: sys::CUresult::CUDA_ERROR_INVALID_VALUE };
    launcher.note(refusal(other, "theirs"));
    assert_eq!(launcher.refused_to_this_thread(), None, "not to the next op of another thread");
    launcher.note(refusal(own, "ours"));
    launcher.note(refusal(own, "later"));
    assert_eq!(launcher.refused_to_this_thread().map(|told| told.0), Some("ours"));
    assert_eq!(launcher.refused().map(|told| told.0), Some("theirs"), "by a wait");
    assert_eq!(launcher.refused(), None);
    launcher.note(refusal(other, "theirs"));
    launcher.note(refusal(own, "ours"));
    assert_eq!(launcher.refused().map(|told| told.0), Some("ours"), "its own first");
    assert_eq!(launcher.refused(), None);
}

#[test]
fn after_the_end_launches_go_straight_to_the_driver() {
    let launcher = launcher(Notes::default());
    assert_eq!(push_many(&launcher), None);
    launcher.stop();
    assert_eq!(launcher.driver.numbers.lock().len(), 100);
    assert_eq!(push_many(&launcher), None);
    assert_eq!(launcher.driver.numbers.lock().len(), 200);
    launcher.stop();
}

#[test]
fn without_a_thread_every_launch_goes_straight_to_the_driver() {
    let launcher = Arc::new(Launcher::with_thread(Notes { refuses: Some(1), ..Notes::default() }, false));
    let codes: Vec<sys::CUresult> = (0..50).map(|number| push(&launcher, number, false)).collect();
    assert_eq!(codes[1], sys::CUresult::CUDA_ERROR_INVALID_VALUE, "told by the launch itself");
    assert_eq!(launcher.driver.numbers.lock().len(), 50);
    assert!(launcher.handle.lock().is_none());
}
