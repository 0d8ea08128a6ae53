//! `#[derive(Module)]`: the members that it visits, their keys, and the methods of `Module` that
//! are based on them.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::Arc;
use ternion_core::{DType, Device, Error, Result, Tensor};
use ternion_nn::{Dropout, Forward, Linear, Mlp, Module, ModuleField, Param, ReLU, Sequential, StateTensor};

fn device() -> Device {
    ternion_cpu::device()
}

fn param(size: usize) -> Param {
    Param::new(&Tensor::ones([size], DType::F32, &device()).expect("a few ones")).expect("f32")
}

fn keys(module: &dyn Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(key, _)| key).collect()
}

#[derive(Module)]
struct Pair(Param, Param);

fn pair() -> Pair {
    Pair(param(1), param(1))
}

#[derive(Module)]
struct Empty;

#[derive(Clone, PartialEq, Debug)]
enum Style {
    Plain,
}

impl ModuleField for Style {}

/// Every kind of field.
#[derive(Module)]
struct Everything<'a, L, const N: usize> {
    single: Param,
    r#type: Param,
    pair: Pair,
    empty: Empty,
    list: Vec<L>,
    nested: Vec<Vec<Param>>,
    some: Option<Param>,
    none: Option<L>,
    array: [Param; N],
    tuple: (Param, f64, Pair),
    boxed: Box<dyn Forward>,
    shared: Arc<Pair>,
    by_name: BTreeMap<String, L>,
    state: StateTensor,
    #[module(rename = "fc.1")]
    renamed: Param,
    #[module(flatten)]
    flat: Pair,
    #[module(skip)]
    skipped: &'a Ipv4Addr,
    width: usize,
    name: String,
    style: Style,
    marker: PhantomData<u8>,
    device: Device,
    activation: fn(&Tensor) -> Result<Tensor>,
}

fn everything(address: &Ipv4Addr) -> Result<Everything<'_, Linear, 2>> {
    let device = device();
    let linear = || Linear::new(1, 1, &device);
    Ok(Everything {
        single: param(1),
        r#type: param(1),
        pair: pair(),
        empty: Empty,
        list: vec![linear()?, linear()?],
        nested: vec![vec![param(1)], vec![param(1), param(1)]],
        some: Some(param(1)),
        none: None,
        array: [param(1), param(1)],
        tuple: (param(1), 0.5, pair()),
        boxed: Box::new(Sequential::new().with(ReLU).with(linear()?)),
        shared: Arc::new(pair()),
        by_name: BTreeMap::from([("key".to_owned(), linear()?), ("query".to_owned(), linear()?)]),
        state: StateTensor::new(&Tensor::zeros([3], DType::I64, &device)?),
        renamed: param(1),
        flat: pair(),
        skipped: address,
        width: 3,
        name: "everything".into(),
        style: Style::Plain,
        marker: PhantomData,
        device: device.clone(),
        activation: Tensor::relu,
    })
}

#[test]
fn every_kind_of_field_is_visited_under_its_key() -> Result<()> {
    let address = Ipv4Addr::LOCALHOST;
    let model = everything(&address)?;
    let expected = [
        "single",
        "type",
        "pair.0",
        "pair.1",
        "list.0.weight",
        "list.0.bias",
        "list.1.weight",
        "list.1.bias",
        "nested.0.0",
        "nested.1.0",
        "nested.1.1",
        "some",
        "array.0",
        "array.1",
        "tuple.0",
        "tuple.2.0",
        "tuple.2.1",
        "boxed.1.weight",
        "boxed.1.bias",
        "shared.0",
        "shared.1",
        "by_name.key.weight",
        "by_name.key.bias",
        "by_name.query.weight",
        "by_name.query.bias",
        "fc.1",
        "0",
        "1",
    ];
    assert_eq!(keys(&model), expected);
    assert_eq!(model.parameters().len(), expected.len());
    assert_eq!(model.parameter_count(), expected.len());
    assert_eq!(model.named_buffers().iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["state"]);
    assert_eq!(model.state_dict()?.len(), expected.len() + 1);

    // Plain fields are only used by the model itself.
    assert_eq!((model.width, model.name.as_str(), &model.style), (3, "everything", &Style::Plain));
    assert!(model.skipped.is_loopback() && model.none.is_none() && model.device.name() == "cpu");
    let (_, _, PhantomData) = (&model.empty, model.activation, model.marker);
    Ok(())
}

#[derive(Module)]
enum Either<L> {
    One(L),
    Two(Param, Param),
    Named { inner: Param, count: usize },
    Nothing,
}

#[test]
fn enums_visit_their_current_variant() {
    assert_eq!(keys(&Either::One(pair())), ["0", "1"], "a single unnamed field adds no key");
    assert_eq!(keys(&Either::<Pair>::Two(param(1), param(1))), ["0", "1"]);
    let named = Either::<Pair>::Named { inner: param(1), count: 2 };
    assert_eq!(keys(&named), ["inner"]);
    assert!(matches!(named, Either::Named { count: 2, .. }));
    assert!(keys(&Either::<Pair>::Nothing).is_empty());
}

/// A type that contains itself: the generated bounds must not be cyclic.
#[derive(Module)]
struct Tree<L> {
    leaf: L,
    children: Vec<Tree<L>>,
}

