//! `SYNC`: replicas are to have a grant, or an extension, before the client is told of it.
//!
//! The client is blocked meanwhile, like one that waits in a queue, and what becomes of it and of its grant is the same. Each question
//! to the replicas is for all that has changed since the last one (`state::confirmations`).

use super::join::{Outcome, Wait, block, on_all};
use super::leases::lease_moved;
use super::run_due::TURN;
use super::site::{Around, Caller, Host, Refusal, Site, Sites};
use super::state::{Answer, Arrival, At, Confirmed, Stand, Ticket, Way};
use super::verdict::{Verdict, new_fence, take};
use crate::lock::{Ask, Deadline, Got, Millis, Now};

/// How long in ms to wait before trying again what could not be done now.
const AGAIN: Millis = 2;

/// Does what verdicts say, and has the client told once replicas have confirmed it.
pub(super) fn take_confirmed<B: Sites, G>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    ask: &Ask<'_>,
    wait: &Wait,
    verdicts: Vec<Verdict>,
    now: Now,
) -> Result<Outcome<G>, Refusal> {
    let fence = new_fence(sites, &verdicts, now)?;
    let Some((ticket, client)) = block(sites, caller) else { return Ok(Outcome::Taken) };
    let (mut all, mut again, mut until) = (Vec::with_capacity(verdicts.len()), Vec::new(), Deadline::Never);
    for (number, verdict) in verdicts.into_iter().enumerate() {
        let Some(site) = sites.lock(number) else { break };
        let is_again = matches!(verdict, Verdict::Again { .. });
        // Each can be taken, and has its fence.
        let Ok((got, end)) = take(site, ask, verdict, fence, now) else { continue };
        if let Some(channel) = &wait.channel {
            let owner = ask.owner.borrowed().into_owned();
            site.here(|state, at| state.watch_untold(at, got.fence, owner, channel.clone()));
            lease_moved(site, got.fence, end, now);
        }
        until = until.min(end);
        if ask.once && is_again {
            again.push((number, got));
        }
        all.push(got);
    }
    let (ask, way, client_id) = (ask.to_owned(), Way::Blocked(client), caller.id());
    let arrival = Arrival { ask, way, client_id, since: now.micros, timeout: 0, confirm: wait.confirm };
    hold_answer(sites, ticket, arrival, &all, Answer::Granted { until });
    for (number, got) in again {
        if let Some(site) = sites.lock(number) {
            site.here(|state, at| state.share_hold_with(at, got.fence, ticket));
        }
    }
    Ok(Outcome::Waits)
}

/// Has a client that is blocked told once replicas have confirmed it.
pub(super) fn hold_answer<B: Sites>(
    sites: &mut B,
    ticket: Ticket,
    arrival: Arrival<<B::One as Around>::Client>,
    all: &[Got],
    answer: Answer,
) {
    on_all(sites, |site, places| {
        let got: Vec<(At<'_>, Got)> = places.iter().copied().zip(all.iter().copied()).collect();
        site.state(|state| state.hold_answer(ticket, arrival, B::SEVERAL, &got, answer));
    });
}

/// Looks how far the replicas are, has those told whose grants they have, and asks about what is new; to be called when one of them
/// has said how far it is, when there is something new and nothing is asked yet, and now and then. In how many ms to do so again,
/// where there is more to be done; the replicas' answers are told of apart.
pub(crate) fn confirm<H: Host>(host: &mut H, now: Now) -> Option<Millis> {
    if !host.state(|state| state.awaits_replicas()) {
        return None;
    }
    host.state(|state| state.replicas_heard());
    let mut seen = host.replicas();
    seen.replicas.sort_unstable_by(|one, other| other.cmp(one));
    while let Some(confirmed) = host.state(|state| state.next_confirmed(&seen.replicas)) {
        if let Confirmed::Answer(ticket, stands) = confirmed {
            // It may have been broken, deleted or moved meanwhile.
            let end = |stand: &Stand| host.look(&stand.place, stand.fence()?, now.millis());
            let ends: Option<Vec<Deadline>> = stands.all().iter().map(end).collect();
            let until = ends.and_then(|ends| ends.into_iter().min());
            host.state(|state| state.answer_confirmed(ticket, until));
        }
        if host.used() >= TURN {
            return Some(0);
        }
    }
    if host.state(|state| state.is_to_ask()) {
        if !host.ask_replicas() {
            return Some(AGAIN);
        }
        host.state(|state| state.replicas_asked(seen.written));
    }
    None
}
