//! Lock files of crates in `benches/rivals` that have crates of ours in them: each new dependency of ours makes them stale,
//! which the next comparison would be the first to see: it builds what is locked.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell;

/// Fails for a lock file that is not as its crate needs it. `cargo tree` without `--locked` brings it up to date.
pub(crate) fn check() -> Result<()> {
    let mut manifests = Vec::new();
    collect(&shell::root().join("benches/rivals"), &mut manifests)?;
    manifests.sort();
    for manifest in manifests {
        shell::cargo("lock file", ["tree", "--locked", "--quiet", "--depth", "0", "--manifest-path"])
            .args([&manifest])
            .run()?;
    }
    Ok(())
}

/// The manifests below a folder that name a crate of ours.
fn collect(folder: &Path, manifests: &mut Vec<PathBuf>) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    if manifest.exists() {
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        if text.contains("crates/") {
            manifests.push(manifest);
        }
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name() != "node_modules" {
            collect(&entry.path(), manifests)?;
        }
    }
    Ok(())
}
