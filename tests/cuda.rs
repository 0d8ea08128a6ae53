//! Behavior that is specific to CUDA devices: late errors, recorded steps, memory whose use does
//! not grow; and CUDA kernels on shapes that the op table does not cover. Without such a device the
//! tests report that and pass.

mod kernels;
// Also a test of the package `apps`. It is included here because this program is the one that is
// copied to machines with a GPU.
#[path = "../apps/tests/mnist_steps.rs"]
mod mnist_steps;
#[path = "support/recorded.rs"]
mod recorded;

use mnist_steps::support::{self, cuda, lock_shared};
use recorded::Training;
use std::cell::RefCell;
use std::sync::RwLockReadGuard;
use std::sync::mpsc::{Receiver, Sender, channel};
use ternion::nn::Param;
use ternion::nn::optim::{AdamW, AdamWConfig, Optimizer, SGD, SGDConfig};
use ternion::{DType, Device, Result, Tensor};
use ternion_core::backend::Download;
use ternion_core::capture::{CapturedStep, is_recording_step};

/// Returns a CUDA device if there is one, as soon as no test needs it exclusively.
fn shared_device() -> Option<(RwLockReadGuard<'static, ()>, Device)> {
    let guard = lock_shared();
    cuda().map(|device| (guard, device))
}

#[test]
fn an_index_out_of_range_is_reported_at_synchronization() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let x = Tensor::ones([4, 3], DType::F32, &device)?;
    let index = Tensor::from_slice(&[1i32, 7, 2], 3, &device)?;
    let picked = x.index_select(0, &index)?;
    let error = device.synchronize().expect_err("index 7 of 4");
    assert_eq!(error.to_string(), "index_select: index 7 is out of range for size 4");
    assert_eq!(
        picked.to_vec::<f32>()?,
        [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        "reported once, and read nowhere"
    );
    device.synchronize()
}

#[test]
fn an_index_out_of_range_is_reported_under_the_name_of_the_called_op() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let x = Tensor::ones([4, 3], DType::F32, &device)?;
    let wrong = |at: i64| Tensor::from_slice(&[1, at], 2, &device);
    let message_of = |result: Result<Tensor>| -> Result<String> {
        result?;
        Ok(device.synchronize().expect_err("an index out of range").to_string())
    };
    assert_eq!(message_of(x.embedding(&wrong(4)?))?, "embedding: index 4 is out of range for size 4");
    assert_eq!(message_of(wrong(5)?.one_hot(5, DType::F32))?, "one_hot: index 5 is out of range for size 5");
    let rows = x.narrow(0, 0, 2)?;
    assert_eq!(
        message_of(rows.cross_entropy(&wrong(3)?))?,
        "cross_entropy: index 3 is out of range for size 3"
    );
    assert_eq!(message_of(rows.accuracy(&wrong(-1)?))?, "accuracy: index -1 is out of range for size 3");
    assert_eq!(message_of(x.i(wrong(-5)?))?, "index: index -5 is out of range for size 4");
    assert_eq!(message_of(x.i((&wrong(4)?, &wrong(0)?)))?, "index: index 4 is out of range for size 4");
    assert_eq!(message_of(x.i((&wrong(0)?, &wrong(-4)?)))?, "index: index -4 is out of range for size 3");
    Ok(())
}

/// Returns bytes that depend on their index and on the buffer.
fn patterned(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed) as u8).collect()
}

