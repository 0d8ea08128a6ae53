//! Times between two events in the queue of an adapter, and plain copies, if `TERNION_EXPECT` names
//! wgpu.

use std::time::{Duration, Instant};
use ternion_core::{DType, Device, Result, Tensor, no_grad};
use ternion_wgpu::{Timer, WgpuBackend};

/// Returns the first adapter, if it is requested.
fn adapter() -> Option<Device> {
    let is_expected = ternion_testing::suite::expects("wgpu");
    is_expected.then(|| ternion_wgpu::device(0).expect("an adapter, as TERNION_EXPECT says"))
}

fn backend(device: &Device) -> &WgpuBackend {
    device.downcast().expect("not wrapped")
}

/// The relative difference allowed between the clocks of device and host: oscillators differ by far
/// less.
const CLOCK_TOLERANCE: f64 = 0.02;

/// Queues `count` launches over a million elements.
fn fill(x: &Tensor, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| no_grad(|| x.fill_(1.0)))
}

/// Queues an event before and after `between`.
fn timed(device: &Device, between: impl FnOnce() -> Result<()>) -> Result<Timer> {
    let timer = backend(device).timer();
    timer.begin()?;
    between()?;
    timer.end()?;
    Ok(timer)
}

/// The sum of the times of consecutive groups of launches does not exceed the time of all of them.
/// It would if the time of a group included launches of another one.
#[test]
fn times_include_only_launches_between_the_events() -> Result<()> {
    let Some(device) = adapter() else { return Ok(()) };
    let x = Tensor::zeros([1 << 20], DType::F32, &device)?;
    fill(&x, 1)?;
    device.synchronize()?;
    // A launch between two groups of more launches than a batch holds.
    let counts = [300, 1, 300];
    let mut parts = Vec::new();
    let whole = timed(&device, || {
        for count in counts {
            parts.push(timed(&device, || fill(&x, count))?);
        }
        Ok(())
    })?;
    let whole = whole.milliseconds()?;
    let parts = parts.iter().map(Timer::milliseconds).collect::<Result<Vec<_>>>()?;
    assert!(parts.iter().all(|&part| part > 0.0), "{counts:?} launches take {parts:?} ms");
    let sum: f64 = parts.iter().sum();
    // Ticks are integers and add up exactly; their products with the length of a tick are rounded.
    assert!(sum <= whole * (1.0 + 1e-9), "{counts:?} launches take {parts:?} ms, all of them {whole} ms");
    Ok(())
}

/// The host rests while nothing is queued, so that its own time is a valid bound however busy it
/// is.
#[test]
fn times_agree_with_the_clock_of_the_host() -> Result<()> {
    let Some(device) = adapter() else { return Ok(()) };
    let x = Tensor::zeros([1 << 20], DType::F32, &device)?;
    let rest = Duration::from_millis(50);
    let begun = Instant::now();
    let timer = timed(&device, || {
        fill(&x, 1)?;
        // The first event is reached before the host rests, and the second one is queued after
        // that.
        device.synchronize()?;
        std::thread::sleep(rest);
        fill(&x, 1)
    })?;
    let passed = timer.milliseconds()?;
    let [least, most] = [rest, begun.elapsed()].map(|time| time.as_secs_f64() * 1e3);
    assert!(
        passed >= least * (1.0 - CLOCK_TOLERANCE),
        "{passed} ms, with a rest of {least} ms between the events"
    );
    assert!(passed <= most * (1.0 + CLOCK_TOLERANCE), "{passed} ms, of {most} ms that the host saw");
    Ok(())
}

#[test]
fn a_missing_event_is_an_error() {
    let Some(device) = adapter() else { return };
    let timer = backend(&device).timer();
    let expected = "timer: expected calls of begin and end, one of them is missing";
    let message = || timer.milliseconds().expect_err("an event is missing").to_string();
    assert_eq!(message(), expected);
    timer.begin().expect("the event is queued");
    assert_eq!(message(), expected);
    timer.end().expect("the event is queued");
    assert!(timer.milliseconds().expect("both events exist") >= 0.0);
}

#[test]
fn bytes_are_copied_after_queued_launches() {
    let Some(device) = adapter() else { return };
    let [from, to] = [12, 12].map(|bytes| device.backend().alloc(bytes).expect("memory"));
    device.backend().upload(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &from, 0).expect("uploads");
    device.backend().upload(&[0; 12], &to, 0).expect("uploads");
    let copy = |bytes| backend(&device).copy_bytes(&from, &to, bytes);
    copy(8).expect("copies");
    let mut found = [9; 12];
    device.backend().download(&to, 0, &mut found).expect("downloads");
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
    let message = |bytes| copy(bytes).expect_err("rejected").to_string();
    assert_eq!(message(6), "copy: expected a multiple of 4 bytes, got 6");
    assert!(message(16).contains("16 bytes from byte 0 on, in a buffer of 12 bytes"), "{}", message(16));
    let twice = backend(&device).copy_bytes(&from, &from, 8).expect_err("rejected").to_string();
    assert_eq!(twice, "copy: expected two buffers, got one");
}
