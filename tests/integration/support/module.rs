//! Which module and which server are tested.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the whole project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The path in that variable. A relative one counts from the project's folder, where cargo was called, though cargo runs the tests
/// in their own.
pub(crate) fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(|path| root().join(path))
}

/// The server's executable: `REDISLOCK_SERVER`, else what the `PATH` has.
pub(crate) fn server_program() -> String {
    let program = env::var("REDISLOCK_SERVER").unwrap_or_else(|_| "redis-server".into());
    // A name without a folder is looked for in the `PATH`.
    if program.contains('/') { root().join(program).to_str().unwrap().into() } else { program }
}

/// The command-line client that lies beside the server.
pub(crate) fn cli_program() -> String {
    server_program().strip_suffix("-server").expect("a server ends in -server").to_owned() + "-cli"
}

/// The module: `REDISLOCK_SO`, else built from this source, once.
pub(crate) fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_SO").unwrap_or_else(|| build(&["--release"], "release/libredislock.so"))
    })
}

/// A debug build of the module, whose callbacks panic on demand: `REDISLOCK_FAULTS_SO`, else built from this source, once.
pub(crate) fn faulty_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| path_in("REDISLOCK_FAULTS_SO").unwrap_or_else(|| build(&[], "debug/libredislock.so")))
}

/// Another module, which deletes locks from within their events (`examples/meddler.rs`): `REDISLOCK_MEDDLER_SO`, else built from
/// this source, once.
pub(crate) fn meddler_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_MEDDLER_SO")
            .unwrap_or_else(|| build(&["--example", "meddler"], "debug/examples/libmeddler.so"))
    })
}

/// `redislock`, the command: `REDISLOCK_PROGRAM`, else built from this source, once.
pub(crate) fn program_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_PROGRAM")
            .unwrap_or_else(|| build(&["--package", "redislock-cli"], "debug/redislock"))
    })
}

/// A cdylib is not built for the sake of a test, so it is built here, in the target folder that this test lies in.
fn build(options: &[&str], product: &str) -> PathBuf {
    let this_test = env::current_exe().unwrap();
    let target = this_test.ancestors().nth(3).expect("a test lies in <target>/<profile>/deps");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .arg("build")
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .args(options)
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the module was not built");
    target.join(product)
}
