//! Layers over one and three axes, and layers of channels, compute the functions of the same names,
//! with PyTorch's defaults.

use ternion_core::{
    Conv3dOptions, ConvTranspose1dOptions, ConvTranspose3dOptions, DType, Device, PoolOptions, Result, Tensor,
};
use ternion_nn::{
    AdaptiveAvgPool1d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool1d,
    AvgPool3d, ChannelShuffle, Conv3d, Conv3dConfig, ConvTranspose1d, ConvTranspose3d, Forward,
    LocalResponseNorm, MaxPool1d, MaxPool3d, Module, PixelShuffle, PixelUnshuffle, Upsample, UpsampleMode,
};

fn device() -> Device {
    let device = ternion_cpu::device();
    device.seed(5);
    device
}

fn drawn(shape: &[usize], device: &Device) -> Result<Tensor> {
    let count: usize = shape.iter().product();
    Tensor::arange(0, count as f64, 1, DType::F32, device)?.sin()?.reshape(shape)
}

fn same(layer: &impl Forward, input: &Tensor, right: &Tensor) -> Result<()> {
    let output = layer.forward(input)?;
    assert_eq!(output.dims(), right.dims());
    assert_eq!(output.to_vec::<f32>()?, right.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn pooling_layers_equal_their_functions() -> Result<()> {
    let device = device();
    let (row, volume) = (drawn(&[2, 3, 8], &device)?, drawn(&[1, 2, 4, 5, 4], &device)?);
    same(&MaxPool1d::new(3), &row, &row.max_pool1d(PoolOptions::new([3]))?)?;
    same(&AvgPool1d::new(3), &row, &row.avg_pool1d(PoolOptions::new([3]))?)?;
    same(&MaxPool3d::new(2), &volume, &volume.max_pool3d(PoolOptions::new([2; 3]))?)?;
    same(&AvgPool3d::new(2), &volume, &volume.avg_pool3d(PoolOptions::new([2; 3]))?)?;
    same(&AdaptiveAvgPool1d::new([3]), &row, &row.adaptive_avg_pool1d([3])?)?;
    same(&AdaptiveAvgPool3d::new([3, 2, 1]), &volume, &volume.adaptive_avg_pool3d([3, 2, 1])?)?;
    same(&AdaptiveMaxPool1d::new([3]), &row, &row.adaptive_max_pool1d([3])?.0)?;
    same(&AdaptiveMaxPool3d::new([3, 2, 1]), &volume, &volume.adaptive_max_pool3d([3, 2, 1])?.0)?;
    let image = volume.select(2, 0)?;
    same(&AdaptiveMaxPool2d::new([3, 2]), &image, &image.adaptive_max_pool2d([3, 2])?.0)
}

#[test]
fn convolutions_have_pytorchs_weight_shapes() -> Result<()> {
    let device = device();
    let options = Conv3dOptions { groups: 2, ..Conv3dOptions::default() };
    let config = Conv3dConfig { options, bias: false, ..Conv3dConfig::default() };
    let grouped = Conv3d::with_config([4, 6], [1, 2, 3], config, &device)?;
    assert_eq!(grouped.weight.tensor().dims(), [6, 2, 1, 2, 3]);
    assert_eq!(grouped.parameters().len(), 1);
    let message =
        Conv3d::with_config([4, 5], [1, 2, 3], config, &device).expect_err("5 in 2 groups").to_string();
    assert_eq!(message, "conv3d: 4 and 5 channels are not multiples of 2 groups");

    let volume = drawn(&[1, 4, 3, 4, 5], &device)?;
    let plain = Conv3d::new(4, 6, [2, 3, 1], &device)?;
    let bias = plain.bias.as_ref().map(|bias| bias.tensor());
    same(&plain, &volume, &volume.conv3d(&plain.weight.tensor(), bias.as_ref(), Conv3dOptions::default())?)?;
    let layer = ConvTranspose3d::new(4, 6, [2, 3, 1], &device)?;
    assert_eq!(layer.weight.tensor().dims(), [4, 6, 2, 3, 1]);
    let bias = layer.bias.as_ref().map(|bias| bias.tensor());
    let right =
        volume.conv_transpose3d(&layer.weight.tensor(), bias.as_ref(), ConvTranspose3dOptions::default())?;
    same(&layer, &volume, &right)?;
    let (row, layer) = (drawn(&[1, 4, 7], &device)?, ConvTranspose1d::new(4, 3, [2], &device)?);
    let bias = layer.bias.as_ref().map(|bias| bias.tensor());
    let right =
        row.conv_transpose1d(&layer.weight.tensor(), bias.as_ref(), ConvTranspose1dOptions::default())?;
    same(&layer, &row, &right)
}

#[test]
fn channel_and_upsampling_layers_equal_their_functions() -> Result<()> {
    let device = device();
    let image = drawn(&[1, 4, 4, 6], &device)?;
    same(&PixelShuffle { factor: 2 }, &image, &image.pixel_shuffle(2)?)?;
    same(&PixelUnshuffle { factor: 2 }, &image, &image.pixel_unshuffle(2)?)?;
    same(&ChannelShuffle { groups: 2 }, &image, &image.channel_shuffle(2)?)?;
    same(&LocalResponseNorm::new(3), &image, &image.local_response_norm(3, 1e-4, 0.75, 1.0)?)?;
    for mode in
        [UpsampleMode::NearestExact, UpsampleMode::Bicubic { align_corners: true }, UpsampleMode::Area]
    {
        let layer = Upsample { mode, ..Upsample::to([3, 7]) };
        assert_eq!(layer.forward(&image)?.dims(), [1, 4, 3, 7]);
    }
    Ok(())
}
