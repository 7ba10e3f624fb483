//! `DETECT`: a wait that would never end is told at once.

mod access;
mod circles;
mod looks;
