//! The user's own client, which makes the connections.

use redis::{Client, RedisResult};

/// The servers for lock commands, made from a [`Client`], a `SentinelClient` (feature `sentinel`), or by `Servers::cluster` (feature
/// `cluster`). The client gives addresses, passwords and TLS; the locks use connections of their own.
pub struct Servers(Kind);

enum Kind {
    Single(Client),
    #[cfg(feature = "sentinel")]
    Sentinel(Box<redis::sentinel::SentinelClient>),
    #[cfg(feature = "cluster")]
    Cluster(Box<redis::cluster::ClusterClient>, std::collections::VecDeque<Client>),
}

impl From<Client> for Servers {
    fn from(client: Client) -> Self {
        Self(Kind::Single(client))
    }
}

#[cfg(feature = "sentinel")]
impl From<redis::sentinel::SentinelClient> for Servers {
    /// The client's server type has to be the primary.
    fn from(client: redis::sentinel::SentinelClient) -> Self {
        Self(Kind::Sentinel(Box::new(client)))
    }
}

#[cfg(feature = "cluster")]
impl Servers {
    /// Sends commands through the cluster's client. The nodes are asked who serves which slot. Messages come from each primary where locks
    /// wait or are held, by connections with the settings of these clients.
    pub fn cluster(client: redis::cluster::ClusterClient, nodes: impl IntoIterator<Item = Client>) -> Self {
        Self(Kind::Cluster(Box::new(client), nodes.into_iter().collect()))
    }

    pub(crate) fn of_cluster(&self) -> Option<redis::cluster::ClusterClient> {
        if let Kind::Cluster(client, _) = &self.0 { Some((**client).clone()) } else { None }
    }
}

impl Servers {
    /// The server for commands and messages; in a cluster, the next node for messages.
    pub(crate) fn client(&mut self) -> RedisResult<Client> {
        match &mut self.0 {
            Kind::Single(client) => Ok(client.clone()),
            #[cfg(feature = "sentinel")]
            Kind::Sentinel(client) => client.get_client(),
            #[cfg(feature = "cluster")]
            Kind::Cluster(_, nodes) => next_node(nodes),
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

#[cfg(feature = "cluster")]
fn next_node(nodes: &mut std::collections::VecDeque<Client>) -> RedisResult<Client> {
    nodes.rotate_left(usize::from(nodes.len() > 1));
    nodes
        .front()
        .cloned()
        .ok_or_else(|| (redis::ErrorKind::InvalidClientConfig, "a cluster needs a node for messages").into())
}
