//! How often one lock changes hands between eight clients that wait in the server.

use std::time::Duration;

use crate::report::Report;
use crate::rivals::{self, BLMOVE, REDISLOCK, SESSION};
use crate::rounds::{Plan, Rounds, Sample};
use crate::server::Server;
use crate::waiters::Circle;

const CLIENTS: usize = 8;

pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let length = plan.ms(200, 150);
    let start = || {
        let circle = |who: &str| Circle::new(who, &Server::shared(rivals::wait(who).setup()), CLIENTS);
        [REDISLOCK, BLMOVE, SESSION].map(|who| (who.into(), circle(who))).into()
    };
    let (starts, turns) = (plan.pick(5, 2), plan.pick(10, 6));
    let turn = |circle: &mut Circle| turn(circle, length);
    let rounds =
        Rounds::play("handovers, 8 clients on one lock", "per second", starts, 0..=turns, start, turn);
    let row = rounds.row("handovers/s, 8 clients on one lock", REDISLOCK, BLMOVE);
    report.rows.extend(row.map(|row| row.at_least(0.9)));
    let row = rounds.row("handovers/s with SESSION, 8 clients on one lock", SESSION, REDISLOCK);
    report.rows.extend(row.map(|row| row.at_least(0.9).beside("Redislock without it")));
    report.figures.extend(rounds.figures(|_| String::new()));
}

/// Hands over for this long. Returns the handovers per second.
fn turn(circle: &mut Circle, length: Duration) -> Sample {
    let sample = circle.run(usize::MAX, length);
    Sample { value: 1e6 / sample.value, ..sample }
}