#[test]
fn buffers_are_read_together_by_several_threads() -> Result<()> {
    // No bytes, less than a line of the chunk, several chunks and a few bytes, the rest of the last
    // chunk.
    const LENGTHS: [usize; 6] = [0, 5, (4 << 20) + 3, 100_000, (2 << 20) - 1, 64];
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let backend = device.backend();
    let read = |seed: usize| -> Result<bool> {
        let expected: Vec<Vec<u8>> = LENGTHS.map(|bytes| patterned(bytes, seed)).into();
        let buffers =
            LENGTHS.map(|bytes| backend.alloc(bytes + 1)).into_iter().collect::<Result<Vec<_>>>()?;
        for (buffer, bytes) in buffers.iter().zip(&expected) {
            backend.upload(bytes, buffer, 1)?;
        }
        let mut found: Vec<Vec<u8>> = LENGTHS.map(|bytes| vec![0; bytes]).into();
        let parts = buffers.iter().zip(&mut found);
        let mut parts: Vec<_> = parts.map(|(from, host)| Download { from, offset_bytes: 1, host }).collect();
        backend.download_all(&mut parts)?;
        Ok(found == expected)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|seed| scope.spawn(move || (0..5).map(|_| read(seed)).collect())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).try_for_each(
            |found: Result<Vec<bool>>| {
                assert_eq!(found?, [true; 5]);
                Ok(())
            },
        )
    })
}

#[test]
fn buffers_that_are_too_short_are_not_read() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let from = &device.backend().alloc(8)?;
    let mut host = [[7; 4]; 2];
    let parts = host.iter_mut().zip([0, 5]);
    let mut parts: Vec<_> = parts.map(|(host, offset_bytes)| Download { from, offset_bytes, host }).collect();
    let error = device.backend().download_all(&mut parts).expect_err("9 bytes of 8");
    assert_eq!(error.to_string(), "download: 4 bytes from byte 5 on, in a buffer of 8 bytes");
    assert_eq!(host, [[7; 4]; 2], "nothing was read before all was known to exist");
    Ok(())
}

#[test]
fn tensors_move_between_threads() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let sums = std::thread::scope(|scope| {
        let work = |seed: usize| {
            let device = device.clone();
            scope.spawn(move || -> Result<f32> {
                let x = Tensor::full([1000], seed as i64, DType::F32, &device)?;
                let mut sum = Tensor::zeros((), DType::F32, &device)?;
                for _ in 0..100 {
                    sum = sum.add(&x.sum(0)?)?;
                }
                sum.item::<f32>()
            })
        };
        let threads: Vec<_> = (0..8).map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<f32>>>()
    })?;
    assert_eq!(sums, [0.0, 1e5, 2e5, 3e5, 4e5, 5e5, 6e5, 7e5]);
    Ok(())
}

/// Bursts of launches, which the queue's thread passes to the driver. Between bursts there are
/// uploads, copies, downloads, and pauses in which the thread sleeps.
#[test]
fn launches_and_copies_keep_the_order_of_the_calls() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let work = |own: f32| -> Result<()> {
        let (mut x, mut expected) = (Tensor::zeros([300], DType::F32, &device)?, 0.0);
        for round in 0..120usize {
            for _ in 0..round * 37 % 1500 {
                x = x.add_scalar(own)?;
                expected += own;
            }
            if round % 2 == 0 {
                let more = Tensor::from_slice(&[round as f32; 300], 300, &device)?;
                x = x.add(&more)?;
                drop(more);
                // The upload may reuse the buffer of the tensor that was added.
                Tensor::from_slice(&[f32::NAN; 300], 300, &device)?;
                expected += round as f32;
            }
            if round % 3 == 0 {
                assert_eq!(x.to_vec::<f32>()?, [expected; 300], "round {round}");
            }
            if round % 40 == 39 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        assert_eq!(x.to_vec::<f32>()?, [expected; 300]);
        Ok(())
    };
    work(1.0)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..4u8).map(|own| scope.spawn(move || work(f32::from(own)))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// The environment variable of the process that the next test starts. If it is set, the process
/// must end in the middle of a burst.
const ENDS_IN_A_BURST: &str = "TERNION_TEST_ENDS_IN_A_BURST";

#[test]
fn a_process_may_end_with_launches_on_their_way() -> Result<()> {
    if std::env::var_os(ENDS_IN_A_BURST).is_some() {
        let device = cuda().expect("a device");
        let mut x = Tensor::zeros([300], DType::F32, &device)?;
        for _ in 0..3000 {
            x = x.add_scalar(1.0)?;
        }
        std::process::exit(0);
    }
    let Some(_device) = shared_device() else { return Ok(()) };
    let program = std::env::current_exe().expect("a program");
    for _ in 0..10 {
        let name = "a_process_may_end_with_launches_on_their_way";
        let ended =
            std::process::Command::new(&program).args(["--exact", name]).env(ENDS_IN_A_BURST, "1").output();
        let ended = ended.expect("a process");
        assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
    }
    Ok(())
}

#[test]
fn replays_train_exactly_as_steps_do() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    recorded::replays_train_exactly_as_steps_do(&device)
}

