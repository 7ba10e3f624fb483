//! Tests whose network or whose mounts are their own, and those of all that they start.

use std::io::{Write as _, stderr};
use std::process::Command;
use std::thread::scope;

use rustix::thread::UnshareFlags;

/// Runs the body in a thread that is apart from the rest of the machine in that. Where a kernel or a user's rights forbid it, or
/// where a program is not there, the test shows nothing, and says so: `scripts/test` counts it as skipped.
pub(crate) fn apart(test: &str, from: UnshareFlags, programs: &[&str], body: impl FnOnce() + Send) {
    let missing = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err());
    scope(|scope| {
        let thread = scope.spawn(|| {
            // Marked for what it does to open files, which is not asked for here.
            #[expect(deprecated)]
            let apart = rustix::thread::unshare(from);
            match (apart, missing) {
                (Ok(()), None) => body(),
                // Past the harness, which shows nothing of a test that passes.
                (Err(error), _) => _ = writeln!(stderr(), "skipped: {test}: {error}"),
                (_, Some(missing)) => _ = writeln!(stderr(), "skipped: {test}: no {missing}"),
            }
        });
        assert!(thread.join().is_ok(), "the test failed, see above");
    });
}

/// Runs a program, which must do what it is to do.
#[track_caller]
pub(super) fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}
