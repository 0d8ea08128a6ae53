//! Loops that are compiled for several instruction sets. At run time, the version for the widest
//! one that this CPU supports runs.
//!
//! Rules that make this work:
//! - `#[inline(always)]` on the work and on every function that its loop calls (all of `ops::math`
//!   has it): functions that are not inlined are compiled for the baseline.
//! - Inside rayon's closures, not around them: code on other threads is not compiled with the
//!   features of the calling function.
//! - Once per piece of work (a row, a block of some thousand elements), not per element.
//! - No `mul_add`: without it every instruction set gives the same bits (and the baseline has no
//!   instruction for it).
//! - Sums in several lanes, combined in a fixed order: a compiler may not reorder a plain float
//!   sum.

/// A loop over slices. Its `run` must be `#[inline(always)]`, and so must everything that it calls;
/// otherwise it is not compiled for each instruction set.
pub(crate) trait Vectorize {
    type Output;
    fn run(self) -> Self::Output;
}

/// Implements [`Vectorize`] for a closure.
struct Closure<F>(F);

impl<R, F: FnOnce() -> R> Vectorize for Closure<F> {
    type Output = R;
    #[inline(always)]
    fn run(self) -> R {
        (self.0)()
    }
}

/// Same as [`vectorize`] for a closure, which must be preceded by `#[inline(always)]`:
/// `vectorized(#[inline(always)] || ..)`.
#[inline(always)]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    vectorize(Closure(work))
}

/// Runs `work` with the widest vectors of this CPU.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn vectorize<W: Vectorize>(work: W) -> W::Output {
    match x86::level() {
        // SAFETY: `level` has detected that the CPU has these features.
        x86::Level::Avx512 => unsafe { x86::with_avx512(work) },
        // SAFETY: as above.
        x86::Level::Avx2 => unsafe { x86::with_avx2(work) },
        x86::Level::Baseline => work.run(),
    }
}

/// Runs `work` with the vectors of the target's baseline.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn vectorize<W: Vectorize>(work: W) -> W::Output {
    work.run()
}

/// Computes `y[i] = f(a[i], ..)` for slices. It expands in place, so that it is compiled with the
/// features of the surrounding function.
macro_rules! each {
    ($a:expr => $y:expr, |$x:ident| $body:expr) => {
        for (&$x, result) in $a.iter().zip($y.iter_mut()) {
            *result = $body;
        }
    };
    ($a:expr, $b:expr => $y:expr, |$x:ident, $z:ident| $body:expr) => {
        for ((&$x, &$z), result) in $a.iter().zip($b.iter()).zip($y.iter_mut()) {
            *result = $body;
        }
    };
    ($a:expr, $b:expr, $c:expr => $y:expr, |$x:ident, $z:ident, $w:ident| $body:expr) => {
        for (((&$x, &$z), &$w), result) in $a.iter().zip($b.iter()).zip($c.iter()).zip($y.iter_mut()) {
            *result = $body;
        }
    };
}
pub(crate) use each;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vectorize;
    use std::sync::atomic::{AtomicU8, Ordering};

    #[derive(Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub(super) enum Level {
        Baseline = 1,
        Avx2 = 2,
        Avx512 = 3,
    }

    /// 0 until the first call of `level`.
    static LEVEL: AtomicU8 = AtomicU8::new(0);

    #[inline]
    pub(super) fn level() -> Level {
        match LEVEL.load(Ordering::Relaxed) {
            3 => Level::Avx512,
            2 => Level::Avx2,
            1 => Level::Baseline,
            _ => detect(),
        }
    }

    #[cold]
    fn detect() -> Level {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let level = match (avx512, avx2) {
            (true, _) => Level::Avx512,
            (_, true) => Level::Avx2,
            _ => Level::Baseline,
        };
        LEVEL.store(level as u8, Ordering::Relaxed);
        level
    }

    /// # Safety
    /// The CPU must have the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn with_avx512<W: Vectorize>(work: W) -> W::Output {
        work.run()
    }

    /// # Safety
    /// The CPU must have the features.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn with_avx2<W: Vectorize>(work: W) -> W::Output {
        work.run()
    }
}
