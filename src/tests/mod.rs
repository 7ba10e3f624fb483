//! What is to hold for the source as a whole.

mod layout;
