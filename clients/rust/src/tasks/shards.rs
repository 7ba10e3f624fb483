//! The tasks that keep the subscriptions of a cluster's shards.

use std::io;
use std::sync::Arc;

use redis::{AsyncConnectionConfig, Client, PushKind, RedisResult, cmd};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::{Tasks, in_time, listen};
use crate::core::{LONGEST_PAUSE, SILENCE};
use crate::shards::{Job, Node, Shards, Slots, Todo, client_of, for_messages, payload};
use crate::shared::Shared;

impl Tasks {
    pub(super) fn work(self: &Arc<Self>, shared: &Arc<Shared>, todo: Todo) {
        let Some(runtime) = self.runtime.get() else { return };
        for job in todo.jobs {
            let (tasks, shared) = (self.clone(), shared.clone());
            match job {
                Job::Read => self.spawn(runtime, async move {
                    let Some(shards) = &tasks.shards else { return };
                    let mut nodes = tasks.servers.lock().await.nodes();
                    if let Some(one) = nodes.first().cloned() {
                        nodes.extend(shards.nodes().iter().flat_map(|node| client_of(&one, node)));
                    }
                    let mut read = None;
                    for node in nodes {
                        read = in_time(LONGEST_PAUSE, slots(node)).await.ok();
                        if read.is_some() {
                            break;
                        }
                    }
                    tasks.work(&shared, shards.learned(read, &shared));
                }),
                Job::Follow(node, channel) => self.spawn(runtime, async move {
                    let Some(shards) = &tasks.shards else { return };
                    let slots = match tasks.follow(&shared, shards, &node, &channel).await {
                        Ok(true) => return,
                        Ok(false) => {
                            let slots = async { slots(client_of(&tasks.client().await?, &node)?).await };
                            in_time(LONGEST_PAUSE, slots).await.ok()
                        }
                        Err(_) => None,
                    };
                    tasks.work(&shared, shards.ended(&node, slots, &shared));
                }),
                Job::Listen => self.spawn(runtime, listen(shared, tasks)),
            }
        }
        todo.send.into_iter().for_each(|(command, node)| self.forward(shared, command, node));
    }

    /// Reads messages. Returns true when nobody needs the subscription any more, and false when its channel's slot has moved.
    async fn follow(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        shards: &Shards,
        node: &Node,
        channel: &str,
    ) -> RedisResult<bool> {
        let client = for_messages(&client_of(&self.client().await?, node)?)?;
        let (pushes, mut pushed) = unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(pushes).set_response_timeout(None);
        let subscribed = in_time(SILENCE, async {
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            for word in ["SSUBSCRIBE", "SUBSCRIBE"] {
                cmd(word).arg(channel).exec_async(&mut connection).await?;
            }
            Ok(connection)
        });
        let mut connection = match subscribed.await {
            Err(error) if error.code() == Some("MOVED") => return Ok(false),
            connection => connection?,
        };
        self.work(shared, shards.opened(node));
        loop {
            match timeout(SILENCE, pushed.recv()).await {
                Ok(push) => match push.map(|push| (push.kind, push.data)) {
                    Some((PushKind::Message | PushKind::SMessage, data)) => {
                        shards.heard(payload(&data), shared);
                    }
                    Some((PushKind::SSubscribe | PushKind::Subscribe, _)) => {}
                    Some((PushKind::SUnsubscribe, _)) => return Ok(false),
                    _ => return Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
                },
                Err(_) if shards.unused(node, shared) => return Ok(true),
                Err(_) => in_time(SILENCE, cmd("PING").exec_async(&mut connection)).await?,
            }
        }
    }
}

async fn slots(client: Client) -> RedisResult<Slots> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    Slots::read(cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?, &client)
}
