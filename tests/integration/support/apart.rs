//! Tests that get a part of the machine for themselves, which processes that they start inherit.

use std::env;
use std::fs::File;
use std::io::{Write as _, stderr};
use std::process::Command;
use std::thread;

use rustix::thread::UnshareFlags;

/// What a test gets for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    /// A network with only a loopback interface.
    Network,
    /// A mount namespace.
    Mounts,
}

/// Runs the body in a thread with its own namespace. If the kernel or the user's rights do not allow this, or a program is missing, the
/// test does nothing and prints this: `scripts/test` counts it as skipped.
pub(crate) fn apart(own: Own, body: impl FnOnce() + Send) {
    let (flags, programs) = match own {
        Own::Network => (UnshareFlags::NEWNET, &["ip", "nft"][..]),
        Own::Mounts => (UnshareFlags::NEWNS, &["mount"][..]),
    };
    let missing = programs.iter().find(|program| Command::new(program).arg("-V").output().is_err());
    let skipped = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Some(missing) = missing {
                return Some(format!("there is no {missing}"));
            }
            // The function is deprecated because of flags that affect open files; these flags are not used here.
            #[expect(deprecated)]
            let done = rustix::thread::unshare(flags);
            done.map(|()| body()).err().map(|error| error.to_string())
        });
        thread.join().expect("a test that does not fail")
    });
    if let Some(why) = skipped {
        // Writes past the test harness, which hides the output of passing tests.
        let test = thread::current().name().unwrap_or_default().to_owned();
        let told = format!("\nskipped: {own:?}: {test}: {why}\n");
        let file = env::var_os("REDISLOCK_SKIPPED");
        let file = file.map(|path| File::options().append(true).create(true).open(path).unwrap());
        _ = file
            .map_or_else(|| stderr().write_all(told.as_bytes()), |mut file| file.write_all(told.as_bytes()));
    }
}

/// Runs a program, which must succeed.
#[track_caller]
pub(super) fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}
