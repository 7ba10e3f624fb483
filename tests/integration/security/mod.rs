//! What an attacker, or a client gone mad, can do to others, and can learn of them.

mod acl;
mod flood;
mod limits;
mod logs;
mod threads;
mod tokens;
