//! The pages of the commands, the definitions that the server has, and what the commands do: all the same.

mod access;
mod book;
mod definition;
mod examples;
mod fields;
mod figures;
mod operations;
mod packages;
mod page;
mod prometheus;
mod shown;
mod words;
