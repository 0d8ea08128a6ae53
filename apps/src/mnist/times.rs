//! How long the parts of a training took.

use std::time::Duration;

/// Where the time went.
#[derive(Default)]
pub struct Times {
    /// From the start of the program to data and model on the device.
    pub start: Duration,
    /// The first step: it compiles kernels that the cache lacks, and is recorded if that is wanted.
    pub first_step: Duration,
    /// All other steps, until the device was done with them.
    pub train: Duration,
    /// Images of those.
    pub images: usize,
    pub test: Duration,
}

impl Times {
    pub fn images_per_second(&self) -> Option<f64> {
        speed(self.images, self.train)
    }
}

/// Images in a second; of none there is nothing to say.
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
