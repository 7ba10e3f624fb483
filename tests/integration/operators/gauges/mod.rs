//! `INFO lock`.

mod locks;
mod waits;
