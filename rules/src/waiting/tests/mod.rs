//! Tests the rules of `waiting` as they ship, in models and random histories, without a real server.

mod detect;
mod examples;
pub(crate) mod explore;
mod histories;
mod reference;
mod scenes;
pub(crate) mod server;
mod shown;
mod sim;
mod table;
mod together;
mod world;
mod worlds;

/// Returns `small`, or `large` in a long run (`scripts/soak`).
pub(crate) fn soak<T>(small: T, large: T) -> T {
    if std::env::var_os("REDISLOCK_SOAK").is_some_and(|value| value == "1") { large } else { small }
}
