//! What tells a grant from the next one: fences, which rise whatever comes from outside, and for data on the lock's own server `WATCH`.

mod guarded_writes;
mod restored;
mod rising;
