//! Another client, which asks the server for nothing but an answer: how long it has to wait.

use std::time::{Duration, Instant};

use crate::line::Line;

/// Longer than an answer takes on a server that has nothing else to do, in ms.
const SLOW: f64 = 5.0;

/// How often `PING` was asked, and the longest it took, in ms.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pings {
    pub(crate) count: u32,
    pub(crate) longest: f64,
}

pub(crate) struct Ping(Line);

impl Ping {
    pub(crate) fn new(port: u16) -> Self {
        Self(Line::new(port))
    }

    pub(crate) fn longest_for(&mut self, time: Duration) -> Pings {
        let begin = Instant::now();
        self.longest_while(|_| begin.elapsed() < time)
    }

    /// Goes on for that long from the beginning at least, and until answers have been quick for a while. On a machine that
    /// has other things to do they may never be.
    pub(crate) fn until_quick(&mut self, begin: Instant, at_least: Duration) -> Pings {
        self.longest_while(|slow| {
            let quick = slow.unwrap_or(begin).elapsed() >= Duration::from_secs(1);
            begin.elapsed() < at_least || !quick && begin.elapsed() < 3 * at_least
        })
    }

    /// Goes on as long as that, which is told when an answer was slow last.
    fn longest_while(&mut self, go_on: impl Fn(Option<Instant>) -> bool) -> Pings {
        let (mut pings, mut slow) = (Pings::default(), None);
        while go_on(slow) {
            let begin = Instant::now();
            self.0.ask(b"PING\r\n").expect("an answer");
            let took = begin.elapsed().as_secs_f64() * 1e3;
            pings = Pings { count: pings.count + 1, longest: pings.longest.max(took) };
            if took > SLOW {
                slow = Some(Instant::now());
            }
        }
        pings
    }
}
