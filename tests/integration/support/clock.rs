//! A wall clock of a server's own, which a test sets while the server runs. The machine's stays as it is.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::Setup;

/// What the server is made to load first.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/support/wall_clock.c");

/// Shows the machine's time until it is set.
pub(crate) struct WallClock {
    folder: TempDir,
    offset: File,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("redislock-clock-").tempdir().unwrap();
        let offset = File::create_new(folder.path().join("offset")).unwrap();
        let clock = Self { folder, offset };
        clock.set(0);
        // The linker that this test was linked with.
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(clock.library())
            .arg(SOURCE)
            .status()
            .expect("cc runs");
        assert!(status.success(), "{SOURCE} was not compiled");
        clock
    }

    /// A server that goes by this clock.
    pub(crate) fn of(&self, setup: Setup) -> Setup {
        setup
            .with_variable("LD_PRELOAD", self.library())
            .with_variable("REDISLOCK_WALL_CLOCK", self.folder.path().join("offset"))
    }

    /// Sets the clock to so many seconds ahead of the machine's time; below 0: behind.
    pub(crate) fn set(&self, seconds: i64) {
        self.set_ms(seconds as f64 * 1000.0);
    }

    /// The same in ms, and parts of them.
    pub(crate) fn set_ms(&self, ms: f64) {
        // In place: servers have the file in their memory.
        self.offset.write_all_at(&((ms * 1e6) as i64).to_ne_bytes(), 0).unwrap();
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("wall_clock.so")
    }
}
