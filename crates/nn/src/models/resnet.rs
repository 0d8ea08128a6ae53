//! Residual networks.

use crate::init::{Fan, Init, Nonlinearity};
use crate::layers::{BatchNorm2d, BatchNormConfig, Conv2d, Conv2dConfig, Linear, LinearConfig, Sequential};
use crate::module::{Forward, Module, Visitor, in_layer};
use ternion_core::{Conv2dOptions, DType, Device, Error, Result, Tensor};

/// `relu(bn2(conv2(relu(bn1(conv1(x))))) + x)`, with a convolution of `x` if its shape changes: the
/// basic block of He et al. 2016 (figure 2), with the keys of torchvision's `BasicBlock`.
#[derive(Module)]
pub struct ResidualBlock {
    /// 3 x 3, with the block's stride.
    pub conv1: Conv2d,
    /// The norm after `conv1`.
    pub bn1: BatchNorm2d,
    /// 3 x 3.
    pub conv2: Conv2d,
    /// The norm after `conv2`.
    pub bn2: BatchNorm2d,
    /// A 1 x 1 convolution with the block's stride, and a norm; `None` unless the block changes
    /// stride or channels.
    pub downsample: Option<Sequential>,
}

/// Creates a convolution without bias, with the initialization of torchvision's networks.
fn convolution(
    channels: [usize; 2],
    kernel: usize,
    stride: usize,
    dtype: DType,
    device: &Device,
) -> Result<Conv2d> {
    let options = Conv2dOptions { stride: [stride; 2], padding: [kernel / 2; 2], ..Default::default() };
    let weight_init = Init::KaimingNormal { fan: Fan::Out, nonlinearity: Nonlinearity::ReLU };
    let config = Conv2dConfig { options, bias: false, dtype, weight_init, ..Default::default() };
    Conv2d::with_config(channels, [kernel; 2], config, device)
}

fn norm(channels: usize, dtype: DType, device: &Device) -> Result<BatchNorm2d> {
    BatchNorm2d::with_config(channels, BatchNormConfig { dtype, ..Default::default() }, device)
}

impl ResidualBlock {
    /// Creates a block from `inputs` to `outputs` channels, with this stride.
    ///
    /// # Errors
    /// Returns an error if the stride is 0, the dtype is not floating, or memory is exhausted.
    pub fn new(
        inputs: usize,
        outputs: usize,
        stride: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<ResidualBlock> {
        if stride == 0 {
            return Err(Error::invalid("residual_block", "stride 0, expected at least 1"));
        }
        let changes = stride != 1 || inputs != outputs;
        let shortcut = || {
            let convolution = convolution([inputs, outputs], 1, stride, dtype, device)?;
            Ok::<_, Error>(Sequential::new().with(convolution).with(norm(outputs, dtype, device)?))
        };
        Ok(ResidualBlock {
            conv1: convolution([inputs, outputs], 3, stride, dtype, device)?,
            bn1: norm(outputs, dtype, device)?,
            conv2: convolution([outputs, outputs], 3, 1, dtype, device)?,
            bn2: norm(outputs, dtype, device)?,
            downsample: changes.then(shortcut).transpose()?,
        })
    }
}

impl Forward for ResidualBlock {
    /// # Shapes
    /// `[batch, inputs, height, width] -> [batch, outputs, height / stride, width / stride]`,
    /// rounded up
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "ResidualBlock", || {
            let inner = self.bn1.forward(&self.conv1.forward(input)?)?.relu()?;
            let inner = self.bn2.forward(&self.conv2.forward(&inner)?)?;
            let shortcut =
                self.downsample.as_ref().map_or(Ok(input.clone()), |shortcut| shortcut.forward(input))?;
            inner.add(&shortcut)?.relu()
        })
    }
}

