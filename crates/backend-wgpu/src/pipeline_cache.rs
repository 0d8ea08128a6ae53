//! Compiled pipelines on disk, if the adapter provides them: a program starts faster the second
//! time.
//!
//! A file is named by the SHA-256 of adapter and driver, and begins with the SHA-256 of its
//! content: a truncated or corrupt file never reaches the driver. It is written to a temporary file
//! in the same folder and renamed. If processes race, the file of the last one remains, and the
//! pipelines of the others are compiled once more.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of a digest.
const DIGEST: usize = 32;

/// Number of new pipelines after which the file is written, for processes that are killed. All
/// others also write it when the device is dropped or when they end.
const SAVE_INTERVAL: usize = 64;

/// The pipeline cache of a device, and its file. If either is missing, nothing is saved.
#[derive(Debug, Default)]
pub(crate) struct PipelineCache {
    opened: Option<(wgpu::PipelineCache, PathBuf)>,
    /// Pipelines that were compiled since the file was written.
    unsaved: AtomicUsize,
}

/// Returns `$TERNION_CACHE`, or else Ternion's folder in the user's cache directory.
pub(crate) fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || variable("HOME").map(|home| home.join(".cache"));
    // The XDG Base Directory Specification says to ignore relative paths.
    let absolute = |path: &PathBuf| path.is_absolute();
    let user =
        || variable("XDG_CACHE_HOME").filter(absolute).or_else(|| variable("LOCALAPPDATA")).or_else(home);
    variable("TERNION_CACHE").or_else(|| user().map(|cache| cache.join("ternion")))
}

impl PipelineCache {
    /// Opens the cache of `device` in `folder`.
    pub(crate) fn open(
        device: &wgpu::Device,
        adapter: &wgpu::AdapterInfo,
        folder: Option<PathBuf>,
    ) -> PipelineCache {
        let is_supported = device.features().contains(wgpu::Features::PIPELINE_CACHE);
        let key = wgpu::util::pipeline_cache_key(adapter).filter(|_| is_supported);
        let (Some(key), Some(folder)) = (key, folder) else { return PipelineCache::default() };
        let key = [&key, &adapter.name, &adapter.driver, &adapter.driver_info].map(String::as_str);
        let path = file_path(&folder, &key);
        let data = read(&path);
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor =
            wgpu::PipelineCacheDescriptor { label: Some("pipelines"), data: data.as_deref(), fallback: true };
        // SAFETY: `data` is what `get_data` returned for an adapter with this key, name and driver:
        // `read` has checked its digest, and only `save` writes such files. The driver discards
        // outdated data, as `fallback` requests.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        match pollster::block_on(scope.pop()) {
            None => PipelineCache { opened: Some((cache, path)), unsaved: AtomicUsize::new(0) },
            Some(_) => PipelineCache::default(),
        }
    }

    /// Returns the wgpu cache with which pipelines are compiled.
    pub(crate) fn cache(&self) -> Option<&wgpu::PipelineCache> {
        self.opened.as_ref().map(|(cache, _)| cache)
    }

    /// Counts a pipeline that was compiled.
    pub(crate) fn count_compiled(&self) {
        if self.opened.is_some() && self.unsaved.fetch_add(1, Ordering::Relaxed) + 1 >= SAVE_INTERVAL {
            self.save();
        }
    }

    /// Writes the pipelines compiled since the last write. A failure is not an error: the pipelines
    /// are compiled again next time.
    pub(crate) fn save(&self) {
        let Some((cache, path)) = &self.opened else { return };
        if self.unsaved.swap(0, Ordering::Relaxed) > 0
            && let Some(data) = cache.get_data()
        {
            let _ = write(path, &data);
        }
    }
}

impl Drop for PipelineCache {
    fn drop(&mut self) {
        self.save();
    }
}

