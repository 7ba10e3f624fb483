//! Disks with trouble: a full disk, and a disk on which syncs fail or hang.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Setup;
use super::apart::run;
use super::preload::Preload;

/// A small disk, for servers of a test inside `apart`.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("redislock-disk-").tempdir().unwrap();
        run("mount", &["--make-rprivate", "/"]);
        run("mount", &["-t", "tmpfs", "-o", "size=64m", "redislock", folder.path().to_str().unwrap()]);
        Self(folder)
    }

    /// Puts a server's files on this disk.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        setup.in_folder(self.0.path())
    }

    /// Fills the disk.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Makes room on the disk again.
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

/// Controls the `fsync` calls of servers.
pub(crate) struct Syncs(Preload);

impl Syncs {
    pub(crate) fn new() -> Self {
        Self(Preload::new("disk.c"))
    }

    /// Makes the server use these syncs.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        self.0.of(setup)
    }

    pub(crate) fn work(&self) {
        self.0.set(0, 0);
    }

    /// Makes each `fsync` fail from now on.
    pub(crate) fn fail(&self) {
        self.0.set(0, 1);
    }

    /// Makes each `fsync` hang from now on.
    pub(crate) fn hang(&self) {
        self.0.set(0, 2);
    }
}
