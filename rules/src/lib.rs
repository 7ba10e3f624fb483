//! The rules of Redislock, which know no server and no clock: `lock` decides about one lock, `waiting` about its queue, sessions and
//! timers. `encoding` writes and reads what files and replicas have of a lock. `lock` imports nothing from the others.

#![allow(missing_docs, clippy::new_without_default, reason = "its public items are for the module alone")]

#[cfg(test)]
mod counted;
pub mod encoding;
pub mod lock;
pub mod waiting;

/// Unit tests count their allocations.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: counted::Counted = counted::Counted;
