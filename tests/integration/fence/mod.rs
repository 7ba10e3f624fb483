//! What tells a grant from the next one: fences, which always rise, and `WATCH` for data on the lock's own server.

mod guarded_writes;
mod restored;
mod rising;
