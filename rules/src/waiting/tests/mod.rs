//! Tests the rules of `waiting` as they ship, in models and random histories, without a real server.

mod detect;
mod examples;
mod explore;
mod histories;
mod memory;
mod reference;
mod scenes;
mod server;
mod sim;
mod together;
mod world;
mod worlds;

/// Returns `small`, or `large` in a long run (`scripts/soak`).
fn soak<T>(small: T, large: T) -> T {
    if std::env::var_os("REDISLOCK_SOAK").is_some_and(|value| value == "1") { large } else { small }
}
