//! The program for threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use redislock::blocking::{Cancel, Held, Locks};
use redislock::{Error, Servers};
use serde_json::{Value, json};

use crate::{Order, Task, Tells, acquired, extended, options, say, tell, text, texts};

pub struct Program(Locks);

impl crate::Program for Program {
    fn open(servers: Servers, observer: Option<Tells>) -> Self {
        let locks = Locks::new(servers);
        Self(if let Some(observer) = observer { locks.observer(observer) } else { locks })
    }

    fn acquire(&self, command: Value) -> Task {
        let ((orders, given), cancel) = (channel(), Cancel::default());
        let (locks, told, ends) = (self.0.clone(), orders.clone(), cancel.clone());
        thread::spawn(move || {
            let task = text(&command, "task");
            let wanted = options(locks.acquire_all(texts(&command, "keys")), &command);
            if let Err(error) =
                wanted.and_then(|wanted| hold(wanted.cancelled_by(&cancel)?, task, orders, &given))
            {
                tell(task, &error);
            }
        });
        Task { tell: Box::new(move |order| drop(told.send(order))), cancel: Box::new(move || ends.cancel()) }
    }

    fn close(self) {
        self.0.close();
    }
}

fn hold(held: Held, task: &str, orders: Sender<Order>, given: &Receiver<Order>) -> Result<(), Error> {
    acquired(task, &held);
    held.on_lost(move |error| drop(orders.send(Order::Lost(error))));
    loop {
        let over = match given.recv() {
            Ok(Order::Lost(error)) => return Err(error),
            Ok(Order::Extend(lease)) => {
                extended(task, held.extend(lease)?);
                continue;
            }
            Ok(Order::Release) => "released",
            _ => "cancelled",
        };
        held.release()?;
        say(over, task, json!({}));
        return Ok(());
    }
}
