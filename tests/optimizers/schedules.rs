//! Learning-rate schedules: PyTorch's numbers, their formulas, their state, and what they reject.

use super::{device, list, message_of, reference};
use ternion::nn::StateDict;
use ternion::nn::schedule::{
    Anneal, Constant, CosineAnnealingLR, ExponentialLR, MultiStepLR, OneCycleConfig, OneCycleLR,
    OneCyclePhases, PlateauConfig, PlateauMode, ReduceLROnPlateau, Schedule, StepLR, ThresholdMode, Warmup,
};
use ternion::prelude::*;

fn rates(schedule: &dyn Schedule, steps: usize) -> Vec<f64> {
    (0..steps as u64).map(|step| schedule.lr(step)).collect()
}

fn assert_rates(name: &str, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{name}");
    for (step, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= 1e-14, "{name}, step {step}: got {got}, expected {want}");
    }
}

#[test]
fn schedules_equal_pytorchs() -> Result<()> {
    let general = OneCycleConfig {
        pct_start: 0.4,
        anneal_strategy: Anneal::Linear,
        div_factor: 10.0,
        final_div_factor: 100.0,
        phases: OneCyclePhases::Three,
    };
    let schedules: [(&str, Box<dyn Schedule>); 7] = [
        ("step", Box::new(StepLR::new(0.5, 3, 0.5)?)),
        ("multi_step", Box::new(MultiStepLR::new(0.5, [7, 2, 7], 0.1)?)),
        ("exponential", Box::new(ExponentialLR::new(0.5, 0.9)?)),
        ("cosine", Box::new(CosineAnnealingLR::new(0.5, 8, 0.05)?)),
        ("warmup_cosine", Box::new(Warmup::new(4, 0.1, CosineAnnealingLR::new(0.5, 8, 0.05)?)?)),
        ("one_cycle", Box::new(OneCycleLR::new(0.5, 12, OneCycleConfig::default())?)),
        ("one_cycle_general", Box::new(OneCycleLR::new(0.5, 12, general)?)),
    ];
    let all = reference();
    assert_eq!(all["schedules"].as_object().expect("schedules").len(), schedules.len());
    for (name, schedule) in schedules {
        let want = list(&all["schedules"][name]);
        assert_rates(name, &rates(&schedule, want.len()), &want);
    }
    Ok(())
}

#[test]
fn schedules_follow_their_formulas_to_any_step() -> Result<()> {
    assert_rates("constant", &rates(&Constant::new(0.3)?, 3), &[0.3; 3]);
    assert_rates("step", &rates(&StepLR::new(1.0, 2, 0.5)?, 6), &[1.0, 1.0, 0.5, 0.5, 0.25, 0.25]);
    let multi = MultiStepLR::new(1.0, [3, 1], 0.5)?;
    assert_rates("multi_step", &rates(&multi, 5), &[1.0, 0.5, 0.5, 0.25, 0.25]);
    let cosine = CosineAnnealingLR::new(1.0, 4, 0.2)?;
    let half = 0.4 * 0.5f64.sqrt();
    assert_rates("cosine", &rates(&cosine, 6), &[1.0, 0.6 + half, 0.6, 0.6 - half, 0.2, 0.2]);
    let warm = Warmup::new(2, 0.0, Box::new(cosine) as Box<dyn Schedule>)?;
    assert_rates("warmup", &rates(&warm, 4), &[0.0, 0.5, 1.0, 0.6 + half]);
    assert_rates("no warmup", &rates(&Warmup::new(0, 0.5, cosine)?, 1), &[1.0]);
    // Increases in 0.5 * 8 - 1 = 3 steps, decreases in the next four, and is then constant.
    let config = OneCycleConfig { pct_start: 0.5, anneal_strategy: Anneal::Linear, ..Default::default() };
    let config = OneCycleConfig { div_factor: 4.0, final_div_factor: 5.0, ..config };
    let cycle = OneCycleLR::new(1.0, 8, config)?;
    let down = |step: f64| 1.0 + (0.05 - 1.0) * step / 4.0;
    let want = [0.25, 0.5, 0.75, 1.0, down(1.0), down(2.0), down(3.0), 0.05, 0.05];
    assert_rates("one_cycle", &rates(&cycle, 9), &want);
    for (steps, pct_start) in [(1, 0.3), (2, 0.5), (10, 0.0), (10, 1.0), (10, 0.1)] {
        let cycle = OneCycleLR::new(1.0, steps, OneCycleConfig { pct_start, ..Default::default() })?;
        let rates = rates(&cycle, steps as usize + 1);
        assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)), "{steps} steps, {pct_start}: {rates:?}");
    }
    for last in [cosine.lr(u64::MAX), multi.lr(u64::MAX), cycle.lr(u64::MAX), warm.lr(u64::MAX)] {
        assert!((0.0..=0.25).contains(&last), "{last}");
    }
    assert_eq!(ExponentialLR::new(1.0, 0.9)?.lr(u64::MAX), 0.0);
    Ok(())
}

