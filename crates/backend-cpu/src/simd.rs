//! One loop, compiled for several instruction sets; the widest one of this processor runs.
//!
//! Rules that make this work:
//! - `#[inline(always)]` on the work and on every function that its loop calls (all of `ops::math` has it): what is not inlined is
//!   compiled for the baseline.
//! - Inside of rayon's closures, not around them: other threads do not inherit the wide registers.
//! - Once per piece of work (a row, a block of some thousand elements), not per element.
//! - No `mul_add`: without it every instruction set gives the same bits (and the baseline has no instruction for it).
//! - Sums in several lanes, combined in fixed order: a compiler may not reorder a plain float sum.

/// A loop over slices. Its `run` must be `#[inline(always)]`, and so must all that it calls, or it is not compiled anew.
pub(crate) trait Vectorize {
    type Output;
    fn run(self) -> Self::Output;
}

/// A closure as such a loop.
struct Closure<F>(F);

impl<R, F: FnOnce() -> R> Vectorize for Closure<F> {
    type Output = R;
    #[inline(always)]
    fn run(self) -> R {
        (self.0)()
    }
}

/// As [`vectorize`], for a closure, which needs `#[inline(always)]` before it: `vectorized(#[inline(always)] || ..)`.
#[inline(always)]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    vectorize(Closure(work))
}

/// Runs `work` with the widest vectors of this processor.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn vectorize<W: Vectorize>(work: W) -> W::Output {
    match x86::level() {
        // SAFETY: the processor has these features, as `level` found out.
        x86::Level::Avx512 => unsafe { x86::with_avx512(work) },
        // SAFETY: as above.
        x86::Level::Avx2 => unsafe { x86::with_avx2(work) },
        x86::Level::Baseline => work.run(),
    }
}

/// Runs `work`; the vectors of the target's baseline are all there is.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn vectorize<W: Vectorize>(work: W) -> W::Output {
    work.run()
}

/// `y[i] = f(a[i], ..)` for slices: written in place, so that it is compiled with the features of the function around it.
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

    /// 0 until asked for the first time.
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
    /// The processor must have the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
    pub(super) unsafe fn with_avx512<W: Vectorize>(work: W) -> W::Output {
        work.run()
    }

    /// # Safety
    /// The processor must have the features.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn with_avx2<W: Vectorize>(work: W) -> W::Output {
        work.run()
    }
}
