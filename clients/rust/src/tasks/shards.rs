//! The subscriptions of a cluster's shards, as tasks.

use std::sync::Arc;

use redis::{AsyncConnectionConfig, PushKind, RedisResult, cmd};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::{Tasks, in_time, listen};
use crate::core::{LONGEST_PAUSE, SILENCE};
use crate::shards::{Job, Node, Shards, Slots, Todo, client_of, payload};
use crate::shared::Shared;

impl Tasks {
    pub(super) fn work(self: &Arc<Self>, shared: &Arc<Shared>, todo: Todo) {
        let Some(runtime) = self.runtime.get() else { return };
        for job in todo.jobs {
            let (tasks, shared) = (self.clone(), shared.clone());
            match job {
                Job::Read => self.spawn(runtime, async move {
                    let slots = in_time(LONGEST_PAUSE, tasks.slots()).await;
                    if let Some(shards) = &tasks.shards {
                        tasks.work(&shared, shards.learned(slots, &shared));
                    }
                }),
                Job::Follow(node, channel) => self.spawn(runtime, async move {
                    if let Some(shards) = &tasks.shards
                        && !tasks.follow(&shared, shards, &node, &channel).await.unwrap_or_default()
                    {
                        tasks.work(&shared, shards.ended(&node, &shared));
                    }
                }),
                Job::Listen => self.spawn(runtime, listen(shared, tasks)),
            }
        }
        todo.send.into_iter().for_each(|command| self.forward(shared, command));
    }

    async fn slots(&self) -> RedisResult<Slots> {
        let client = self.servers.lock().await.client()?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        Slots::read(cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await?, &client)
    }

    /// Is true when nobody needs the subscription any more.
    async fn follow(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        shards: &Shards,
        node: &Node,
        channel: &str,
    ) -> RedisResult<bool> {
        let client = client_of(&self.servers.lock().await.client()?, node)?;
        let (pushes, mut pushed) = unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(pushes).set_response_timeout(None);
        let mut connection = in_time(SILENCE, async {
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            for word in ["SSUBSCRIBE", "SUBSCRIBE"] {
                cmd(word).arg(channel).exec_async(&mut connection).await?;
            }
            Ok(connection)
        })
        .await?;
        self.work(shared, shards.opened(node));
        loop {
            match timeout(SILENCE, pushed.recv()).await {
                Ok(Some(push)) if matches!(push.kind, PushKind::Message | PushKind::SMessage) => {
                    shards.heard(payload(&push.data), shared);
                }
                Ok(Some(push)) if matches!(push.kind, PushKind::SSubscribe | PushKind::Subscribe) => {}
                Ok(_) => return Ok(false),
                Err(_) if shards.unused(node, shared) => return Ok(true),
                Err(_) => in_time(SILENCE, cmd("PING").exec_async(&mut connection)).await?,
            }
        }
    }
}