#[test]
fn invalid_schedules_are_errors() {
    let finite = "expected a finite number of at least 0";
    assert_eq!(message_of(Constant::new(-1.0)), format!("constant: lr -1, {finite}"));
    assert_eq!(message_of(StepLR::new(0.1, 0, 0.1)), "step_lr: step_size 0, expected at least 1");
    assert_eq!(message_of(StepLR::new(0.1, 1, -0.1)), format!("step_lr: gamma -0.1, {finite}"));
    assert_eq!(message_of(MultiStepLR::new(f64::NAN, [1], 0.1)), format!("multi_step_lr: lr NaN, {finite}"));
    assert_eq!(
        message_of(ExponentialLR::new(0.1, f64::INFINITY)),
        format!("exponential_lr: gamma inf, {finite}")
    );
    assert_eq!(
        message_of(CosineAnnealingLR::new(0.1, 0, 0.0)),
        "cosine_annealing_lr: t_max 0, expected at least 1"
    );
    assert_eq!(
        message_of(CosineAnnealingLR::new(0.1, 1, -1.0)),
        format!("cosine_annealing_lr: eta_min -1, {finite}")
    );
    let constant = Constant::new(0.1).expect("good");
    assert_eq!(message_of(Warmup::new(3, 1.5, constant)), "warmup: start_factor 1.5, expected 0 to 1");
    let base = OneCycleConfig::default();
    let cycle = |config| message_of(OneCycleLR::new(0.1, 10, config));
    assert_eq!(
        cycle(OneCycleConfig { pct_start: 1.5, ..base }),
        "one_cycle_lr: pct_start 1.5, expected 0 to 1"
    );
    assert_eq!(
        cycle(OneCycleConfig { div_factor: 0.0, ..base }),
        "one_cycle_lr: div_factor 0, expected a finite number above 0"
    );
    assert_eq!(message_of(OneCycleLR::new(0.1, 0, base)), "one_cycle_lr: total_steps 0, expected at least 1");
    let base = PlateauConfig::default();
    let plateau = |config| message_of(ReduceLROnPlateau::new(0.1, config));
    assert_eq!(
        plateau(PlateauConfig { factor: 1.0, ..base }),
        "reduce_lr_on_plateau: factor 1, expected less: the learning rate would never fall"
    );
    assert_eq!(
        plateau(PlateauConfig { factor: -0.5, ..base }),
        "reduce_lr_on_plateau: factor -0.5, expected 0 to 1"
    );
    assert_eq!(
        plateau(PlateauConfig { min_lr: f64::NAN, ..base }),
        format!("reduce_lr_on_plateau: min_lr NaN, {finite}")
    );
}

fn plateaus() -> Result<[(&'static str, ReduceLROnPlateau); 4]> {
    let base = PlateauConfig::default();
    let plateau = |config| ReduceLROnPlateau::new(0.5, config);
    let max = PlateauConfig { mode: PlateauMode::Max, patience: 1, threshold: 0.2, factor: 0.5, ..base };
    let absolute = ThresholdMode::Absolute;
    let cooldown = PlateauConfig { patience: 1, cooldown: 2, threshold: 0.05, factor: 0.3, ..base };
    Ok([
        ("min", plateau(PlateauConfig { patience: 2, ..base })?),
        ("max", plateau(PlateauConfig { threshold_mode: absolute, ..max })?),
        ("max_relative", plateau(max)?),
        ("cooldown", plateau(PlateauConfig { threshold_mode: absolute, min_lr: 0.05, ..cooldown })?),
    ])
}

#[test]
fn plateaus_equal_pytorchs_and_resume_from_a_state() -> Result<()> {
    let (device, all) = (device(), reference());
    let metrics = list(&all["metrics"]);
    for (at, (name, mut plateau)) in plateaus()?.into_iter().enumerate() {
        let mut fell = 0;
        for (number, (&metric, want)) in metrics.iter().zip(list(&all["plateaus"][name])).enumerate() {
            // Saves and loads the state before each measurement, like a run that is resumed.
            let state = plateau.state_dict(&device)?;
            let (_, mut resumed) = plateaus()?[at].clone();
            resumed.load_state_dict(&state)?;
            assert_eq!(resumed, plateau, "{name}");
            fell += usize::from(resumed.step(metric) < plateau.lr());
            plateau = resumed;
            assert!((plateau.lr() - want).abs() <= 1e-15, "{name}, {number}: {} and {want}", plateau.lr());
        }
        assert!(fell >= 2, "{name} fell {fell} times");
    }
    Ok(())
}

#[test]
fn a_plateaus_state_that_does_not_fit_changes_nothing() -> Result<()> {
    let device = device();
    let [_, (_, mut plateau), ..] = plateaus()?;
    plateau.step(1.0);
    let (before, state) = (plateau.clone(), plateau.state_dict(&device)?);
    let with = |key: &str, tensor: Tensor| {
        let mut state: StateDict = state.clone();
        state.insert(key.to_owned(), tensor);
        state
    };
    let mut short = state.clone();
    short.remove("best");
    let cases = [
        (short, "missing: best"),
        (with("worst", Tensor::ones((), DType::F64, &device)?), "extra: worst"),
        (with("lr", Tensor::full((), -1.0, DType::F64, &device)?), "lr -1, expected"),
        (with("best", Tensor::full((), f64::NAN, DType::F64, &device)?), "best NaN"),
        (
            with("num_bad_epochs", Tensor::from_slice(&[-1i64], (), &device)?),
            "num_bad_epochs -1, expected at least 0",
        ),
        (with("lr", Tensor::ones([2], DType::F64, &device)?), "item"),
    ];
    for (state, part) in cases {
        let message = message_of(plateau.load_state_dict(&state));
        assert!(message.contains(part), "{message}, expected {part}");
        assert_eq!(plateau, before);
    }
    assert!(plateau.step(f64::NAN) <= 0.5, "a NaN is not an improvement");
    Ok(())
}
