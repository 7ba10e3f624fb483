//! The program for tasks of tokio.

use std::sync::LazyLock;

use futures_util::future::{AbortHandle, Abortable};
use redislock::{Error, Held, Locks, Servers};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{Order, Task, Tells, acquired, extended, options, say, tell, text, texts};

/// The runtime outlives the locks, because tasks report their end.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

pub struct Program(Locks);

impl crate::Program for Program {
    fn open(servers: Servers, observer: Option<Tells>) -> Self {
        let locks = Locks::new(servers);
        Self(if let Some(observer) = observer { locks.observer(observer) } else { locks })
    }

    fn acquire(&self, command: Value) -> Task {
        let (orders, given) = unbounded_channel();
        let (wait, registration) = AbortHandle::new_pair();
        let locks = self.0.clone();
        RUNTIME.spawn(async move {
            let wanted = async { options(locks.acquire_all(texts(&command, "keys")), &command)?.await };
            let waited = Abortable::new(wanted, registration).await;
            let task = text(&command, "task");
            match waited {
                Err(_) => {
                    locks.settled().await;
                    say("cancelled", task, json!({}));
                }
                Ok(Err(error)) => tell(task, &error),
                Ok(Ok(held)) => {
                    acquired(task, &held);
                    if let Err(error) = hold(held, task, given).await {
                        tell(task, &error);
                    }
                }
            }
        });
        Task { tell: Box::new(move |order| drop(orders.send(order))), cancel: Box::new(move || wait.abort()) }
    }

    fn close(self) {
        RUNTIME.block_on(self.0.close());
    }
}

async fn hold(held: Held, task: &str, mut given: UnboundedReceiver<Order>) -> Result<(), Error> {
    loop {
        let order = tokio::select! {
            biased;
            lost = held.lost() => return Err(lost),
            order = given.recv() => order,
        };
        let over = match order {
            Some(Order::Extend(lease)) => {
                extended(task, held.extend(lease).await?);
                continue;
            }
            Some(Order::Release) => "released",
            _ => "cancelled",
        };
        held.release().await?;
        say(over, task, json!({}));
        return Ok(());
    }
}