#[test]
fn a_step_that_adds_gradients_of_batches_is_recorded() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    recorded::a_step_that_adds_gradients_of_batches_is_recorded(&device)
}

#[test]
fn a_step_that_cannot_be_recorded_says_why() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    recorded::a_step_that_cannot_be_recorded_says_why(&device)
}

#[test]
fn a_step_that_reads_other_tensors_is_rejected() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    recorded::a_step_that_reads_other_tensors_is_rejected(&device)
}

#[test]
fn a_step_may_be_dropped_while_another_is_recorded() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    recorded::a_step_may_be_dropped_while_another_is_recorded(&device)
}

/// Returns the results of a thread's calls while another thread records a step: an op, an in-place
/// write, an upload, a download, a synchronization, a capture, and a replay of `own`.
fn errors_while_recording(device: &Device, x: &Tensor, own: &mut CapturedStep<'_, Tensor>) -> Vec<String> {
    let results = [
        x.add(x).map(drop),
        x.fill_(9.0).map(drop),
        Tensor::from_slice(&[1.0f32], 1, device).map(drop),
        x.to_vec::<f32>().map(drop),
        device.synchronize(),
        device.capture(|| x.add(x)).map(drop),
        own.replay().map(drop),
    ];
    results.map(|result| result.err().map_or_else(|| "done".to_string(), |error| error.to_string())).to_vec()
}

/// Records two steps and reports this. When a request arrives, drops one step and makes the calls
/// of [`errors_while_recording`]. Replays the other step after the request channel is closed.
fn other_thread(
    device: &Device,
    x: &Tensor,
    sender: &Sender<Vec<String>>,
    requests: &Receiver<()>,
) -> Result<Vec<f32>> {
    let (dropped, mut remaining) = (x.add_scalar(1.0)?, device.capture(|| x.mul_scalar(2.0))?);
    let ended = device.capture(|| x.mul_scalar(5.0))?;
    let _ = sender.send(Vec::new());
    if requests.recv().is_ok() {
        drop((dropped, ended));
        let _ = sender.send(errors_while_recording(device, x, &mut remaining));
    }
    let _ = requests.recv();
    remaining.replay()?.to_vec::<f32>()
}

#[test]
fn a_recording_is_not_disturbed_by_another_thread() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &device)?;
    // If one thread ends for any reason, its end of the channel is closed and the other thread
    // continues. The recorded step does not keep its closure.
    let (request, requests) = channel::<()>();
    let (sender, receiver) = channel();
    let received = RefCell::new(Vec::new());
    let (step, replayed) = std::thread::scope(|scope| {
        let (device, x, received) = (&device, &x, &received);
        let other = scope.spawn(move || other_thread(device, x, &sender, &requests));
        let _ = receiver.recv();
        let step = device.capture(move || {
            let doubled = x.add(x)?;
            if is_recording_step() && request.send(()).is_ok() {
                received.replace(receiver.recv().unwrap_or_default());
            }
            doubled.mul(x)
        });
        (step, other.join().expect("no panic"))
    });
    let replayed = replayed?;
    let expected = ["cuda", "cuda", "upload", "download", "synchronize", "cuda", "replay"]
        .map(|what| format!("{what}: another thread records a step on this device"));
    assert_eq!(received.take(), expected);
    assert_eq!(replayed, [2.0, 4.0, 6.0], "the other thread's step, after the recording");
    let mut step = step?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [2.0, 8.0, 18.0]);
    x.copy_(&Tensor::from_slice(&[3.0f32, 2.0, 1.0], 3, &device)?)?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [18.0, 8.0, 2.0], "reads the current values");
    Ok(())
}

