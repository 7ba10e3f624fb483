//! Tests that have something of this machine to themselves, and so has all that they start.

use std::env;
use std::fs::File;
use std::io::{Write as _, stderr};
use std::process::Command;
use std::thread;

use rustix::thread::UnshareFlags;

/// What a test has to itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    /// A network, with a loopback and nothing else.
    Network,
    /// What is mounted where.
    Mounts,
}

/// Runs the body in a thread that has that to itself. Where a kernel or a user's rights forbid it, or where a program is not there, the
/// test shows nothing, and says so: `scripts/test` counts that as skipped.
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
            // Marked for what it may do to open files, which is not asked for here.
            #[expect(deprecated)]
            let done = rustix::thread::unshare(flags);
            done.map(|()| body()).err().map(|error| error.to_string())
        });
        thread.join().expect("a test that does not fail")
    });
    if let Some(why) = skipped {
        // Past the harness, which shows nothing of a test that passes.
        let test = thread::current().name().unwrap_or_default().to_owned();
        let told = format!("\nskipped: {own:?}: {test}: {why}\n");
        let file = env::var_os("REDISLOCK_SKIPPED");
        let file = file.map(|path| File::options().append(true).create(true).open(path).unwrap());
        _ = file
            .map_or_else(|| stderr().write_all(told.as_bytes()), |mut file| file.write_all(told.as_bytes()));
    }
}

/// Runs a program, which must do what it is to do.
#[track_caller]
pub(super) fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}
