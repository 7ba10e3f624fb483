//! Files: what comes back from them, also after a `kill -9`, and what is not read at all.

mod files;
mod golden;
mod last_fence;