/// Returns the number of elements of parameter `at`: few, none, about one chunk of a block, or
/// several chunks.
fn length(at: usize) -> usize {
    match at % 40 {
        7 => 0,
        11 => 1024,
        19 => 1025,
        23 => 5000,
        rest => rest + 1,
    }
}

/// Creates `count` parameters with the gradients of the sum of their squares, and runs two
/// optimizer steps. Returns the values after these steps, and how many kernels the second one
/// launched.
fn stepped(device: &Device, count: usize, dtype: DType, adam: bool) -> Result<(Vec<f64>, Option<u64>)> {
    let parameter = |at: usize| -> Result<Param> {
        let values: Vec<f32> =
            (0..length(at)).map(|e| ((at * 31 + e * 7) % 101) as f32 / 50.0 - 1.0).collect();
        Param::new(&Tensor::from_slice(&values, values.len(), device)?.to_dtype(dtype)?)
    };
    let parameters = (0..count).map(parameter).collect::<Result<Vec<_>>>()?;
    let mut optimizer: Box<dyn Optimizer> = match adam {
        true => Box::new(AdamW::new(parameters.clone(), AdamWConfig { lr: 1e-2, ..Default::default() })?),
        false => Box::new(SGD::new(
            parameters.clone(),
            SGDConfig { lr: 0.1, momentum: 0.9, nesterov: true, ..Default::default() },
        )?),
    };
    let backend: Option<&ternion_cuda::CudaBackend> = device.downcast();
    let mut launched = None;
    for _ in 0..2 {
        let mut loss = Tensor::zeros((), DType::F32, device)?;
        for parameter in &parameters {
            loss = loss.add(&parameter.tensor().square()?.sum(0)?.to_dtype(DType::F32)?)?;
        }
        let gradients = loss.backward()?;
        let before = backend.map(|backend| backend.launches());
        optimizer.step(&gradients)?;
        launched = backend.zip(before).map(|(backend, before)| backend.launches() - before);
    }
    let values =
        parameters.iter().map(|parameter| parameter.tensor().to_vec_f64()).collect::<Result<Vec<_>>>()?;
    Ok((values.concat(), launched))
}

#[test]
fn a_step_of_many_tensors_takes_few_launches() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    for (dtype, adam) in [(DType::F32, true), (DType::F32, false), (DType::BF16, true)] {
        // As many tensors as fit in the parameters of a kernel, and one more, some of them short
        // and some long.
        for (count, launches) in [(3, 1), (64, 1), (65, 1), (512, 1), (513, 2)] {
            let (values, launched) = stepped(&device, count, dtype, adam)?;
            assert_eq!(launched, Some(launches), "{count} tensors");
            let expected = stepped(&ternion::cpu()?, count, dtype, adam)?.0;
            let rounding = if dtype == DType::F32 { 2e-6 } else { 1.0 / 128.0 };
            for (at, (value, expected)) in values.iter().zip(&expected).enumerate() {
                assert!(
                    (value - expected).abs() <= rounding * (1.0 + expected.abs()),
                    "{count} tensors of {dtype}, element {at}: {value}, expected {expected}"
                );
            }
        }
    }
    Ok(())
}

