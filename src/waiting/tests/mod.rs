//! Tests of the rules of `waiting`, as they ship, in worlds and histories without a server.

mod detect;
mod examples;
mod histories;
mod memory;
mod reference;
mod server;
mod start;
mod sync;
mod together;
mod world;
mod worlds;

/// Returns the small value, or the large one in a long run (`scripts/soak`).
fn soak<T>(small: T, large: T) -> T {
    if std::env::var_os("REDISLOCK_SOAK").is_some_and(|value| value == "1") { large } else { small }
}
