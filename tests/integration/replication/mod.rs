//! Replicas have what their primary has, and are told effects only.

mod loading;
mod mix;
mod replicas;
mod soak_joins;
mod soak_replicas;
