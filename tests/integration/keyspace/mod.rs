//! Locks as keys of the server: what its own commands do with them, which events are published, and what counts as a change.

mod events;
mod keys;
mod no_effect;
