//! A folder keeps the last checkpoints, skips corrupt ones, and belongs to one training run.

mod support;

use std::fs;
use support::{Folder, Run, names};
use ternion_core::Result;
use ternion_train::{Checkpoints, Keep};

fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

fn run() -> Result<Run> {
    Run::new(&ternion_cpu::device())
}

/// Trains to each of these steps and saves.
fn save_at(run: &mut Run, checkpoints: &mut Checkpoints, steps: impl IntoIterator<Item = u64>) -> Result<()> {
    for step in steps {
        run.until(step)?;
        checkpoints.save(step, &run.state())?;
    }
    Ok(())
}

#[test]
fn last_checkpoints_are_kept_and_the_newest_is_resumed() -> Result<()> {
    let folder = Folder::new("last");
    let mut checkpoints = Checkpoints::new(folder.file("a/b"), Keep::Last(2))?;
    assert!(checkpoints.latest()?.is_none() && checkpoints.resume(&mut run()?.state())?.is_none());
    let mut first = run()?;
    save_at(&mut first, &mut checkpoints, [2, 4, 6, 6])?;
    let expected_names = ["step-00000004.safetensors", "step-00000006.safetensors"];
    let expected_names: Vec<String> =
        expected_names.iter().flat_map(|name| [name.to_string(), format!("{name}.json")]).collect();
    assert_eq!(names(checkpoints.folder())[1..], expected_names, "besides the lock");
    let steps: Vec<u64> = checkpoints.list()?.into_iter().map(|(step, _)| step).collect();
    assert_eq!(steps, [4, 6]);

    let mut second = run()?;
    drop(checkpoints);
    let mut checkpoints = Checkpoints::new(folder.file("a/b"), Keep::Last(2))?;
    let resumed = checkpoints.resume(&mut second.state())?.expect("a checkpoint");
    assert_eq!((resumed.step, resumed.corrupt.len()), (6, 0));
    second.step = resumed.step;
    save_at(&mut second, &mut checkpoints, [8])?;
    first.until(8)?;
    assert_eq!(first.losses, second.losses);
    Ok(())
}

#[test]
fn all_can_be_kept_and_keeping_none_is_an_error() -> Result<()> {
    let folder = Folder::new("all");
    let mut checkpoints = Checkpoints::new(&folder.0, Keep::All)?;
    save_at(&mut run()?, &mut checkpoints, 1..=5)?;
    assert_eq!(checkpoints.list()?.len(), 5);
    assert!(message(Checkpoints::new(&folder.0, Keep::Last(0))).contains("expected at least 1"));
    fs::write(folder.file("file"), "").expect("the folder can be written");
    assert!(message(Checkpoints::new(folder.file("file"), Keep::All)).contains("file: cannot be made: "));
    Ok(())
}

#[test]
fn corrupt_checkpoints_are_skipped_and_renamed() -> Result<()> {
    let folder = Folder::new("corrupt");
    let mut checkpoints = Checkpoints::new(&folder.0, Keep::Last(3))?;
    save_at(&mut run()?, &mut checkpoints, [1, 2, 3])?;
    drop(checkpoints);
    let file = |step: u64| folder.file(&format!("step-{step:08}.safetensors"));
    let bytes = fs::read(file(3)).expect("it was written");
    fs::write(file(3), &bytes[..bytes.len() - 10]).expect("the folder can be written");
    let mut bytes = fs::read(file(2)).expect("it was written");
    *bytes.last_mut().expect("it is not empty") ^= 4;
    fs::write(file(2), &bytes).expect("the folder can be written");

    let mut checkpoints = Checkpoints::new(&folder.0, Keep::Last(3))?;
    let (checkpoint, corrupt) = checkpoints.latest()?.expect("one is whole");
    assert_eq!((checkpoint.step(), corrupt.len()), (1, 2));
    let mut resumed = run()?;
    let resumed_from = checkpoints.resume(&mut resumed.state())?.expect("one is whole");
    assert_eq!((resumed_from.step, resumed_from.path, &resumed_from.corrupt), (1, file(1), &corrupt));
    assert!(corrupt[0].contains("step-00000003.safetensors: truncated or corrupt: "), "{corrupt:?}");
    assert!(corrupt[1].contains("step-00000002.safetensors: corrupt: tensor "), "{corrupt:?}");
    resumed.step = 1;
    save_at(&mut resumed, &mut checkpoints, [2])?;
    assert_eq!(checkpoints.list()?.len(), 2);
    assert!(folder.names().contains(&"step-00000003.safetensors.corrupt".to_owned()));

    for (_, path) in checkpoints.list()? {
        fs::write(path, "nothing of use").expect("the folder can be written");
    }
    let text = message(checkpoints.resume(&mut resumed.state()));
    assert!(
        text.contains("no checkpoint is whole: ")
            && text.contains("step-00000001.safetensors: no safetensors file"),
        "{text}"
    );
    Ok(())
}

/// Skipping these would discard intact files.
#[test]
fn intact_checkpoint_that_cannot_be_resumed_is_an_error() -> Result<()> {
    let folder = Folder::new("whole");
    let mut checkpoints = Checkpoints::new(&folder.0, Keep::Last(3))?;
    let mut run = run()?;
    save_at(&mut run, &mut checkpoints, [1])?;
    ternion_nn::save(&run.model, folder.file("step-00000009.safetensors"))?;
    assert!(message(checkpoints.latest()).contains("step-00000009.safetensors: not a checkpoint but only "));
    assert!(message(checkpoints.resume(&mut run.state())).contains("not a checkpoint but only "));
    Ok(())
}

#[test]
fn folder_belongs_to_one_training_run() -> Result<()> {
    let folder = Folder::new("one");
    let mut first = Checkpoints::new(&folder.0, Keep::Last(1))?;
    let mut training = run()?;
    save_at(&mut training, &mut first, [5])?;
    assert!(
        message(first.save(4, &training.state()))
            .contains("save at step 4, but step 5 was saved or resumed before")
    );

    let mut second = Checkpoints::new(&folder.0, Keep::Last(1))?;
    let text = message(second.save(6, &training.state()));
    assert!(text.contains("another training saves its checkpoints here"), "{text}");
    drop(first);
    let text = message(second.save(6, &training.state()));
    assert!(
        text.contains(
            "holds checkpoints of an earlier training, up to step 5: resume from them, or use another folder"
        ),
        "{text}"
    );
    assert_eq!(second.list()?.len(), 1, "nothing was deleted");
    second.resume(&mut training.state())?;
    second.save(6, &training.state())?;
    assert_eq!(second.list()?[0].0, 6);
    Ok(())
}

#[test]
fn temporary_files_of_a_killed_save_are_removed_and_others_are_not() -> Result<()> {
    let folder = Folder::new("left");
    let others =
        [".step.tmp", "notes.txt", "step-1.safetensors", "step-0000000x.safetensors", "step-00000001.json"];
    for name in others.iter().chain(&[".step-00000003.safetensors.17.0.tmp"]) {
        fs::write(folder.file(name), "x").expect("the folder can be written");
    }
    let mut checkpoints = Checkpoints::new(&folder.0, Keep::Last(1))?;
    save_at(&mut run()?, &mut checkpoints, [1, 2, 3])?;
    let names = folder.names();
    assert!(others.iter().all(|name| names.contains(&name.to_string())), "{names:?}");
    assert!(!names.iter().any(|name| name.contains(".17.")), "{names:?}");
    assert_eq!(names.len(), others.len() + 3, "the lock, a checkpoint and its JSON: {names:?}");
    Ok(())
}
