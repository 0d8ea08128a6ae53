//! Notifications during a forward and a backward pass: hooks, sinks, observers.

use super::{leaf, message};
use ternion::prelude::*;
use ternion_core::autograd::{TensorId, observe_backward};
use ternion_core::{Error, GradientSink};

#[test]
fn hooks_see_and_change_a_final_gradient() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let middle = x.square()?;
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    middle.register_hook(move |grad| {
        log.lock().expect("one thread").push(grad.to_vec::<f64>()?);
        grad.mul_scalar(10.0).map(Some)
    })?;
    let gradients = middle.add(&middle)?.sum_all()?.backward()?;
    assert_eq!(*seen.lock().expect("one thread"), [vec![2.0, 2.0]]);
    assert_eq!(gradients.get(&x).expect("x").to_vec::<f64>()?, [40.0, 80.0]);
    Ok(())
}

#[test]
fn a_removed_hook_is_not_called_and_the_others_are() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    let tenfold = x.register_hook(|grad| grad.mul_scalar(10.0).map(Some))?;
    x.register_hook(|grad| grad.add_scalar(1.0).map(Some))?;
    let loss = || x.square()?.sum_all();
    assert_eq!(loss()?.backward()?.get(&x).expect("x").to_vec::<f64>()?, [21.0, 41.0]);
    tenfold.remove();
    assert_eq!(loss()?.backward()?.get(&x).expect("x").to_vec::<f64>()?, [3.0, 5.0]);
    Ok(())
}

#[test]
fn a_hook_may_not_change_the_shape() -> Result<()> {
    let device = ternion::cpu()?;
    let x = leaf(&[1.0, 2.0], &device)?;
    x.register_hook(|grad| grad.sum_all().map(Some))?;
    let text = message(x.exp()?.sum_all()?.backward().err().expect("another shape"));
    assert_eq!(text, "backward: a hook turned a gradient of shape [2] f64 into [] f64");
    Ok(())
}

#[test]
fn a_sink_receives_each_leaf_once_and_provides_its_memory() -> Result<()> {
    struct Sink {
        memory: Tensor,
        target: TensorId,
        leaves: Vec<TensorId>,
    }
    impl GradientSink for Sink {
        fn destination(&mut self, id: TensorId) -> Option<Tensor> {
            (id == self.target).then(|| self.memory.clone())
        }
        fn ready(&mut self, id: TensorId, _: Tensor) -> Result<()> {
            self.leaves.push(id);
            Ok(())
        }
    }
    let device = ternion::cpu()?;
    let (x, w) = (leaf(&[2.0], &device)?, leaf(&[3.0], &device)?);
    let loss = x.mul(&w)?.add(&x)?.sum_all()?;
    let memory = Tensor::zeros([1], DType::F64, &device)?;
    let (x_id, w_id) = (x.id().expect("leaf"), w.id().expect("leaf"));
    let mut sink = Sink { memory: memory.clone(), target: x_id, leaves: Vec::new() };
    loss.backward_into(&mut sink)?;
    sink.leaves.sort();
    assert_eq!(sink.leaves, [x_id, w_id]);
    assert_eq!(memory.to_vec::<f64>()?, [4.0]);
    Ok(())
}

#[test]
fn a_leaf_is_final_before_backward_ends() -> Result<()> {
    // The gradient of the last layer's weight must be announced before the first layer's op runs:
    // this makes it possible to overlap communication.
    struct Order(std::rc::Rc<std::cell::RefCell<Vec<String>>>);
    impl GradientSink for Order {
        fn ready(&mut self, _: TensorId, grad: Tensor) -> Result<()> {
            self.0.borrow_mut().push(format!("leaf {}", grad.item_f64()?));
            Ok(())
        }
    }
    let device = ternion::cpu()?;
    let (first, second) = (leaf(&[2.0], &device)?, leaf(&[5.0], &device)?);
    let loss = first.exp()?.mul(&second)?.sum_all()?;
    let log = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let ops = log.clone();
    let mut sink = Order(log.clone());
    observe_backward(
        move |op, _| {
            ops.borrow_mut().push(op.to_string());
            Ok(())
        },
        || loss.backward_into(&mut sink),
    )?;
    let log = log.borrow();
    assert_eq!(
        *log,
        [
            "sum".into(),
            "mul".into(),
            format!("leaf {}", 2f64.exp()),
            "exp".into(),
            format!("leaf {}", 5.0 * 2f64.exp())
        ]
    );
    Ok(())
}

#[test]
fn ops_are_observed_as_they_are_called() -> Result<()> {
    use std::cell::RefCell;
    use std::rc::Rc;
    use ternion_core::observe_ops;
    let device = ternion_core::decorators::Composed::new(ternion::cpu()?);
    let x = leaf(&[1.0, 2.0], &device)?;
    let seen: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = seen.clone();
    let observer = move |call: &ternion_core::OpCall<'_>| {
        let _ = call.outputs[0].exp()?; // Ops of an observer are not observed. 
        log.borrow_mut().push(format!("{} {}", call.op.name(), call.inputs.len()));
        Ok(())
    };
    let run = || -> Result<()> {
        x.reshape([1, 2])?.softmax(1)?.add(&x)?.detach().fill_(1.0)?;
        Ok(())
    };
    observe_ops(observer, run)?;
    run()?;
    assert_eq!(*seen.borrow(), ["softmax 1", "add 2", "fill 0"], "not what they are composed of");
    let stopped = observe_ops(|call| Err(Error::invalid(call.op.name(), "stop")), || x.exp());
    assert_eq!(message(stopped.expect_err("stopped")), "exp: stop");
    Ok(())
}
