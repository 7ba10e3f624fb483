//! Locks as keys of the server: what its own commands see and do, what is published of them, and what counts as a change.

mod events;
mod keys;
mod no_effect;
