//! Which module and which server are tested.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The server's executable: `REDISLOCK_SERVER`, else what the `PATH` has.
pub(crate) fn server_program() -> String {
    env::var("REDISLOCK_SERVER").unwrap_or_else(|_| "redis-server".into())
}

/// The command-line client that lies beside the server.
pub(crate) fn cli_program() -> String {
    server_program().strip_suffix("-server").expect("a server ends in -server").to_owned() + "-cli"
}

/// The module: `REDISLOCK_SO`, else built from this source, once.
pub(crate) fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("REDISLOCK_SO") {
        Some(path) => std::path::absolute(path).unwrap(),
        None => build(&["--release"], "release/libredislock.so"),
    })
}

/// A debug build of the module, whose callbacks panic on demand: `REDISLOCK_FAULTS_SO`, else built from this source, once.
pub(crate) fn faulty_module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("REDISLOCK_FAULTS_SO") {
        Some(path) => std::path::absolute(path).unwrap(),
        None => build(&[], "debug/libredislock.so"),
    })
}

/// Another module, which deletes locks from within their events (`examples/meddler.rs`): `REDISLOCK_MEDDLER_SO`, else built from
/// this source, once.
pub(crate) fn meddler_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("REDISLOCK_MEDDLER_SO") {
        Some(path) => std::path::absolute(path).unwrap(),
        None => build(&["--example", "meddler"], "debug/examples/libmeddler.so"),
    })
}

/// A cdylib is not built for the sake of a test, so it is built here, in the target folder that this test lies in.
fn build(options: &[&str], product: &str) -> PathBuf {
    let this_test = env::current_exe().unwrap();
    let target = this_test.ancestors().nth(3).expect("a test lies in <target>/<profile>/deps");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .args(options)
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the module was not built");
    target.join(product)
}
