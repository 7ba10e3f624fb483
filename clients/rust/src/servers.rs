//! The user's own clients, with whose settings the connections are made.

use std::collections::VecDeque;

use redis::{Client, ErrorKind, RedisResult};

/// The servers for lock commands, made from a [`Client`], a `SentinelClient` (feature `sentinel`), or by [`Servers::cluster`]. The clients
/// give addresses, passwords and TLS; the locks use connections of their own.
pub struct Servers(Kind);

enum Kind {
    Single(Box<Client>),
    #[cfg(feature = "sentinel")]
    Sentinel(Box<redis::sentinel::SentinelClient>),
    Cluster(VecDeque<Client>),
}

impl From<Client> for Servers {
    fn from(client: Client) -> Self {
        Self(Kind::Single(Box::new(client)))
    }
}

#[cfg(feature = "sentinel")]
impl From<redis::sentinel::SentinelClient> for Servers {
    /// The client's server type has to be the primary.
    fn from(client: redis::sentinel::SentinelClient) -> Self {
        Self(Kind::Sentinel(Box::new(client)))
    }
}

impl Servers {
    /// A cluster, given clients of some of its nodes, which are asked who serves which slot. Connections to each primary where locks wait or
    /// are held use the settings of these clients.
    pub fn cluster(nodes: impl IntoIterator<Item = Client>) -> Self {
        Self(Kind::Cluster(nodes.into_iter().collect()))
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }

    /// The nodes that the user named, starting with the one that was asked longest ago.
    pub(crate) fn nodes(&mut self) -> Vec<Client> {
        let Kind::Cluster(nodes) = &mut self.0 else { return Vec::new() };
        nodes.rotate_left(usize::from(nodes.len() > 1));
        nodes.iter().cloned().collect()
    }

    /// The server; in a cluster, the next node.
    pub(crate) fn client(&mut self) -> RedisResult<Client> {
        match &mut self.0 {
            Kind::Single(client) => Ok(Client::clone(client)),
            #[cfg(feature = "sentinel")]
            Kind::Sentinel(client) => client.get_client(),
            Kind::Cluster(_) => {
                let next = self.nodes().into_iter().next();
                next.ok_or_else(|| {
                    (ErrorKind::InvalidClientConfig, "a cluster needs a client of a node").into()
                })
            }
        }
    }

    #[cfg(feature = "tokio")]
    pub(crate) async fn async_client(&mut self) -> RedisResult<Client> {
        match &mut self.0 {
            #[cfg(feature = "sentinel")]
            Kind::Sentinel(client) => client.async_get_client().await,
            _ => self.client(),
        }
    }
}
