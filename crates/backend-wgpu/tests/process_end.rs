//! The end of a process while an adapter is still busy, if `TERNION_EXPECT` names wgpu. Software
//! drivers compile and run shaders in threads of the process, and crash if these continue while the
//! process ends.
//!
//! Each test runs itself again in child processes that end while the adapter is busy.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;
use ternion_core::{DType, Device, Result, Tensor};
use ternion_testing::suite;

/// The environment variable that makes a child process of a test end while the device is busy.
const ENDS: &str = "TERNION_TEST_ENDS_AT_WORK";

/// The number of child processes of a test. Several are needed: without the wait at the end, one
/// process in five still ends without an error.
const TIMES: usize = 4;

/// The exit code of a process that calls `exit`. The test harness does not use it.
const CODE: i32 = 77;

/// A batch is submitted within this time.
const SUBMISSION_DELAY: Duration = Duration::from_millis(5);

/// How long the process continues to exist after drivers have ended, so that threads that are still
/// running would cause an error.
const AFTER_DRIVERS: Duration = Duration::from_millis(100);

/// In a child process: returns the first adapter, busy for some hundred milliseconds.
fn at_work() -> Option<Device> {
    std::env::var_os(ENDS)?;
    // Functions that are registered first are called last. No driver is loaded yet, so this one
    // runs after those of drivers.
    // SAFETY: the function may be called at any time; it does not unwind.
    unsafe { libc::atexit(linger) };
    Some(queue_shaders().expect("shaders are queued"))
}

extern "C" fn linger() {
    sleep(AFTER_DRIVERS);
}

/// Queues new shaders with little to compute. A software driver compiles them when it is about to
/// run them.
fn queue_shaders() -> Result<Device> {
    let device = ternion_wgpu::device(0)?;
    let x = Tensor::ones([256, 256], DType::F32, &device)?;
    x.cumsum(1)?;
    x.sort(1, false)?;
    x.sum(1)?;
    x.softmax(1)?;
    sleep(SUBMISSION_DELAY);
    Ok(device)
}

/// Runs the test of this file with this name in a child process that ends while the adapter is
/// busy. The driver of the child has threads and compiles, for any options of this process.
fn run_child(test: &str, cache: &Path) -> Output {
    // In the program with all adapter tests, this file is a module.
    let name = match module_path!().split_once("::") {
        Some((_program, module)) => format!("{module}::{test}"),
        None => test.to_string(),
    };
    Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--exact", &name])
        .env(ENDS, "1")
        .env("TERNION_CACHE", cache)
        .env("MESA_SHADER_CACHE_DISABLE", "true")
        .env_remove("LP_NUM_THREADS")
        .output()
        .expect("this program can be started again")
}

/// Asserts that processes of this test end with this code, and not by a signal, and that each
/// writes its compiled pipelines to disk.
fn assert_ends(test: &str, code: i32) {
    for time in 0..if suite::expects("wgpu") { TIMES } else { 0 } {
        let cache = std::env::temp_dir().join(format!("ternion-{test}-{}-{time}", std::process::id()));
        let Output { status, stdout, stderr } = run_child(test, &cache);
        let [output, errors] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(status.code(), Some(code), "process {time} of {TIMES}: {status}\n{output}{errors}");
        let files = std::fs::read_dir(cache.join("pipelines")).map(Iterator::count);
        assert_eq!(files.ok(), Some(1), "{}", cache.display());
        let _ = std::fs::remove_dir_all(&cache);
        assert!(code == CODE || output.contains("1 passed"), "no test has this name: {output}");
    }
}

#[test]
fn a_process_may_exit() {
    if let Some(_device) = at_work() {
        std::process::exit(CODE);
    }
    assert_ends("a_process_may_exit", CODE);
}

#[test]
fn main_may_return() {
    if let Some(device) = at_work() {
        return drop(device);
    }
    assert_ends("main_may_return", 0);
}

#[test]
fn main_may_return_while_a_device_is_kept() {
    static KEPT: OnceLock<Device> = OnceLock::new();
    if let Some(device) = at_work() {
        return assert!(KEPT.set(device).is_ok());
    }
    assert_ends("main_may_return_while_a_device_is_kept", 0);
}
