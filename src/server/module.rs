//! The table of what the module adds to the server.

use std::ffi::CStr;

use super::info_writer::WriteInfo;
use super::{CommandSpec, EventSpec, NumericConfig, TypeSpec};

/// Everything that a module adds to the server.
pub(crate) struct Module {
    /// The module's name, which the server puts before the names of settings and of sections of `INFO`.
    pub(crate) name: &'static CStr,
    /// The version that `MODULE LIST` shows.
    pub(crate) version: i32,
    pub(crate) types: &'static [TypeSpec],
    /// The name of the module's own ACL category, which not every server lets the module make.
    pub(crate) category: &'static CStr,
    pub(crate) commands: &'static [CommandSpec],
    pub(crate) configs: &'static [&'static NumericConfig],
    pub(crate) events: &'static [EventSpec],
    pub(crate) info: WriteInfo,
}