/// Multiplies bf16 matrices with unaligned rows, one of which is transposed, and returns the result
/// and how many kernels were launched.
fn odd_product(device: &Device, [m, n, k]: [usize; 3]) -> Result<(Vec<f32>, Option<u64>)> {
    let matrix = |rows: usize, columns: usize| {
        let values: Vec<f32> =
            (0..rows * columns).map(|at| ((at * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
        Tensor::from_slice(&values, [rows, columns], device)?.to_dtype(DType::BF16)
    };
    let (a, b) = (matrix(k, m)?.t()?, matrix(k, n)?);
    let backend: Option<&ternion_cuda::CudaBackend> = device.downcast();
    let before = backend.map(|backend| backend.launches());
    let product = a.matmul(&b)?;
    let launched = backend.zip(before).map(|(backend, before)| backend.launches() - before);
    Ok((product.to_dtype(DType::F32)?.to_vec::<f32>()?, launched))
}

#[test]
fn half_precision_operands_with_unaligned_lines_are_copied_only_where_that_is_faster() -> Result<()> {
    let Some((_shared, device)) = shared_device() else { return Ok(()) };
    for (sizes, launches) in [([131, 127, 129], 1), ([1001, 1003, 1005], 3), ([70001, 33, 131], 3)] {
        let (values, launched) = odd_product(&device, sizes)?;
        assert_eq!(launched, Some(launches), "{sizes:?}");
        let expected = odd_product(&ternion::cpu()?, sizes)?.0;
        // The limit allows for two roundings to bf16 of sums of that many products of numbers up to
        // 1.
        let off = values.iter().zip(&expected).map(|(value, expected)| {
            (value - expected).abs() / (expected.abs() / 128.0 + 1e-6 * sizes[2] as f32)
        });
        let worst = off.fold(0.0, f32::max);
        assert!(worst <= 1.0, "{sizes:?}: {worst} of what is allowed");
    }
    Ok(())
}

/// Returns the number of eager steps of the next tests, which is a tenth of the replays;
/// `TERNION_MEMORY_STEPS` sets another number (100,000 take a minute or two).
fn steps() -> usize {
    std::env::var("TERNION_MEMORY_STEPS")
        .ok()
        .map_or(2000, |text| text.parse::<usize>().expect("TERNION_MEMORY_STEPS is a number").max(8))
}

/// Runs `count` steps and measures all memory after each eighth of them: that of the pool, the
/// device and the host. In the second half nothing may grow, except the host's memory by at most
/// two MiB, which its allocator or the driver may hold in reserve.
fn memory_stays(device: &Device, count: usize, mut step: impl FnMut() -> Result<()>) -> Result<()> {
    let host = || {
        let statistics = std::fs::read_to_string("/proc/self/statm").ok()?;
        Some(statistics.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
    };
    let backend: &ternion_cuda::CudaBackend = device.downcast().expect("a CUDA device");
    let mut found = Vec::new();
    for number in 1..=count {
        step()?;
        if number % (count / 8) == 0 {
            device.synchronize()?;
            found.push((device.memory(), backend.free_bytes()?, host()));
        }
    }
    let ((memory, free, resident), (now, free_now, resident_now)) = (found[3], found[7]);
    assert_eq!((now.in_use, now.cached), (memory.in_use, memory.cached), "the pool after {count} steps");
    assert_eq!(free_now, free, "free bytes of the device after {count} steps");
    if let (Some(before), Some(after)) = (resident, resident_now) {
        let all: Vec<_> = found.iter().filter_map(|(_, _, resident)| *resident).collect();
        println!("resident bytes in {count} steps: {all:?}");
        assert!(after <= before + (2 << 20), "resident bytes grow in {count} steps: {all:?}");
    }
    Ok(())
}

#[test]
fn steps_do_not_use_more_and_more_memory() -> Result<()> {
    let _exclusive = support::lock_exclusive();
    let Some(device) = cuda() else { return Ok(()) };
    let mut training = Training::new(&device, true)?;
    memory_stays(&device, steps(), || training.step().map(drop))?;
    let mut captured = device.capture(|| training.step())?;
    memory_stays(&device, 10 * steps(), || captured.replay().map(drop))
}

#[test]
fn cached_memory_can_be_freed() -> Result<()> {
    let _exclusive = support::lock_exclusive();
    let Some(device) = cuda() else { return Ok(()) };
    let large = 64 << 20;
    let retained = Tensor::ones([1000], DType::F32, &device)?;
    drop(Tensor::ones([large / 4], DType::F32, &device)?);
    let before = device.memory();
    assert!(before.cached >= large, "{before:?}");
    device.release_cached()?;
    let after = device.memory();
    assert!(
        after.cached + large <= before.cached && after.in_use == before.in_use,
        "{before:?}, then {after:?}"
    );
    assert_eq!(retained.to_vec::<f32>()?, vec![1.0; 1000]);
    Ok(())
}
