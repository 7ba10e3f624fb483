//! Tests of the source code as a whole.

mod layout;
