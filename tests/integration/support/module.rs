//! Which module and which server are tested.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder of the whole project.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns the path in this variable. A relative path is relative to the project's folder, although cargo runs tests in the folder of their
/// package.
pub(crate) fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(|path| root().join(path))
}

/// Returns the server's executable: `REDISLOCK_SERVER`, or else the one in the `PATH`.
pub(crate) fn server_program() -> String {
    let program = env::var("REDISLOCK_SERVER").unwrap_or_else(|_| "redis-server".into());
    // A name without a folder is looked up in the `PATH`.
    if program.contains('/') { root().join(program).to_str().unwrap().into() } else { program }
}

/// Returns the command-line client, which is beside the server.
pub(crate) fn cli_program() -> String {
    server_program().strip_suffix("-server").expect("a server ends in -server").to_owned() + "-cli"
}

/// Returns the module: `REDISLOCK_SO`, or else a build of this source.
pub(crate) fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_SO").unwrap_or_else(|| build(&["--release"], "release/libredislock.so"))
    })
}

/// Returns a debug build of the module, whose callbacks panic on demand: `REDISLOCK_FAULTS_SO`, or else a build of this source.
pub(crate) fn faulty_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| path_in("REDISLOCK_FAULTS_SO").unwrap_or_else(|| build(&[], "debug/libredislock.so")))
}

/// Returns another module, which runs commands inside events (`examples/meddler.rs`): `REDISLOCK_MEDDLER_SO`, or else a build of this
/// source.
pub(crate) fn meddler_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_MEDDLER_SO")
            .unwrap_or_else(|| build(&["--example", "meddler"], "debug/examples/libmeddler.so"))
    })
}

/// Returns `redislock`, the command-line program: `REDISLOCK_PROGRAM`, or else a build of this source.
pub(crate) fn program_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        path_in("REDISLOCK_PROGRAM")
            .unwrap_or_else(|| build(&["--package", "redislock-cli"], "debug/redislock"))
    })
}

/// Cargo does not build a cdylib for a test, so this builds it, in the target folder of this test.
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
