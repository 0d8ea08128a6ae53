//! Reads PNG and JPEG files as tensors, and writes tensors as PNG files.

use crate::error::{DataError, Result};
use image::{ColorType, DynamicImage, ImageFormat, ImageReader};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use ternion_core::{Device, Tensor};

/// Reads a PNG or JPEG file as red, green and blue. The format is detected from the content, not
/// from the name.
///
/// Grayscale images get three equal channels, the alpha channel is dropped, and 16 bits per channel
/// keep their precision.
///
/// # Shapes
/// `[3, rows, cols]` f32, from 0 to 1.
///
/// # Errors
/// Returns an error if the file cannot be read, is not in either format, is corrupt, or exceeds the
/// size limit of the decoder.
pub fn read_image(file: impl AsRef<Path>, device: &Device) -> Result<Tensor> {
    let file = file.as_ref();
    let in_file = |source| DataError::Io { file: file.to_path_buf(), source };
    // The reader does not get the file name: the format must not be guessed from it.
    let reader = ImageReader::new(BufReader::new(File::open(file).map_err(in_file)?));
    let reader = reader.with_guessed_format().map_err(in_file)?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(image_error(file, "neither PNG nor JPEG"));
    }
    let decoded = reader.decode().map_err(|error| image_error(file, error))?;
    let (rows, cols) = (decoded.height() as usize, decoded.width() as usize);
    let pixels = unit_rgb(decoded);
    // [rows, cols, 3] -> [3, rows, cols]
    let values: Vec<f32> =
        (0..3).flat_map(|channel| pixels.iter().skip(channel).step_by(3)).copied().collect();
    Ok(Tensor::from_vec(values, [3, rows, cols], device)?)
}

/// Writes a PNG file with 8 bits per channel. Values are clamped to the range from 0 to 1.
///
/// # Shapes
/// `[3, rows, cols]`, or `[1, rows, cols]` for grayscale, of any float dtype.
///
/// # Errors
/// Returns an error if the tensor has another shape or non-finite values, or the file cannot be
/// written.
pub fn write_png(image: &Tensor, file: impl AsRef<Path>) -> Result<()> {
    let file = file.as_ref();
    let (color, channels, rows, cols) = match *image.dims() {
        [3, rows, cols] if rows * cols > 0 => (ColorType::Rgb8, 3, rows, cols),
        [1, rows, cols] if rows * cols > 0 => (ColorType::L8, 1, rows, cols),
        _ => {
            let found = image.shape();
            return Err(image_error(
                file,
                format!("shape {found:?}, expected [3, rows, cols] or [1, rows, cols]"),
            ));
        }
    };
    let values = image.to_vec_f64()?;
    if let Some(position) = values.iter().position(|value| !value.is_finite()) {
        let indices = [position / (rows * cols), position / cols % rows, position % cols];
        return Err(image_error(
            file,
            format!("{} at {indices:?}, expected finite numbers", values[position]),
        ));
    }
    // [channels, rows, cols] -> [rows, cols, channels]
    let value_at = |index: usize| values[index % channels * rows * cols + index / channels];
    let byte_at = |index| (value_at(index).clamp(0.0, 1.0) * 255.0).round() as u8;
    let bytes: Vec<u8> = (0..values.len()).map(byte_at).collect();
    let side = |length: usize| {
        u32::try_from(length).map_err(|_| image_error(file, format!("{length} pixels in a row")))
    };
    image::save_buffer_with_format(file, &bytes, side(cols)?, side(rows)?, color, ImageFormat::Png)
        .map_err(|error| image_error(file, error))
}

/// Returns red, green and blue from 0 to 1, each a correctly rounded quotient: `[rows, cols, 3]`.
fn unit_rgb(decoded: DynamicImage) -> Vec<f32> {
    let color = decoded.color();
    if color.bytes_per_pixel() > color.channel_count() {
        decoded.into_rgb16().iter().map(|&value| f32::from(value) / 65_535.0).collect()
    } else {
        decoded.into_rgb8().iter().map(|&value| f32::from(value) / 255.0).collect()
    }
}

