//! Disks in trouble: one that is full, and one that does not take what a server has written.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Setup;
use super::apart::run;
use super::preload::Preload;

/// A small disk, for servers of a test that is `apart`.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("redislock-disk-").tempdir().unwrap();
        run("mount", &["--make-rprivate", "/"]);
        run("mount", &["-t", "tmpfs", "-o", "size=64m", "redislock", folder.path().to_str().unwrap()]);
        Self(folder)
    }

    /// A server whose files are there.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        setup.in_folder(self.0.path())
    }

    /// From now on there is no room on it.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// There is room again.
    pub(crate) fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.path().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy", self.0.path().to_str().unwrap()]);
    }
}

/// Whether what servers have written reaches their disk.
pub(crate) struct Syncs(Preload);

impl Syncs {
    pub(crate) fn new() -> Self {
        Self(Preload::new("disk.c"))
    }

    /// A server with that disk.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        self.0.of(setup)
    }

    pub(crate) fn work(&self) {
        self.0.set(0, 0);
    }

    /// From now on each `fsync` fails.
    pub(crate) fn fail(&self) {
        self.0.set(0, 1);
    }

    /// From now on no `fsync` returns.
    pub(crate) fn hang(&self) {
        self.0.set(0, 2);
    }
}
