//! Classifiers of small photographs.

use clap::ValueEnum;
use ternion::nn::{BatchNorm2d, ResNetConfig};
use ternion::prelude::*;

/// The model to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Alexnet,
    Resnet18,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Alexnet => "alexnet",
            Kind::Resnet18 => "resnet18",
        }
    }

    pub fn model(self, dropout: f64, device: &Device) -> Result<Box<dyn Forward>> {
        Ok(match self {
            Kind::Alexnet => Box::new(alexnet(dropout, device)?),
            Kind::Resnet18 => Box::new(ResNet::new(ResNetConfig::default(), device)?),
        })
    }
}

/// Blocks of convolution, ReLU and pooling, then fully connected layers with dropout (Krizhevsky et
/// al. 2012), reduced to 32 x 32 pixels, with batch normalization (Ioffe and Szegedy 2015) instead
/// of their normalization across neighboring channels.
fn alexnet(dropout: f64, device: &Device) -> Result<Sequential> {
    let convolution = |inputs, outputs| {
        let options = ternion::Conv2dOptions { padding: [1, 1], ..Default::default() };
        let config = Conv2dConfig { options, bias: false, ..Default::default() };
        Conv2d::with_config([inputs, outputs], [3, 3], config, device)
    };
    let mut model = Sequential::new();
    let mut inputs = 3;
    for outputs in [32, 64, 128, 256] {
        model = model
            .with(convolution(inputs, outputs)?)
            .with(BatchNorm2d::new(outputs, device)?)
            .with(ReLU)
            .with(MaxPool2d::new(2)); // [outputs, 16, 16], then 8, 4 and 2
        inputs = outputs;
    }
    Ok(model
        .with(Flatten::default())
        .with(Dropout::new(dropout)?)
        .with(Linear::new(inputs * 2 * 2, 256, device)?)
        .with(ReLU)
        .with(Dropout::new(dropout)?)
        .with(Linear::new(256, 10, device)?))
}
