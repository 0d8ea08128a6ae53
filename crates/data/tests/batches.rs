//! Batches as tensors: shapes, values, order, prefetch and errors.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use ternion_core::backend::Buffer;
use ternion_core::{Backend, DType, Device, Result, delegate_backend};
use ternion_data::{Batch, Batches, DataError, LastBatch, Split, Transform};

/// Ten images of 2 x 3 pixels. Image `i` is filled with `10 * i` and has the label `i`.
fn split() -> Split {
    let pixels = (0..10).flat_map(|number| [10 * number; 6]).collect();
    Split::new(pixels, (0..10).collect(), [2, 3], 10).unwrap()
}

fn collect(batches: &Batches) -> Vec<Batch> {
    batches.into_iter().map(|batch| batch.unwrap()).collect()
}

fn labels(batches: &Batches) -> Vec<i64> {
    collect(batches).iter().flat_map(|batch| batch.labels.to_vec::<i64>().unwrap()).collect()
}

#[test]
fn batch_has_the_documented_shapes_dtypes_and_values() {
    let batches = split().batches(4, &ternion_cpu::device());
    assert_eq!((batches.len(), batches.is_empty()), (3, false));
    let collected = collect(&batches);
    for (batch, size) in collected.iter().zip([4, 4, 2]) {
        assert_eq!(batch.size, size);
        assert_eq!(batch.images.dims(), [size, 1, 2, 3]);
        assert_eq!(batch.labels.dims(), [size]);
        assert_eq!((batch.images.dtype(), batch.labels.dtype()), (DType::F32, DType::I64));
        assert!(batch.mask.is_none());
    }
    let images = collected[1].images.to_vec::<f32>().unwrap();
    assert_eq!(images[..6], [40.0 / 255.0; 6]);
    assert_eq!(images[18..], [70.0 / 255.0; 6]);
    assert_eq!(labels(&batches), (0..10).collect::<Vec<i64>>());
}

