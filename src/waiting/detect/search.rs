//! From a new wait to all that it depends on.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use super::graph::{Graph, Need, Number, Other, Wait};
use super::{Circle, Holder, MOST, holders};
use crate::lock::{Ask, Fence, Now, Room};
use crate::waiting::budget::LOOK;
use crate::waiting::site::{Around, Caller, Site, Sites};
use crate::waiting::state::{Ahead, Place, State, Ticket};

/// The client that is about to wait.
pub(crate) struct Asker<'a> {
    pub(crate) ask: &'a Ask<'a>,
    /// It will be blocked.
    pub(crate) blocks: bool,
    /// The place that it has already.
    pub(crate) place: Option<Ticket>,
}

/// The circle through a new wait for these locks, where it would never end.
pub(crate) fn circle<B: Sites>(
    sites: &mut B,
    caller: &mut impl Caller<B::One>,
    asker: &Asker<'_>,
    now: Now,
) -> Option<Circle> {
    let limits = sites.lock(0)?.limits();
    let places = (0..sites.count()).filter_map(|number| {
        let site = sites.lock(number)?;
        Some(site.here(|_, at| at.to_place()))
    });
    let open: Vec<Place> = places.collect();
    let open_by_name = (0..).zip(&open).map(|(number, place)| (place.clone(), number)).collect();
    let graph =
        Graph { waits: vec![Wait { ask: asker.ask.to_owned(), needs: Vec::new() }], limits, now: now.start };
    let numbers = asker.place.into_iter().map(|ticket| (ticket, 0)).collect();
    let blocked = asker.blocks.then(|| caller.id());
    let mut search = Search {
        sites,
        caller,
        blocked,
        now,
        graph,
        numbers,
        open,
        open_by_name,
        found: vec![asker.place],
        looked: 0,
    };
    search.go();
    let (graph, looked) = (search.graph, search.looked);
    if let Some(site) = sites.lock(0) {
        site.spend(LOOK.saturating_mul(looked as u32));
    }
    graph.circle()
}

struct Search<'a, B, C> {
    sites: &'a mut B,
    caller: &'a mut C,
    /// The connection that will be blocked by the new wait.
    blocked: Option<u64>,
    now: Now,
    graph: Graph,
    numbers: BTreeMap<Ticket, Number>,
    /// The locks that the command has opened.
    open: Vec<Place>,
    /// The number of each. By a hash: their names may be long, and alike.
    open_by_name: HashMap<Place, usize, RandomState>,
    /// The waits found, by number: the place of each.
    found: Vec<Option<Ticket>>,
    looked: usize,
}

