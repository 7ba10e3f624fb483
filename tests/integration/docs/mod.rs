//! The pages of the commands, the server's command definitions, and what the commands do all agree.

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
