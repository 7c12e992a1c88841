//! What can happen next, and making it happen.

use std::rc::Rc;

use farside_fabric::Event as Awaited;

use crate::bits::Bits;
use crate::event::{Event, EventId, What};
use crate::fiber::Resume;
use crate::machine::Machine;
use crate::member::{Doing, Sleep};
use crate::parked_wait::{ParkedWait, holds, looks};

impl Machine {
    /// The oldest operation or access that can happen next. It is older than all other events.
    pub(crate) fn oldest(&self) -> Option<EventId> {
        let own = self.members.iter().filter_map(|member| match member.doing {
            Doing::Accesses { id, .. } | Doing::Polls { id, again: false, .. } => Some(id),
            _ => None,
        });
        let flights = self.landable().map(|flight| flight.id);
        flights.chain(own).min_by_key(|id| (id.serial, id.rank))
    }

    /// Everything that can happen next: operations, the oldest first; waits; faults. If that is
    /// nothing, what becomes of it, if anything does.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.landable().map(|flight| flight.event.clone()).collect();
        for member in &self.members {
            match member.doing {
                Doing::Accesses { access, what, id } => {
                    events.push(Event { id, accesses: Some(Rc::from([access])), what });
                }
                Doing::Polls { asked, id, again: false } => {
                    events.push(Event {
                        id,
                        accesses: self.bytes_of(id.rank, asked),
                        what: What::Poll,
                    });
                }
                _ => {}
            }
            let Doing::Waits { wait, id } = member.doing else {
                continue;
            };
            let wait = wait.get();
            if let Awaited::Words(conditions) = wait.event
                && member.sees(wait).is_some()
            {
                events.push(Event { id, accesses: Some(looks(conditions)), what: What::Wait });
            }
        }
        self.add_unnoticed(&mut events);
        self.add_sleeps(&mut events);
        self.add_expiries(&mut events);
        self.add_vanishings(&mut events);
        self.add_news(&mut events);
        if events.is_empty() {
            events.extend(self.quiet());
        }
        self.add_time_outs(&mut events);
        self.add_deaths(&mut events);
        events
    }

    /// The wait that an event would end, if it is a look at a word.
    pub(crate) fn wait_of(&self, id: EventId) -> Option<ParkedWait> {
        match self.members[id.rank.index()].doing {
            Doing::Waits { wait, id: waits } if waits == id => Some(wait),
            _ => None,
        }
    }

    /// Returns whether an event of an earlier run is possible now, too, as far as that can be told
    /// at little cost.
    pub(crate) fn may_happen(&self, event: &Event) -> bool {
        let id = event.id;
        if id.is_quiet() {
            return self.enabled().contains(event);
        }
        if let Some(node) = id.as_news() {
            return self.news.contains(&(id.rank, node));
        }
        let member = &self.members[id.rank.index()];
        if id.is_death() {
            return self.fault_model.deaths > 0 && !matches!(member.doing, Doing::Over);
        }
        let of = id.vanishes().or(id.as_executed()).or(id.as_unnoticed());
        if let Some(flight) = self.flights.iter().find(|flight| flight.id == of.unwrap_or(id)) {
            return of.is_some() || (flight.event == *event && self.may_land(flight));
        }
        match member.doing {
            Doing::Waits { wait, id: waits } => {
                let is_over = member.sees(wait.get()).is_some();
                let Awaited::Words(conditions) = wait.get().event else {
                    return false;
                };
                match waits == id {
                    _ if id.is_sleep() => id == EventId::sleep(waits) && member.may_sleep_on(),
                    true => is_over && event.accesses == Some(looks(conditions)),
                    false => !is_over && self.may_time_out_now(id),
                }
            }
            Doing::Accesses { id: own, access, what } => {
                own == id && what == event.what && event.accesses.as_deref() == Some(&[access])
            }
            Doing::Polls { id: own, again, .. } => own == id && !again,
            _ => false,
        }
    }

    /// Makes an event happen, as a step of that number if it counts. A death must be followed by
    /// the end of the rank's fiber.
    pub(crate) fn happen(&mut self, id: EventId, step: Option<usize>) {
        self.held = None;
        if id.is_death() {
            return self.die(id.rank);
        }
        if let Some(node) = id.as_news() {
            return self.tell(id.rank, node);
        }
        if id.is_quiet() {
            return self.be_quiet();
        }
        if id.is_time_out() || id.is_expiry() {
            return self.time_out(id, step);
        }
        if id.is_sleep() {
            return self.member(id.rank).sleep.set(Sleep::Asleep);
        }
        if let Some(of) = id.vanishes() {
            return self.vanish(of, step);
        }
        if let Some(of) = id.as_executed() {
            return self.execute_unanswered(of, step);
        }
        let of = id.as_unnoticed().unwrap_or(id);
        if let Some(at) = self.flights.iter().position(|flight| flight.id == of) {
            if of != id {
                self.put_to_sleep(at);
            }
            // The order of the rest is the order of age, and stays so.
            let flight = self.flights.remove(at);
            self.land(flight, step);
            return;
        }
        let seen = match self.members[id.rank.index()].doing {
            Doing::Waits { wait, .. } => holds(wait.get()),
            Doing::Accesses { .. } | Doing::Polls { .. } => {
                match self.members[id.rank.index()].doing {
                    Doing::Accesses { access, what: What::Own, .. } => {
                        self.note_own(id.rank, access)
                    }
                    Doing::Polls { asked, .. } => self.member(id.rank).polled.push(asked),
                    _ => {}
                }
                let member = self.member(id.rank);
                member.doing = Doing::Runs(Resume::Go(0, 0));
                member.learned.borrow_mut().extend(step);
                None
            }
            _ => None,
        };
        let member = self.member(id.rank);
        if let Some((which, value)) = seen {
            member.doing = Doing::Runs(Resume::Go(which, value));
            member.learned.borrow_mut().extend(step);
        }
    }

    /// Returns the steps that must come before an event that is about to happen: those that its
    /// rank knew of when it came about, and those that a fence or a signal demands.
    pub(crate) fn causes(&self, id: EventId, before: impl Fn(usize, &mut Bits)) -> Bits {
        let of = id.as_unnoticed().unwrap_or(id);
        let Some(flight) = self.flights.iter().find(|flight| flight.id == of) else {
            return match self.members[id.rank.index()].doing {
                Doing::Waits { id: own, .. }
                | Doing::Accesses { id: own, .. }
                | Doing::Polls { id: own, .. }
                    if own == id || id.is_time_out() || id.is_expiry() || id.is_sleep() =>
                {
                    self.members[id.rank.index()].known.clone()
                }
                _ => Bits::default(),
            };
        };
        let mut causes = flight.known.clone().unwrap_or_default();
        let landed = &self.members[id.rank.index()].landed;
        let fenced = landed.iter().filter(|&&(to, epoch, _)| {
            flight.fenced && !flight.by_agent && to == flight.target && epoch < flight.epoch
        });
        for step in fenced.map(|&(.., step)| step).chain(flight.after_steps.iter().copied()) {
            if !causes.contains(step) {
                causes.insert(step);
                before(step, &mut causes);
            }
        }
        causes
    }
}
