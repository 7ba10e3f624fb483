//! The server's memory: how much locks use, that they free it, and what happens when it is short.

mod out_of_memory;
mod soak_defrag;
mod soak_leaks;
mod usage;

pub(crate) use out_of_memory::POLICIES;
