//! Times between two marks in the queue of an adapter, and plain copies, where `TERNION_EXPECT` names wgpu.

use ternion_core::{DType, Device, Result, Tensor, no_grad};
use ternion_wgpu::WgpuBackend;

/// The first adapter, where one is asked for.
fn adapter() -> Option<Device> {
    let wanted = std::env::var(ternion_testing::suite::EXPECT).unwrap_or_default();
    let asked = wanted.split(',').any(|name| name.trim() == "wgpu");
    asked.then(|| ternion_wgpu::device(0).expect("an adapter, as TERNION_EXPECT says"))
}

fn backend(device: &Device) -> &WgpuBackend {
    device.downcast().expect("not wrapped")
}

/// Milliseconds of `count` launches over a million elements, with so many others before and after them.
fn milliseconds(device: &Device, around: usize, count: usize) -> Result<f64> {
    let x = Tensor::zeros([1 << 20], DType::F32, device)?;
    let timer = backend(device).timer();
    let fill = |count: usize| (0..count).try_for_each(|_| no_grad(|| x.fill_(1.0)));
    fill(around)?;
    timer.begin()?;
    fill(count)?;
    timer.end()?;
    fill(around)?;
    timer.milliseconds()
}

/// The least of several times: other programs only add to them.
fn least(device: &Device, around: usize, count: usize) -> f64 {
    let times = (0..3).map(|_| milliseconds(device, around, count).expect("timed"));
    times.fold(f64::INFINITY, f64::min)
}

#[test]
fn times_are_of_what_lies_between_the_marks() {
    let Some(device) = adapter() else { return };
    milliseconds(&device, 1, 1).expect("compiles");
    let (one, many) = (least(&device, 0, 1), least(&device, 0, 20));
    assert!(one > 0.0 && many > 4.0 * one, "20 launches take {many} ms, one takes {one} ms");
    // More launches than a batch holds lie around it.
    let between = least(&device, 300, 1);
    assert!(between < many / 4.0, "one between 300 and 300 others takes {between} ms, 20 take {many} ms");
}

#[test]
fn nobody_waits_for_a_mark_that_is_missing() {
    let Some(device) = adapter() else { return };
    let timer = backend(&device).timer();
    let expected = "timer: expected calls of begin and end, one of them is missing";
    let told = || timer.milliseconds().expect_err("a mark is missing").to_string();
    assert_eq!(told(), expected);
    timer.begin().expect("marks");
    assert_eq!(told(), expected);
    timer.end().expect("marks");
    assert!(timer.milliseconds().expect("both marks are there") >= 0.0);
}

#[test]
fn bytes_are_copied_behind_what_was_queued() {
    let Some(device) = adapter() else { return };
    let [from, to] = [12, 12].map(|bytes| device.backend().alloc(bytes).expect("memory"));
    device.backend().upload(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &from, 0).expect("uploads");
    device.backend().upload(&[0; 12], &to, 0).expect("uploads");
    let copy = |bytes| backend(&device).copy_bytes(&from, &to, bytes);
    copy(8).expect("copies");
    let mut found = [9; 12];
    device.backend().download(&to, 0, &mut found).expect("downloads");
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
    let told = |bytes| copy(bytes).expect_err("refused").to_string();
    assert_eq!(told(6), "copy: expected a multiple of 4 bytes, got 6");
    assert!(told(16).contains("16 bytes from byte 0 on, in a buffer of 12 bytes"), "{}", told(16));
    let twice = backend(&device).copy_bytes(&from, &from, 8).expect_err("refused").to_string();
    assert_eq!(twice, "copy: expected two buffers, got one");
}
