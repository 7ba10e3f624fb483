//! `DETECT`: a wait that would never end is reported at once.

mod access;
mod circles;
mod looks;