/// Configuration of a [`ResNet`]. The default is ResNet-18 for images of about 32 x 32.
#[derive(Clone, Debug, PartialEq)]
pub struct ResNetConfig {
    /// Number of channels of the images; 3 by default.
    pub channels: usize,
    /// Number of classes; 10 by default.
    pub classes: usize,
    /// Number of blocks of each stage; `[2, 2, 2, 2]` by default. Each stage but the first halves
    /// rows and columns and doubles the channels.
    pub blocks: Vec<usize>,
    /// Number of channels of the first stage; 64 by default.
    pub width: usize,
    /// Element type of the parameters; f32 by default.
    pub dtype: DType,
}

impl Default for ResNetConfig {
    fn default() -> Self {
        ResNetConfig { channels: 3, classes: 10, blocks: vec![2, 2, 2, 2], width: 64, dtype: DType::F32 }
    }
}

/// A residual network (He et al. 2016) for small images: the first convolution is 3 x 3 with stride
/// 1 and no pooling follows, so that the resolution of 32 x 32 images is preserved. The keys are
/// torchvision's: `conv1`, `bn1`, `layer1.0.conv1`, .., `fc`.
///
/// ```
/// use ternion_core::{DType, Result, Tensor};
/// use ternion_nn::{Forward, Module, ResNet, ResNetConfig};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// let config = ResNetConfig { blocks: vec![1, 1], width: 4, ..Default::default() };
/// let model = ResNet::new(config, &device)?;
/// let scores = model.forward(&Tensor::randn([2, 3, 8, 8], DType::F32, &device)?)?;
/// assert_eq!(scores.dims(), [2, 10]);
/// # Ok(())
/// # }
/// ```
pub struct ResNet {
    /// The first convolution, from the channels of the images.
    pub conv1: Conv2d,
    /// The norm after `conv1`.
    pub bn1: BatchNorm2d,
    /// The stages: `layer1`, `layer2` and so on.
    pub stages: Vec<Vec<ResidualBlock>>,
    /// The output layer, from the mean of each channel of the last stage to the classes.
    pub fc: Linear,
}

impl ResNet {
    /// Creates a model with initial weights from the device's random number generator.
    ///
    /// # Errors
    /// Returns an error if there is no stage or one without a block, the width is 0, the dtype is
    /// not floating, or memory is exhausted.
    pub fn new(config: ResNetConfig, device: &Device) -> Result<ResNet> {
        let ResNetConfig { channels, classes, blocks, width, dtype } = config;
        if blocks.is_empty() || blocks.contains(&0) || width == 0 {
            let detail = format!("stages of {blocks:?} blocks, width {width}: expected at least 1 of each");
            return Err(Error::invalid("resnet", detail));
        }
        let mut inputs = width;
        let mut stages = Vec::with_capacity(blocks.len());
        for (index, &count) in blocks.iter().enumerate() {
            let outputs = width << index;
            let mut stage = Vec::with_capacity(count);
            for at in 0..count {
                let stride = if at == 0 && index > 0 { 2 } else { 1 };
                stage.push(ResidualBlock::new(inputs, outputs, stride, dtype, device)?);
                inputs = outputs;
            }
            stages.push(stage);
        }
        Ok(ResNet {
            conv1: convolution([channels, width], 3, 1, dtype, device)?,
            bn1: norm(width, dtype, device)?,
            stages,
            fc: Linear::with_config(inputs, classes, LinearConfig { dtype, ..Default::default() }, device)?,
        })
    }
}

impl Module for ResNet {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.layer("ResNet", self);
        visitor.field("conv1", &self.conv1);
        visitor.field("bn1", &self.bn1);
        for (index, stage) in self.stages.iter().enumerate() {
            visitor.field(format_args!("layer{}", index + 1), stage);
        }
        visitor.field("fc", &self.fc);
    }
}

impl Forward for ResNet {
    /// # Shapes
    /// `[batch, channels, height, width] -> [batch, classes]`
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        in_layer(self, "ResNet", || {
            let mut x = self.bn1.forward(&self.conv1.forward(input)?)?.relu()?;
            for block in self.stages.iter().flatten() {
                x = block.forward(&x)?;
            }
            self.fc.forward(&x.mean([2, 3])?)
        })
    }
}
