#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod blocking;
mod core;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
mod servers;
mod shards;
mod shared;
#[cfg(feature = "tokio")]
mod tasks;

pub use core::{Error, Observed, Observer};
#[cfg(feature = "opentelemetry")]
pub use opentelemetry::OpenTelemetry;
pub use servers::Servers;
pub use shared::{Acquire, Grant};
#[cfg(feature = "tokio")]
pub use tasks::{Held, Locks};
