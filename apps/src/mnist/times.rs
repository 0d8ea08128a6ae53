//! Durations of the parts of a training run.

use std::time::Duration;

/// Durations of the parts of a training run.
#[derive(Default)]
pub struct Times {
    /// From the start of the program until data and model are on the device.
    pub start: Duration,
    /// The first step: it compiles kernels that are not cached, and is recorded unless `--eager` is
    /// set.
    pub first_step: Duration,
    /// All other steps, until the device has completed them.
    pub train: Duration,
    /// Images of those steps.
    pub images: usize,
    pub test: Duration,
}

impl Times {
    pub fn images_per_second(&self) -> Option<f64> {
        speed(self.images, self.train)
    }
}

/// Returns the images per second; `None` if there are no images.
pub fn speed(images: usize, time: Duration) -> Option<f64> {
    (images > 0).then(|| images as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE))
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [start, first_step, train, test] =
            [self.start, self.first_step, self.train, self.test].map(|time| time.as_secs_f64());
        let speed = self.images_per_second().map_or(String::new(), |speed| format!(" ({speed:.0} images/s)"));
        write!(f, "training {train:.3} s{speed}, testing {test:.3} s; before: {start:.3} s to load, ")?;
        write!(f, "{first_step:.3} s for the first step with its kernels")
    }
}
