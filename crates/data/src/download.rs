//! Downloads the files of a data set into a folder: from several mirrors, verified, and written
//! atomically.

use crate::catalog::{Catalog, RemoteFile};
use crate::error::{DataError, Result};
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;

/// No compressed file of these data sets is larger. The download stops at this limit if a mirror
/// keeps sending.
const LIMIT_BYTES: u64 = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(600);
const PIECE_BYTES: usize = 64 << 10;

/// Downloads those files of `catalog` that are missing in `folder`, or whose checksum there is not
/// the published one.
///
/// A file gets its final name only after its SHA-256 has been verified: it is written to a
/// temporary file in the same folder, which is then renamed. Neither an interruption nor a second
/// process leaves a partial file.
///
/// # Errors
/// Returns an error if the folder cannot be written, or all mirrors fail for a file. The error
/// lists each URL with its reason.
pub fn download_missing(catalog: &Catalog, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| DataError::Io { file: folder.to_path_buf(), source })?;
    let agent = agent();
    let missing = catalog.files.iter().filter(|file| !is_published(&folder.join(&file.name), file));
    missing.into_iter().try_for_each(|file| download_file(&agent, file, &catalog.mirrors, folder))
}

/// Returns whether the file at `path` is the published one. An unreadable file is not.
fn is_published(path: &Path, file: &RemoteFile) -> bool {
    std::fs::read(path).is_ok_and(|bytes| hexadecimal(&Sha256::digest(bytes)) == file.sha256)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_resolve(Some(CONNECT_TIMEOUT))
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(RESPONSE_TIMEOUT))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .user_agent(concat!("ternion-data/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

/// Tries the mirrors in order.
fn download_file(agent: &ureq::Agent, file: &RemoteFile, mirrors: &[String], folder: &Path) -> Result<()> {
    let mut attempts = Vec::new();
    for mirror in mirrors {
        let address = format!("{mirror}{}", file.name);
        match fetch(agent, &address, file, folder)? {
            Ok(()) => return Ok(()),
            Err(reason) => attempts.push(format!("{address}: {reason}")),
        }
    }
    if attempts.is_empty() {
        attempts.push("there is no mirror".to_string());
    }
    Err(DataError::Download { file: file.name.clone(), attempts })
}

/// Makes one attempt. The outer error is a disk error, which another mirror would not fix. The
/// inner error comes from the mirror.
fn fetch(
    agent: &ureq::Agent,
    address: &str,
    file: &RemoteFile,
    folder: &Path,
) -> Result<std::result::Result<(), String>> {
    let mut response = match agent.get(address).call() {
        Ok(response) => response,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let length_bytes = response.body().content_length();
    let progress = progress_bar(&file.name, length_bytes);
    let on_disk = |source| DataError::Io { file: folder.to_path_buf(), source };
    let mut temporary = NamedTempFile::new_in(folder).map_err(on_disk)?;
    let body = response.body_mut().as_reader();
    let outcome = copy_verified(body, &mut temporary, &file.sha256, &progress).map_err(on_disk)?;
    progress.finish_and_clear();
    if outcome.is_ok() {
        let target = folder.join(&file.name);
        temporary.persist(&target).map_err(|error| DataError::Io { file: target, source: error.error })?;
    }
    Ok(outcome)
}

/// Copies a response body to a file and compares its checksum. Errors as for [`fetch`].
fn copy_verified(
    body: impl Read,
    file: &mut impl Write,
    sha256: &str,
    progress: &ProgressBar,
) -> std::io::Result<std::result::Result<(), String>> {
    let mut body = body.take(LIMIT_BYTES + 1);
    let (mut hasher, mut received_bytes) = (Sha256::new(), 0_u64);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = match body.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Ok(Err(format!("broke off after {received_bytes} bytes: {error}"))),
        };
        hasher.update(&piece[..count]);
        file.write_all(&piece[..count])?;
        received_bytes += count as u64;
        progress.inc(count as u64);
    }
    file.flush()?;
    let actual = hexadecimal(&hasher.finalize());
    Ok(if received_bytes > LIMIT_BYTES {
        Err(format!("more than {LIMIT_BYTES} bytes"))
    } else if actual == sha256 {
        Ok(())
    } else {
        Err(format!("{received_bytes} bytes with SHA-256 {actual}, expected {sha256}"))
    })
}

/// Returns a progress bar. It is drawn on the standard error stream, and only if that is a
/// terminal.
fn progress_bar(name: &str, length_bytes: Option<u64>) -> ProgressBar {
    const KNOWN: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    const UNKNOWN: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";
    let (bar, template) = match length_bytes {
        Some(length) => (ProgressBar::new(length), KNOWN),
        None => (ProgressBar::new_spinner(), UNKNOWN),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(name.to_string())
}

#[cfg(test)]
mod tests;
