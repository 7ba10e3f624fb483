//! A library that a server loads first, with two numbers that the test changes while the server runs.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{Setup, root};

pub(super) struct Preload {
    folder: TempDir,
    numbers: File,
}

impl Preload {
    /// Compiles a C file in this folder, which includes `preload.h`.
    pub(super) fn new(source: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("redislock-preload-").tempdir().unwrap();
        let numbers = File::create_new(folder.path().join("numbers")).unwrap();
        numbers.set_len(16).unwrap(); // zeros
        let preload = Self { folder, numbers };
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(preload.file("library.so"))
            .arg(root().join("tests/integration/support").join(source))
            .status();
        assert!(built.is_ok_and(|status| status.success()), "{source} was not compiled");
        preload
    }

    pub(super) fn of(&self, setup: Setup) -> Setup {
        setup
            .with_variable("LD_PRELOAD", self.file("library.so"))
            .with_variable("REDISLOCK_PRELOADED", self.file("numbers"))
    }

    pub(super) fn set(&self, which: u64, number: i64) {
        // The file must not be replaced, because servers have mapped it.
        self.numbers.write_all_at(&number.to_ne_bytes(), 8 * which).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
