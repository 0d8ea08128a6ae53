//! A training run in a separate process that is killed at arbitrary moments, and resumes each time
//! from what is on disk.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Folder, Run, names};
use ternion_core::Result;
use ternion_train::{Checkpoint, Checkpoints, Keep};

/// Set in the process that trains, to the folder of its checkpoints.
const FOLDER: &str = "TERNION_TRAIN_TEST_FOLDER";

/// The number of steps after which the process ends.
const STEPS: &str = "TERNION_TRAIN_TEST_STEPS";

const SAVE_EVERY: u64 = 2;

/// Trains up to a step, or until it is killed.
fn train(folder: &Path, steps: u64) -> Result<()> {
    let mut checkpoints = Checkpoints::new(folder, Keep::Last(2))?;
    let mut run = Run::new(&ternion_cpu::device())?;
    if let Some(resumed) = checkpoints.resume(&mut run.state())? {
        assert!(resumed.corrupt.is_empty(), "a kill damages nothing: {:?}", resumed.corrupt);
        run.step = resumed.step;
    }
    while run.step < steps {
        run.step()?;
        if run.step.is_multiple_of(SAVE_EVERY) || run.step == steps {
            let step = run.step;
            checkpoints.save(step, &run.state())?;
        }
    }
    Ok(())
}

/// Not a test: the work of the processes that the tests below start.
#[test]
fn training_process() -> Result<()> {
    let Some(folder) = std::env::var_os(FOLDER) else { return Ok(()) };
    let steps = std::env::var(STEPS).expect("the number of steps").parse().expect("a number");
    train(Path::new(&folder), steps)
}

fn start(folder: &Path, steps: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
    command
        .args(["--exact", "training_process", "--nocapture"])
        .env(FOLDER, folder)
        .env(STEPS, steps.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run again")
}

/// Kills the process; on Unix by SIGKILL.
fn kill(mut training: Child) {
    training.kill().expect("it was started here");
    training.wait().expect("it was started here");
}

fn newest(folder: &Path) -> Option<u64> {
    Checkpoints::new(folder, Keep::All).ok()?.list().ok()?.last().map(|&(step, _)| step)
}

/// Waits until there is a checkpoint of a later step than `step`.
fn wait_for_later(folder: &Path, step: Option<u64>) {
    let start = Instant::now();
    while newest(folder) <= step {
        assert!(start.elapsed() < Duration::from_secs(60), "no checkpoint came");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn repeatedly_killed_training_run_is_bit_identical_to_an_uninterrupted_one() -> Result<()> {
    let folder = Folder::new("killed");
    let mut at = None;
    for pause_us in [0, 1500, 350, 2600, 900, 4100] {
        let training = start(&folder.0, u64::MAX);
        wait_for_later(&folder.0, at);
        std::thread::sleep(Duration::from_micros(pause_us));
        kill(training);
        at = newest(&folder.0);
    }
    let last = at.unwrap_or(0) + 11;
    let output = start(&folder.0, last).wait_with_output().expect("it was started here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let resumed = folder.file(&format!("step-{last:08}.safetensors"));
    let mut run = Run::new(&ternion_cpu::device())?;
    run.until(last)?;
    let through = folder.file("through");
    run.save(&through)?;
    let bytes = |file: &Path| std::fs::read(file).expect("it was written");
    assert!(
        bytes(&resumed) == bytes(&through),
        "weights, moments, averages, schedule, losses or random numbers differ"
    );
    assert_eq!(run.losses.len() as u64, last);
    Ok(())
}

/// Number of kills of the test below: at least this many, and until one has interrupted a save.
const KILLS: u64 = 16;
const MOST_KILLS: u64 = 500;

/// Saves follow one another without a pause: most kills interrupt one.
#[test]
fn kill_while_saving_leaves_an_intact_checkpoint() -> Result<()> {
    let folder = Folder::new("saving");
    let (mut at, mut kills, mut torn) = (None, 0, 0);
    while kills < KILLS || (torn == 0 && kills < MOST_KILLS) {
        let training = start(&folder.0, u64::MAX);
        wait_for_later(&folder.0, at);
        std::thread::sleep(Duration::from_micros(kills * 137 % 1900));
        kill(training);
        kills += 1;
        at = newest(&folder.0);
        let left = names(&folder.0);
        torn += u64::from(left.iter().any(|name| name.ends_with(".tmp")));
        // Each file with a final name is complete. A kill before the older ones are deleted leaves
        // them to the next save.
        let files = Checkpoints::new(&folder.0, Keep::Last(2))?.list()?;
        assert!(!files.is_empty(), "{left:?}");
        for (step, file) in files {
            assert_eq!(Checkpoint::read(&file)?.step(), step);
        }
    }
    assert!(torn > 0, "no kill fell into a save");
    train(&folder.0, at.unwrap_or(0) + 3 * SAVE_EVERY)?;
    let left = names(&folder.0);
    assert_eq!(left.len(), 5, "the lock, and two checkpoints with their JSON: {left:?}");
    Ok(())
}
