//! What comes from outside: wrong words, names of any bytes, forged payloads, bytes without sense.

mod binary;
pub(crate) mod payload;
mod words;
