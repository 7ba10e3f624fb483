//! Files: what is loaded from them, also after a `kill -9`, and what is refused.

mod files;
mod golden;
mod last_fence;