fn image_error(file: &Path, reason: impl ToString) -> DataError {
    DataError::ImageFile { file: file.to_path_buf(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 x 3 pixels whose values are integers divided by 255.
    fn picture(channels: usize) -> Tensor {
        let values: Vec<f32> = (0..channels * 6).map(|index| (index * 14) as f32 / 255.0).collect();
        Tensor::from_vec(values, [channels, 2, 3], &ternion_cpu::device()).unwrap()
    }

    fn values(tensor: &Tensor) -> Vec<f32> {
        tensor.to_vec().unwrap()
    }

    #[test]
    fn png_file_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture.png");
        write_png(&picture(3), &file).unwrap();
        let decoded = read_image(&file, &ternion_cpu::device()).unwrap();
        assert_eq!((decoded.dims(), values(&decoded)), (&[3, 2, 3][..], values(&picture(3))));
        write_png(&picture(1), &file).unwrap();
        let gray = values(&picture(1));
        assert_eq!(
            values(&read_image(&file, &ternion_cpu::device()).unwrap()),
            [&gray[..], &gray, &gray].concat()
        );
    }

    #[test]
    fn values_are_rounded_and_clamped_to_0_and_1() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture.png");
        let device = ternion_cpu::device();
        let image =
            Tensor::from_vec(vec![-3.0_f32, 0.4 / 255.0, 0.6 / 255.0, 7.0], [1, 2, 2], &device).unwrap();
        write_png(&image, &file).unwrap();
        assert_eq!(values(&read_image(&file, &device).unwrap())[..4], [0.0, 0.0, 1.0 / 255.0, 1.0]);
    }

    #[test]
    fn jpeg_file_is_read_approximately_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture.png");
        let bytes: Vec<u8> = [200, 100, 50].repeat(16 * 8);
        image::save_buffer_with_format(&file, &bytes, 16, 8, ColorType::Rgb8, ImageFormat::Jpeg).unwrap();
        let read = read_image(&file, &ternion_cpu::device()).unwrap();
        assert_eq!(read.dims(), [3, 8, 16]);
        for (channel, expected) in values(&read).chunks(128).zip([200.0, 100.0, 50.0]) {
            assert!(
                channel.iter().all(|value| (value * 255.0 - expected).abs() < 6.0),
                "{expected}: {channel:?}"
            );
        }
    }

    #[test]
    fn sixteen_bits_keep_their_precision() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep.png");
        let bytes: Vec<u8> = [1000_u16, 1001, 1002].iter().flat_map(|value| value.to_ne_bytes()).collect();
        image::save_buffer(&file, &bytes, 1, 1, ColorType::Rgb16).unwrap();
        let read = values(&read_image(&file, &ternion_cpu::device()).unwrap());
        for (value, expected) in read.iter().zip([1000.0, 1001.0, 1002.0]) {
            assert_eq!(*value, expected / 65_535.0);
        }
    }

    #[test]
    fn corrupt_files_and_invalid_tensors_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let (file, device) = (folder.path().join("picture.png"), ternion_cpu::device());
        let read = || read_image(&file, &device).unwrap_err().to_string();
        assert!(matches!(read_image(&file, &device), Err(DataError::Io { .. })));
        write_png(&picture(3), &file).unwrap();
        let intact = std::fs::read(&file).unwrap();
        std::fs::write(&file, &intact[..intact.len() / 2]).unwrap();
        assert!(read().contains("picture.png: "), "{}", read());
        std::fs::write(&file, "GIF89a").unwrap();
        assert!(read().ends_with("picture.png: neither PNG nor JPEG"), "{}", read());
        std::fs::write(&file, "").unwrap();
        assert!(read().ends_with("picture.png: neither PNG nor JPEG"), "{}", read());
        let write = |values: Vec<f32>, shape: &[usize]| {
            let image = Tensor::from_vec(values, shape, &device).unwrap();
            write_png(&image, &file).unwrap_err().to_string()
        };
        assert!(write(vec![0.0; 8], &[2, 2, 2]).contains("expected [3, rows, cols]"));
        assert!(write(Vec::new(), &[3, 0, 2]).contains("expected [3, rows, cols]"));
        assert!(write(vec![0.0, 1.0, f32::NAN, 0.0], &[1, 2, 2]).contains("NaN at [0, 1, 0]"));
    }
}
