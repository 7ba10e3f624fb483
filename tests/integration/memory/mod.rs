//! The server's memory: what locks take of it, that they give it back, and what becomes of them where it runs short.

mod out_of_memory;
mod soak_defrag;
mod soak_leaks;
mod usage;

pub(crate) use out_of_memory::POLICIES;