/// Returns the path of the file for `key`.
fn file_path(folder: &Path, key: &[&str]) -> PathBuf {
    let mut digest = Sha256::new();
    for component in key {
        digest.update((component.len() as u64).to_le_bytes());
        digest.update(component.as_bytes());
    }
    let name: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join("pipelines").join(name + ".pipelines")
}

/// Returns the content of an intact file.
fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (digest, body) = bytes.split_at_checked(DIGEST)?;
    (digest == Sha256::digest(body).as_slice()).then(|| body.to_vec())
}

/// Writes a temporary file next to `path` and renames it: a reader finds the whole content or
/// nothing.
fn write(path: &Path, body: &[u8]) -> std::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let unique = format!("{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_extension(unique);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut bytes = Sha256::digest(body).to_vec();
    bytes.extend_from_slice(body);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WgpuBackend;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use ternion_core::{DType, Device, Result, Tensor};
    use ternion_testing::suite;

    /// Returns an empty folder for the test with this name.
    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ternion-pipelines-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_corrupt_file_is_ignored() {
        let folder = empty_folder("damage");
        let path = file_path(&folder, &["adapter", "driver"]);
        assert_ne!(path, file_path(&folder, &["adapterd", "river"]));
        write(&path, b"pipelines").expect("writes");
        assert_eq!(read(&path).as_deref(), Some(&b"pipelines"[..]));
        let sound = std::fs::read(&path).expect("written");
        let mut flipped = sound.clone();
        *flipped.last_mut().expect("not empty") ^= 1;
        for corrupt in [&sound[..sound.len() - 1], &sound[..DIGEST - 1], &[], &flipped] {
            std::fs::write(&path, corrupt).expect("writes");
            assert_eq!(read(&path), None);
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn racing_writers_leave_one_intact_file() {
        let folder = empty_folder("race");
        let path = file_path(&folder, &["adapter"]);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| write(&path, &[7; 10_000]).expect("writes")));
            }
        });
        assert_eq!(read(&path), Some(vec![7; 10_000]));
        let files = std::fs::read_dir(path.parent().expect("a folder")).expect("reads").count();
        assert_eq!(files, 1, "no temporary file stays");
        std::fs::remove_dir_all(folder).expect("removed");
    }

    /// Returns the result of a computation on a device whose pipeline cache is in `folder`.
    fn computed(folder: &Path) -> Result<Vec<f32>> {
        let gpu = Gpu::open_in(0, Options::default(), Some(folder.to_path_buf()))?;
        let device = Device::new(WgpuBackend { gpu });
        Tensor::iota(100, DType::F32, 0, 1, &device)?.mul_scalar(0.5)?.exp()?.to_vec()
    }

    /// Calls `look` until it returns a value: the flush thread may own the last reference to the
    /// device, and then writes the file.
    fn wait_for<T>(look: impl Fn() -> Option<T>) -> Option<T> {
        (0..2000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            look()
        })
    }

    #[test]
    fn pipelines_are_cached_and_corrupt_files_are_ignored() -> Result<()> {
        if !suite::expects("wgpu") {
            return Ok(());
        }
        let folder = empty_folder("device");
        let first = computed(&folder)?;
        let files = || -> Vec<PathBuf> {
            let entries = std::fs::read_dir(folder.join("pipelines")).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let file = wait_for(|| files().pop().filter(|file| read(file).is_some())).expect("a file");
        assert_eq!(files(), [file.clone()]);
        let file = &file;
        assert!(read(file).is_some_and(|data| !data.is_empty()), "a sound file");
        assert_eq!(computed(&folder)?, first);
        // First a file with a valid digest that no driver wrote, then a file with an invalid
        // digest.
        write(file, b"not a pipeline").expect("writes");
        assert_eq!(computed(&folder)?, first);
        std::fs::write(file, b"no digest").expect("writes");
        assert_eq!(computed(&folder)?, first);
        assert!(wait_for(|| read(file)).is_some(), "written again");
        std::fs::remove_dir_all(folder).expect("removed");
        Ok(())
    }
}
