//! Runs the worlds of `waiting` over these rules, as far as these have what happens there.

#![allow(clippy::duplicate_mod, reason = "the same worlds, over two cores")]

mod beside;
mod server;
mod table;
#[path = "../../waiting/tests/together/mod.rs"]
mod together;
#[path = "../../waiting/tests/world/mod.rs"]
mod world;
#[path = "../../waiting/tests/worlds/mod.rs"]
mod worlds;

use crate::waiting::tests::{explore, soak};

/// Whether the rules under test have all that happens in a world.
fn know(size: &world::Size) -> bool {
    let world::Happens { freezes, .. } = size.happens;
    !freezes
}