#[test]
fn a_padded_batch_has_a_mask_of_its_size() {
    let batches = split().batches(4, &ternion_cpu::device()).last_batch(LastBatch::PadWithMask);
    let collected = collect(&batches);
    let last = &collected[2];
    assert_eq!((last.images.dims(), last.labels.dims(), last.size), (&[4, 1, 2, 3][..], &[4][..], 2));
    assert_eq!(last.mask.as_ref().unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(last.labels.to_vec::<i64>().unwrap(), [8, 9, 0, 0]);
    assert_eq!(collected[0].mask.as_ref().unwrap().to_vec::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(split().batches(4, &ternion_cpu::device()).last_batch(LastBatch::Drop).len(), 2);
}

#[test]
fn epochs_of_a_shuffled_split_differ_and_repeat_by_seed() {
    let device = ternion_cpu::device();
    let batches = split().shuffled(0).batches(4, &device);
    // The order of seed 0, epoch 0 is pinned in the unit tests.
    assert_eq!(labels(&batches), [5, 2, 0, 8, 7, 3, 1, 4, 6, 9]);
    assert_eq!(labels(&batches.epoch(1)), [4, 0, 7, 9, 5, 8, 2, 6, 1, 3]);
    assert_eq!(labels(&batches.epoch(0)), labels(&split().shuffled(0).batches(4, &device)));
    assert_ne!(labels(&batches), labels(&split().shuffled(1).batches(4, &device)));
}

#[test]
fn prefetched_batches_equal_those_on_demand() {
    let on_demand = split().shuffled(3).batches(3, &ternion_cpu::device());
    for ahead in [1, 2, 10] {
        let prefetched = collect(&on_demand.clone().prefetch(ahead));
        assert_eq!(prefetched.len(), 4);
        for (left, right) in prefetched.iter().zip(collect(&on_demand)) {
            assert_eq!(left.images.to_vec::<f32>().unwrap(), right.images.to_vec::<f32>().unwrap());
            assert_eq!(left.labels.to_vec::<i64>().unwrap(), right.labels.to_vec::<i64>().unwrap());
        }
    }
    let mut early = on_demand.prefetch(1).into_iter();
    assert_eq!(early.next().unwrap().unwrap().size, 3);
    drop(early);
}

/// A device that records which threads upload to it.
#[derive(Debug)]
struct UploadRecorder {
    inner: Device,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl Backend for UploadRecorder {
    delegate_backend!(inner: alloc, download, plan, run, synchronize, memory);

    fn name(&self) -> &str {
        "noting"
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        self.threads.lock().unwrap().push(std::thread::current().id());
        self.inner.backend().upload(host, to, offset_bytes)
    }
}

/// A device that records a step rejects uploads from other threads.
#[test]
fn prefetched_batches_are_uploaded_by_the_requesting_thread() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let device = Device::new(UploadRecorder { inner: ternion_cpu::device(), threads: threads.clone() });
    for ahead in [0, 1, 4] {
        assert_eq!(labels(&split().batches(4, &device).prefetch(ahead)), (0..10).collect::<Vec<i64>>());
    }
    let threads = threads.lock().unwrap();
    // Images and labels of three batches, three times.
    assert_eq!(threads[..], [std::thread::current().id(); 18]);
}

#[test]
fn normalized_pixels_follow_the_documented_formula() {
    let batches = split().batches(10, &ternion_cpu::device()).normalize(0.5, 0.25).unwrap();
    let images = collect(&batches)[0].images.to_vec::<f32>().unwrap();
    assert_eq!(images[0], -2.0);
    assert!((images[59] - (90.0 / 255.0 - 0.5) / 0.25).abs() < 1e-6);
    let rejected = split().batches(10, &ternion_cpu::device()).normalize(0.5, 0.0);
    assert!(matches!(rejected, Err(DataError::Normalization { std: 0.0, .. })));
}

/// Six images with 3 channels of 2 x 2 pixels. The value of a pixel is its index in the split.
fn colored() -> Split {
    Split::with_channels((0..72).collect(), vec![0, 1, 2, 3, 4, 5], [3, 2, 2], 6).unwrap()
}

fn images(batches: &Batches) -> Vec<Vec<f32>> {
    let each = |batch: &Batch| {
        let width = batch.images.dims()[1..].iter().product();
        let values = batch.images.to_vec::<f32>().unwrap();
        values.chunks(width).map(<[f32]>::to_vec).collect::<Vec<_>>()
    };
    collect(batches).iter().flat_map(each).collect()
}

#[test]
fn each_channel_is_normalized_separately() {
    let batches = colored().batches(6, &ternion_cpu::device());
    let normalized = batches.clone().normalize_channels(&[0.0, 0.5, 0.25], &[1.0, 2.0, 0.5]).unwrap();
    assert_eq!(collect(&normalized)[0].images.dims(), [6, 3, 2, 2]);
    let image = &images(&normalized)[1];
    let pixel = |value: f32, mean: f32, std: f32| (value / 255.0 - mean) / std;
    assert_eq!((image[0], image[3]), (pixel(12.0, 0.0, 1.0), pixel(15.0, 0.0, 1.0)));
    assert_eq!((image[4], image[8]), (pixel(16.0, 0.5, 2.0), pixel(20.0, 0.25, 0.5)));
    let message = batches.normalize_channels(&[0.5], &[1.0, 1.0]).unwrap_err().to_string();
    assert_eq!(message, "normalize: 1 means and 2 standard deviations, expected 3 of each");
}

#[test]
fn a_transformed_example_does_not_depend_on_its_batch() {
    let list = [
        Transform::RandomCrop { size: [3, 2], padding: 1 },
        Transform::RandomHorizontalFlip { probability: 0.5 },
        Transform::Cutout { side: 1 },
    ];
    let device = ternion_cpu::device();
    let batches = |size| colored().batches(size, &device).transforms(&list, 7).unwrap().epoch(2);
    assert_eq!(collect(&batches(4))[0].images.dims(), [4, 3, 3, 2]);
    let expected_images = images(&batches(6));
    assert_eq!(images(&batches(1)), expected_images);
    assert_eq!(images(&batches(4).prefetch(2)), expected_images);
    assert_ne!(images(&batches(6).epoch(3)), expected_images);
    let shuffled = colored().shuffled(1);
    let reordered = images(&shuffled.batches(4, &device).transforms(&list, 7).unwrap().epoch(2));
    let expected: Vec<Vec<f32>> =
        shuffled.order(2).into_iter().map(|position| expected_images[position].clone()).collect();
    assert_eq!(reordered, expected);
    let rejected = colored().batches(2, &device).transforms(&[Transform::Cutout { side: 0 }], 0);
    assert!(matches!(rejected, Err(DataError::Transform { .. })));
}

#[test]
fn padding_is_black_per_channel_and_has_the_transformed_size() {
    let batches = colored().batches(4, &ternion_cpu::device()).last_batch(LastBatch::PadWithMask);
    let batches = batches.normalize_channels(&[1.0, 2.0, 3.0], &[1.0; 3]).unwrap();
    let crop = Transform::RandomCrop { size: [1, 2], padding: 0 };
    let last = images(&batches.transforms(&[crop], 0).unwrap()).pop().unwrap();
    assert_eq!(last, [-1.0, -1.0, -2.0, -2.0, -3.0, -3.0]);
}

#[test]
fn batch_size_of_zero_is_a_single_error() {
    for ahead in [0, 2] {
        let batches = split().batches(0, &ternion_cpu::device()).prefetch(ahead);
        assert!(batches.is_empty());
        let mut iterator = batches.into_iter();
        assert!(matches!(iterator.next(), Some(Err(DataError::ZeroBatchSize))));
        assert!(iterator.next().is_none());
    }
}

#[test]
fn an_error_of_this_crate_becomes_one_of_core_with_its_message() {
    let core = ternion_core::Error::from(DataError::ZeroBatchSize);
    assert_eq!(core.to_string(), "data: batches: batch size 0, expected at least 1");
    let there_and_back = ternion_core::Error::from(DataError::from(core));
    assert_eq!(there_and_back.to_string(), "data: batches: batch size 0, expected at least 1");
}