#[test]
fn recursive_and_generic_types_are_visited() {
    let leaf = |children| Tree { leaf: pair(), children };
    let tree = leaf(vec![leaf(vec![]), leaf(vec![leaf(vec![])])]);
    let expected = ["leaf.0", "leaf.1", "children.0.leaf.0", "children.0.leaf.1"];
    assert_eq!(keys(&tree)[..4], expected);
    assert_eq!(keys(&tree)[7], "children.1.children.0.leaf.1");
    assert_eq!(keys(&tree).len(), 8);
}

#[test]
fn a_shared_parameter_is_trained_once_and_saved_under_each_name() -> Result<()> {
    let device = device();
    let first = Linear::new(2, 2, &device)?;
    let second = Linear { weight: first.weight.clone(), bias: None };
    let model = (first, second);
    assert_eq!(keys(&model), ["0.weight", "0.bias", "1.weight"]);
    let trained: Vec<Param> = model.parameters();
    assert_eq!(trained.len(), 2);
    assert_eq!(trained[0].name(), Some("0.weight"));
    assert!(trained[0].is(&model.1.weight));
    // Both uses are accumulated in one gradient: d sum(W W x) / dW for W = [[a]], x = 1 is 2a.
    let weight = Param::new(&Tensor::from_slice(&[3f32], [1, 1], &device)?)?;
    let tied = (Linear { weight: weight.clone(), bias: None }, Linear { weight, bias: None });
    let output = tied.1.forward(&tied.0.forward(&Tensor::ones([1, 1], DType::F32, &device)?)?)?;
    let gradients = output.sum(..)?.backward()?;
    let gradient = tied.0.weight.gradient(&gradients).expect("it was used");
    assert_eq!(gradient.to_vec::<f32>()?, [6.0]);
    Ok(())
}

#[test]
fn train_and_eval_reach_every_layer() -> Result<()> {
    let device = device();
    let inner = Sequential::new().with(Linear::new(4, 64, &device)?).with(Dropout::new(0.5)?);
    let model = Sequential::new().with(inner).with(Dropout::new(0.5)?);
    let input = Tensor::ones([8, 4], DType::F32, &device)?;
    let zeros = |output: &Tensor| output.stats().map(|stats| stats.zeros);
    assert!(model.is_training());
    assert!(zeros(&model.forward(&input)?)? > 8 * 64 / 2);
    model.eval();
    assert!(!model.is_training());
    assert_eq!(zeros(&model.forward(&input)?)?, 0);
    assert_eq!(model.forward(&input)?.to_vec::<f32>()?, model.forward(&input)?.to_vec::<f32>()?);
    model.train();
    assert!(model.is_training());
    assert!(!Mlp::new([2, 2], &device)?.is_training(), "nothing in it differs between training and use");
    assert!(Dropout::new(1.5).is_err() && Dropout::new(f64::NAN).is_err());
    Ok(())
}

#[test]
fn frozen_parameters_get_no_gradient() -> Result<()> {
    let device = device();
    let model = Mlp::new([2, 3, 1], &device)?;
    model.layers[0].freeze();
    let input = Tensor::ones([4, 2], DType::F32, &device)?;
    let gradients = model.forward(&input)?.sum(..)?.backward()?;
    assert_eq!(gradients.len(), 2);
    assert!(model.layers[0].weight.gradient(&gradients).is_none());
    model.layers[0].unfreeze();
    assert_eq!(model.forward(&input)?.sum(..)?.backward()?.len(), 4);
    model.freeze();
    assert!(matches!(model.forward(&input)?.sum(..)?.backward(), Err(Error::Autograd(_))));
    Ok(())
}

#[test]
fn parameters_are_overwritten_in_place_or_replaced() -> Result<()> {
    let device = device();
    let weight = param(2);
    let handle = weight.clone();
    weight.set(&Tensor::from_slice(&[3f64, 4.0], [2], &device)?.to_device(&weight.device())?)?;
    assert_eq!(handle.tensor().to_vec::<f32>()?, [3.0, 4.0]);
    let message =
        weight.set(&Tensor::zeros([3], DType::F32, &device)?).expect_err("another shape").to_string();
    assert_eq!(message, "set: source has shape [3], expected [2]");
    handle.replace(Tensor::zeros([5], DType::F64, &device)?)?;
    assert_eq!((weight.shape().dims(), weight.dtype(), weight.is_frozen()), (&[5][..], DType::F64, false));
    handle.freeze();
    handle.replace(Tensor::zeros([1], DType::F32, &device)?)?;
    assert!(weight.is_frozen(), "a frozen parameter stays frozen");
    assert!(Param::new(&Tensor::zeros([1], DType::I32, &device)?).is_err());
    assert_eq!(format!("{weight:?}"), "Param([1] f32, frozen)");
    Ok(())
}

#[test]
fn wrong_sizes_are_errors_with_messages() -> Result<()> {
    let device = device();
    let model = Mlp::new([4, 3], &device)?;
    let message =
        model.forward(&Tensor::zeros([2, 5], DType::F32, &device)?).expect_err("5 is not 4").to_string();
    assert_eq!(message, "linear: [2, 5] with weight [3, 4]: inner sizes 5 and 4 differ");
    for (dims, shown) in [(vec![], "[]"), (vec![3], "[3]")] {
        let message = model.forward(&Tensor::zeros(dims, DType::F32, &device)?).expect_err(shown).to_string();
        assert_eq!(message, format!("mlp: expected at least 2 axes, got shape {shown}"));
    }
    assert_eq!(
        Mlp::new([4], &device).expect_err("one size").to_string(),
        "mlp: sizes [4], expected at least 2"
    );
    Ok(())
}
