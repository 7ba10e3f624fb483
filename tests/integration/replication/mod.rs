//! Replicas have what their primary has, and are told effects only.

mod loading;
mod mix;
mod replicas;
mod roles;
mod soak_joins;
mod soak_replicas;
