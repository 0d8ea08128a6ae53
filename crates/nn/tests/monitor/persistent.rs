//! Faults in several readings: how they are counted, and when they are reported again.

use super::*;

/// Two parallel layers; their weights in the loss may change from step to step.
#[derive(Module)]
struct Pair {
    one: Linear,
    other: Linear,
}

impl Pair {
    fn new(device: &Device) -> Result<Pair> {
        Ok(Pair { one: Linear::new(8, 4, device)?, other: Linear::new(8, 4, device)? })
    }

    /// Trains with learning rate `lr`. The loss of each layer is multiplied by its weight in the
    /// step.
    fn reports(
        &self,
        lr: f64,
        steps: u64,
        loss_weights: impl Fn(u64) -> [f64; 2],
    ) -> Result<Vec<StatsReport>> {
        let input = Tensor::randn([16, 8], DType::F32, &self.one.weight.device())?;
        let mut monitor = StatsMonitor::new(each_step())?;
        let mut sgd = SGD::new(self.parameters(), SGDConfig { lr, ..Default::default() })?;
        let mut reports = Vec::new();
        for step in 0..steps {
            let loss = monitor.watch(self, step, || {
                let of = |layer: &Linear, weight: f64| {
                    layer.forward(&input)?.square()?.mean_all()?.mul_scalar(weight)
                };
                let [one, other] = loss_weights(step);
                of(&self.one, one)?.add(&of(&self.other, other)?)
            })?;
            reports.extend(monitor.step(&mut sgd, &loss.backward()?)?);
        }
        Ok(reports)
    }
}

/// The weight that changes most belongs to one layer in one reading, and to the other in the next.
#[test]
fn small_updates_are_counted_for_the_model_whichever_layer_changes_most() -> Result<()> {
    let loss_weights = |step: u64| if step.is_multiple_of(2) { [1.0, 0.1] } else { [0.1, 1.0] };
    let reports = Pair::new(&device())?.reports(1e-7, 6, loss_weights)?;
    quiet(&reports[..4]);
    assert_eq!(faults(&reports[4]), [(Fault::SmallUpdates, "one")], "{}", reports[4]);
    assert_eq!(faults(&reports[5]), [(Fault::SmallUpdates, "other")], "{}", reports[5]);
    Ok(())
}

/// A layer without gradients is reported, even if the layer after it has none from time to time.
#[test]
fn zero_gradients_are_counted_for_each_layer() -> Result<()> {
    let loss_weights = |step: u64| if step.is_multiple_of(2) { [0.0, 0.0] } else { [0.0, 1.0] };
    let reports = Pair::new(&device())?.reports(1e-3, 7, loss_weights)?;
    quiet(&reports[..4]);
    for report in &reports[4..] {
        assert_eq!(faults(report), [(Fault::ZeroGradient, "one")], "{report}");
    }
    assert!(
        reports[4].warnings[0].message.starts_with("one: all gradients of its parameters were 0 in each")
    );
    Ok(())
}

/// The outputs of the second layer are too small in every other reading, those of the third in
/// every reading.
#[test]
fn vanishing_outputs_are_counted_for_each_layer() -> Result<()> {
    let device = device();
    let model = Mlp::new([16; 4], &device)?;
    let input = Tensor::randn([8, 16], DType::F32, &device)?;
    let weight = model.layers[1].weight.tensor().detach().copy()?;
    model.layers[1].bias.as_ref().expect("a bias").set(&Tensor::zeros([16], DType::F32, &device)?)?;
    model.layers[2].weight.set(&Tensor::full([16, 16], 1e-6, DType::F32, &device)?)?;
    model.layers[2].bias.as_ref().expect("a bias").set(&Tensor::full([16], 1e-6, DType::F32, &device)?)?;
    let mut monitor = StatsMonitor::new(each_step())?;
    for step in 0..7 {
        model.layers[1].weight.set(&weight.mul_scalar(if step % 2 == 0 { 1e-4 } else { 1.0 })?)?;
        let loss = monitor.watch(&model, step, || model.forward(&input)?.square()?.mean_all())?;
        let report = monitor.report(&loss.backward()?)?.expect("each step");
        let vanishing = faults(&report).iter().find(|(fault, _)| *fault == Fault::VanishingOutputs).copied();
        assert_eq!(vanishing, (step >= 4).then_some((Fault::VanishingOutputs, "layers.2")), "{report}");
    }
    Ok(())
}

/// Returns the steps whose reports warn of `fault`.
fn reported_steps(reports: &[StatsReport], fault: Fault) -> Vec<u64> {
    let has_warning = |report: &&StatsReport| report.warnings.iter().any(|warning| warning.fault == fault);
    reports.iter().filter(has_warning).map(|report| report.step).collect()
}

#[test]
fn a_persistent_fault_is_reported_at_doubling_intervals() -> Result<()> {
    // Later the updates become a hundred times smaller, as with a schedule.
    let loss_weights = |step: u64| {
        let size = if step < 24 { 1.0 } else { 0.01 };
        if step.is_multiple_of(2) { [size, 0.1 * size] } else { [0.1 * size, size] }
    };
    let reports = Pair::new(&device())?.reports(1e-7, 40, loss_weights)?;
    // The first, second, fourth, eighth, sixteenth and thirty-second reading that shows it.
    assert_eq!(reported_steps(&reports, Fault::SmallUpdates), [4, 5, 7, 11, 19, 35]);
    for report in &reports[4..] {
        assert_eq!((report.all_warnings.len(), report.all_warnings[0].since), (1, 4), "{report}");
    }
    let last = reports[39].to_string();
    assert!(
        last.ends_with(" are too small (reported since step 4)") && !last.contains("no warnings"),
        "{last}"
    );
    assert!(!reports[4].to_string().contains("reported since"), "{}", reports[4]);
    Ok(())
}

/// The weights of one layer are 1e5 times too large, later 1e7 times; then they are normal for a
/// while.
#[test]
fn a_fault_is_reported_again_when_it_grows_and_when_it_comes_back() -> Result<()> {
    let device = device();
    let model = Mlp::new([16; 4], &device)?;
    let input = Tensor::randn([8, 16], DType::F32, &device)?;
    let weight = model.layers[1].weight.tensor().detach().copy()?;
    let mut monitor = StatsMonitor::new(each_step())?;
    let mut reports = Vec::new();
    for step in 0..30 {
        let factor = match step {
            0..10 => 1e5,
            10..15 => 1e7,
            // Absent for fewer than five readings: still the same fault.
            18 | 20..25 => 1.0,
            _ => 1e7,
        };
        model.layers[1].weight.set(&weight.mul_scalar(factor)?)?;
        let loss = monitor.watch(&model, step, || model.forward(&input)?.square()?.mean_all())?;
        reports.extend(monitor.report(&loss.backward()?)?);
    }
    assert_eq!(reported_steps(&reports, Fault::ExplodingOutputs), [0, 1, 3, 7, 10, 25, 26, 28]);
    let since = |step: usize| reports[step].all_warnings.iter().map(|warning| warning.since).max();
    assert_eq!([since(17), since(18), since(19), since(29)], [Some(0), None, Some(0), Some(25)]);
    Ok(())
}
