//! A small training run with every kind of state: dropout, AdamW, EMA, a schedule that depends on
//! the loss, data in random order.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use ternion_core::{DType, Device, Reduction, Result, Tensor};
use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
use ternion_nn::schedule::{PlateauConfig, ReduceLROnPlateau};
use ternion_nn::{BatchNorm1d, Dropout, Ema, EmaConfig, Forward, Linear, Module, ReLU, Sequential};
use ternion_train::TrainingState;

/// Number of steps after which the schedule reads the loss.
const EPOCH: u64 = 4;

pub struct Run {
    pub device: Device,
    pub model: Sequential,
    pub adam: AdamW,
    pub ema: Ema,
    pub plateau: ReduceLROnPlateau,
    pub losses: Vec<f64>,
    pub best: Option<f64>,
    pub step: u64,
}

impl Run {
    pub fn new(device: &Device) -> Result<Run> {
        Run::wide(device, 8)
    }

    pub fn wide(device: &Device, width: usize) -> Result<Run> {
        device.seed(5);
        let model = Sequential::new()
            .with(Linear::new(4, width, device)?)
            .with(BatchNorm1d::new(width, device)?)
            .with(ReLU)
            .with(Dropout::new(0.3)?)
            .with(Linear::new(width, 1, device)?);
        let config = AdamWConfig { lr: 0.05, max_grad_norm: Some(1.0), ..Default::default() };
        let adam = AdamW::new(model.parameters(), config)?;
        let ema = Ema::new(model.parameters(), EmaConfig { decay: 0.9, warmup: true })?;
        let plateau =
            ReduceLROnPlateau::new(0.05, PlateauConfig { patience: 0, factor: 0.7, ..Default::default() })?;
        Ok(Run { device: device.clone(), model, adam, ema, plateau, losses: Vec::new(), best: None, step: 0 })
    }

    pub fn state(&mut self) -> TrainingState<'_> {
        TrainingState::new(&self.device)
            .model("model", &self.model)
            .optimizer("adam", &mut self.adam)
            .part("ema", &mut self.ema)
            .part("plateau", &mut self.plateau)
            .part("losses", &mut self.losses)
            .value("best", &mut self.best)
            .setting("batch", 6)
    }

    pub fn save(&mut self, path: &Path) -> Result<()> {
        let step = self.step;
        self.state().save(step, path)
    }

    pub fn resume(&mut self, path: &Path) -> Result<()> {
        self.step = self.state().resume(path)?;
        Ok(())
    }

    /// Runs one step. The inputs are the device's random numbers, whose position is part of the
    /// state.
    pub fn step(&mut self) -> Result<()> {
        self.adam.set_lr(self.plateau_lr())?;
        let input = Tensor::rand([6, 4], DType::F32, &self.device)?;
        let target = input.sum_keep(1)?;
        let loss = self.model.forward(&input)?.mse_loss(&target, Reduction::Mean)?;
        self.adam.step(&loss.backward()?)?;
        self.ema.update()?;
        let loss = loss.item_f64()?;
        self.losses.push(loss);
        self.best = Some(self.best.map_or(loss, |best| best.min(loss)));
        self.step += 1;
        if self.step.is_multiple_of(EPOCH) {
            self.plateau.step(loss);
        }
        Ok(())
    }

    fn plateau_lr(&self) -> f64 {
        self.plateau.lr()
    }

    pub fn until(&mut self, step: u64) -> Result<()> {
        while self.step < step {
            self.step()?;
        }
        Ok(())
    }
}

/// A folder that is removed at the end of a test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ternion-train-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
