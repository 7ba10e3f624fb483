//! What a malicious or faulty client can do to others, and what it can learn about them.

mod acl;
mod flood;
mod limits;
mod logs;
mod threads;
mod tokens;