impl<B: Sites, C: Caller<B::One>> Search<'_, B, C> {
    /// All holders that can be reached before any queue: those are few, as a rule, and in them are most circles.
    fn go(&mut self) {
        let (mut held, mut queued) = (0, 0);
        while self.looked < MOST {
            if held < self.found.len() {
                self.look_at_holders(held);
                held += 1;
            } else if queued < self.found.len() {
                self.look_at_queues(queued);
                queued += 1;
            } else {
                break;
            }
        }
    }

    /// Takes note of who holds what a wait is for.
    fn look_at_holders(&mut self, number: Number) {
        let places = match self.found.get(number).copied().flatten().filter(|_| number != 0) {
            Some(ticket) => self.state(|state| state.places_of_wait(ticket)),
            None => self.open.clone(),
        };
        for place in places {
            if number != 0 && self.looked >= MOST {
                return;
            }
            let Some(wait) = self.graph.waits.get(number) else { return };
            let owner = wait.ask.owner.clone();
            let (mut own, mut others) = (None, Vec::new());
            for holder in self.holders(&place) {
                if holder.grant.owner() == owner {
                    own = Some(holder);
                } else {
                    others.push(self.other(&place, holder));
                }
            }
            let need = Need { place, own, others, ahead: Vec::new(), room: Room::ANY };
            if let Some(wait) = self.graph.waits.get_mut(number) {
                wait.needs.push(need);
            }
        }
    }

    /// Who holds a lock. One that the command has opened is not opened again: that might free what it has open.
    fn holders(&mut self, place: &Place) -> Vec<Holder> {
        let (now, most) = (self.now.millis(), MOST.saturating_sub(self.looked));
        let open = self.open_by_name.get(place).copied();
        if let Some(site) = open.and_then(|number| self.sites.lock(number)) {
            let holders = holders(site.value(), site.deadline(), now, most);
            self.looked += holders.len();
            return holders;
        }
        let Some(site) = self.sites.lock(0) else { return Vec::new() };
        let holders = self.caller.holders(site, place, now, most);
        self.looked += 1 + holders.len();
        holders
    }

    fn other(&mut self, place: &Place, holder: Holder) -> Other {
        let owner = holder.grant.owner().into_owned();
        let left = MOST.saturating_sub(self.looked);
        // Of more than can be looked at, one may end.
        let waits = self.state(|state| state.waits_of(&owner, left));
        let all = waits.is_some();
        self.looked += waits.as_ref().map_or(left, Vec::len);
        let waits = waits.unwrap_or_default();
        let mut waits: Vec<Number> = waits.into_iter().filter_map(|ticket| self.number(ticket)).collect();
        let is_asker = self.graph.waits.first().is_some_and(|first| first.ask.owner == owner);
        if is_asker && all && !waits.contains(&0) {
            waits.push(0);
        }
        let keeper = self.keeper(place, holder.fence());
        Other { holder, waits, keeper }
    }

    /// The wait in which the connection is blocked that keeps a grant alive.
    fn keeper(&mut self, place: &Place, fence: Fence) -> Option<Number> {
        let (client, blocked) = self.state(|state| state.keeper(place.at(), fence))?;
        if Some(client) == self.blocked {
            return Some(0);
        }
        self.number(blocked?)
    }

    /// Takes note of who is served before a wait. Where its owner holds the lock already, nobody is.
    fn look_at_queues(&mut self, number: Number) {
        let ticket = self.found.get(number).copied().flatten();
        let needs = self.graph.waits.get(number).map_or(0, |wait| wait.needs.len());
        for need in 0..needs {
            let Some(place) = self.need(number, need).filter(|need| need.own.is_none()) else { continue };
            let place = place.place.clone();
            let left = MOST.saturating_sub(self.looked);
            let ahead: Vec<_> = self.state(|state| {
                // Where nobody waits elsewhere too, nobody says more than one who wants the lock alone.
                let is_last = |ahead: &Ahead| ahead.room.is_exclusive() && !state.has_several();
                let (mut over, ahead) = (false, state.ahead_of(place.at(), ticket).take(left));
                ahead.take_while(|ahead| !std::mem::replace(&mut over, is_last(ahead))).collect()
            });
            self.looked += ahead.len();
            // The new wait is in no queue yet.
            if number != 0
                && self.open_by_name.get(&place).is_some_and(|open| self.graph.is_in_front(*open))
                && let Some(need) = self.need(number, need)
            {
                need.ahead.push(0);
            }
            for ahead in ahead {
                let several = ahead.several.then(|| self.number(ahead.ticket)).flatten();
                let Some(need) = self.need(number, need) else { continue };
                match several {
                    Some(several) => need.ahead.push(several),
                    None if ahead.several => {}
                    None => need.room = need.room.min(ahead.room),
                }
            }
        }
    }

    fn need(&mut self, number: Number, need: usize) -> Option<&mut Need> {
        self.graph.waits.get_mut(number)?.needs.get_mut(need)
    }

    /// The number of a wait; it is looked at in turn.
    fn number(&mut self, ticket: Ticket) -> Option<Number> {
        if let Some(number) = self.numbers.get(&ticket) {
            return Some(*number);
        }
        let ask = self.state(|state| state.ask_of(ticket))?;
        let number = self.found.len();
        self.numbers.insert(ticket, number);
        self.found.push(Some(ticket));
        self.graph.waits.push(Wait { ask, needs: Vec::new() });
        Some(number)
    }

    fn state<R: Default>(&mut self, body: impl FnOnce(&mut State<<B::One as Around>::Client>) -> R) -> R {
        self.sites.lock(0).map(|site| site.state(body)).unwrap_or_default()
    }
}
