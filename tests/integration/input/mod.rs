//! Invalid input: wrong words, names of any bytes, forged payloads, random bytes.

mod binary;
pub(crate) mod payload;
mod words;
