//! `INFO lock`.

mod cost;
mod locks;
mod waits;
