//! Rules for the source as a whole.

mod layout;
