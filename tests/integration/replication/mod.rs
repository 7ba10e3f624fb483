//! Replicas have the same data as their primary, and receive only effects.

mod loading;
mod mix;
mod replicas;
mod roles;
mod soak_joins;
mod soak_replicas;
