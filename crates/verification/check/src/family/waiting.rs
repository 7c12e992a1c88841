//! The number of times that a rank which waits for a lock is passed by others.
//!
//! A lock that is made with an [`Observer`] tells it when a request has taken its place. That is a
//! moment which no outsider could tell, and after which the bounds that a lock promises hold. It
//! touches a word that ranks that go in and out touch, too: so every order of these events is
//! explored.
//!
//! [`Observer`]: farside::lock::frame::Observer

use std::cell::RefCell;
use std::rc::Rc;

use farside::lock::frame::Standing;
use farside::sim::program;
use farside::{Context, Lock, Rank, Result, RwLock, Words, World};

use crate::check::{Setup, Subject};
use crate::property::{BoundedBypass, Counted, InARow};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
}

/// A promise to waiting ranks.
pub(super) trait Rule {
    /// Forgets everything, for a run.
    fn prepare(&self, world: &World);
    fn waits(&self, rank: Rank, standing: Standing);
    /// A rank has the lock.
    fn goes_in(&self, rank: Rank, mode: Mode) -> Result<()>;
    /// It is about to release it.
    fn goes_out(&self, rank: Rank, mode: Mode);
}

/// No rank is overtaken more than so often in all, once it stands in a queue of this level or a
/// wider one.
pub(super) struct Overtaken {
    watch: BoundedBypass,
    level: usize,
}

impl Overtaken {
    pub(super) fn at_most(bound: u32) -> Overtaken {
        Overtaken { watch: BoundedBypass::in_all(bound), level: 0 }
    }

    /// Counts from the moment on at which it stands in a queue of this level.
    pub(super) fn since_level(self, level: usize) -> Overtaken {
        Overtaken { level, ..self }
    }
}

impl Rule for Overtaken {
    fn prepare(&self, world: &World) {
        self.watch.prepare(world);
    }
    fn waits(&self, rank: Rank, standing: Standing) {
        if !matches!(standing, Standing::Queued(level) if level < self.level) {
            self.watch.asks(rank);
        }
    }
    fn goes_in(&self, rank: Rank, _mode: Mode) -> Result<()> {
        self.watch.enters(rank)
    }
    fn goes_out(&self, _rank: Rank, _mode: Mode) {}
}

/// T_L: so many ranks of an element in a row, while a rank of another stands in the widest queue.
pub(super) struct Locality {
    watch: InARow,
    /// The name of the elements' level.
    name: &'static str,
    /// The level of the widest queue.
    widest: usize,
}

impl Locality {
    pub(super) fn new(name: &'static str, widest: usize, bound: u32) -> Locality {
        Locality {
            watch: InARow::new("T_L", "of one element in a row", Counted::Row, bound),
            name,
            widest,
        }
    }
}

impl Rule for Locality {
    fn prepare(&self, world: &World) {
        let levels = world.topology().levels();
        let level = levels.iter().find(|level| level.name == self.name);
        self.watch
            .reset(level.map_or(vec![0; world.size() as usize], |level| level.element_of.clone()));
    }
    fn waits(&self, rank: Rank, standing: Standing) {
        if standing == Standing::Queued(self.widest) {
            self.watch.waits(rank);
        }
    }
    fn goes_in(&self, rank: Rank, _mode: Mode) -> Result<()> {
        self.watch.goes_in(rank)
    }
    fn goes_out(&self, rank: Rank, _mode: Mode) {
        self.watch.goes_out(rank);
    }
}

/// T_W: so many writers while a reader waits.
pub(super) struct WritersInARow(InARow);

impl WritersInARow {
    pub(super) fn at_most(bound: u32) -> WritersInARow {
        WritersInARow(InARow::new("T_W", "writers in a row", Counted::All, bound))
    }
}

impl Rule for WritersInARow {
    fn prepare(&self, world: &World) {
        self.0.reset(vec![0; world.size() as usize]);
    }
    fn waits(&self, rank: Rank, standing: Standing) {
        // A reader that waits for the exclusive lock instead has the bound of that.
        match standing {
            Standing::ShutOut => self.0.waits(rank),
            _ => self.0.is_served(rank),
        }
    }
    fn goes_in(&self, rank: Rank, mode: Mode) -> Result<()> {
        match mode {
            Mode::Write => self.0.goes_in(rank),
            Mode::Read => {
                self.0.is_served(rank);
                Ok(())
            }
        }
    }
    fn goes_out(&self, rank: Rank, _mode: Mode) {
        self.0.goes_out(rank);
    }
}

/// T_R: so many readers of one counter while a writer stands in the widest queue.
pub(super) struct ReadersInARow {
    watch: InARow,
    /// The number of ranks that share a counter.
    t_dc: u32,
    /// The level of the widest queue.
    widest: usize,
}

impl ReadersInARow {
    /// As many as T_R, and each rank that shares the counter, if it has asked already.
    pub(super) fn at_most(t_r: u32, t_dc: u32, widest: usize) -> ReadersInARow {
        let watch = InARow::new("T_R", "readers of one counter", Counted::All, t_r + t_dc);
        ReadersInARow { watch, t_dc, widest }
    }
}

impl Rule for ReadersInARow {
    fn prepare(&self, world: &World) {
        self.watch.reset((0..world.size()).map(|rank| rank / self.t_dc).collect());
    }
    fn waits(&self, rank: Rank, standing: Standing) {
        if standing == Standing::Queued(self.widest) {
            self.watch.waits(rank);
        }
    }
    fn goes_in(&self, rank: Rank, mode: Mode) -> Result<()> {
        match mode {
            Mode::Read => self.watch.goes_in(rank),
            Mode::Write => {
                self.watch.is_served(rank);
                Ok(())
            }
        }
    }
    fn goes_out(&self, rank: Rank, _mode: Mode) {
        self.watch.goes_out(rank);
    }
}

type Rules = Rc<[Box<dyn Rule>]>;

/// One rank's connection to the rules.
#[derive(Clone)]
struct Watch {
    rules: Rules,
    words: Rc<Words>,
}

thread_local! {
    /// For each rank of the run that this thread makes.
    static WATCHES: RefCell<Vec<Option<Watch>>> = const { RefCell::new(Vec::new()) };
}

impl Watch {
    /// Watches the lock of this rank from now on. Collective.
    fn new(world: &World, rules: &Rules) -> Result<Watch> {
        let watch = Watch { rules: rules.clone(), words: Rc::new(world.words(1)?) };
        rules.iter().for_each(|rule| rule.prepare(world));
        WATCHES.with_borrow_mut(|all| {
            all.resize(world.size() as usize, None);
            all[world.rank().index()] = Some(watch.clone());
        });
        Ok(watch)
    }

    /// Puts what follows into an order with all else that is watched.
    fn order(&self, context: &Context) -> Result<()> {
        let last = Rank(context.topology().ranks() - 1);
        context.fetch_add(self.words.at(last, 0), 1).map(drop)
    }

    fn visit(&self, world: &World, mode: Mode) -> Result<()> {
        self.order(world)?;
        self.rules.iter().try_for_each(|rule| rule.goes_in(world.rank(), mode))?;
        self.order(world)?;
        self.rules.iter().for_each(|rule| rule.goes_out(world.rank(), mode));
        Ok(())
    }
}

/// Tells the rules that a rank waits: the observer of every watched lock.
pub(super) fn waits(context: &Context, standing: Standing) -> Result<()> {
    let watch = WATCHES.with_borrow(|all| all.get(context.rank().index()).cloned().flatten());
    let Some(watch) = watch else {
        return Ok(());
    };
    watch.order(context)?;
    watch.rules.iter().for_each(|rule| rule.waits(context.rank(), standing));
    Ok(())
}

/// Every rank asks for a lock again and again, except the last, which asks once; and the rules are
/// kept.
pub(super) fn exclusive(
    make: impl Fn(&World) -> Result<Lock> + Clone + 'static,
    rules: impl Fn(&Setup) -> Vec<Box<dyn Rule>>,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, rounds, rules) = (make.clone(), setup.rounds, Rules::from(rules(setup)));
        Subject::new(program(
            move |world| Ok((make(world)?, Watch::new(world, &rules)?)),
            move |world, (lock, watch)| {
                let is_last = world.rank().0 + 1 == world.size();
                for _ in 0..if is_last { 1 } else { rounds } {
                    let guard = lock.lock(world)?;
                    watch.visit(world, Mode::Write)?;
                    guard.unlock()?;
                }
                super::lock::stay(world, &lock)
            },
        ))
    }
}

/// Every rank reads and writes as its role says, one letter for each request, and the rules are
/// kept.
pub(super) fn readers_writers(
    make: impl Fn(&World) -> Result<RwLock> + Clone + 'static,
    roles: &'static [&'static str],
    rules: impl Fn(&Setup) -> Vec<Box<dyn Rule>>,
) -> impl Fn(&Setup) -> Subject {
    move |setup| {
        let (make, rounds, rules) = (make.clone(), setup.rounds, Rules::from(rules(setup)));
        Subject::new(program(
            move |world| Ok((make(world)?, Watch::new(world, &rules)?)),
            move |world, (lock, watch)| {
                for _ in 0..rounds {
                    for role in roles[world.rank().index() % roles.len()].chars() {
                        if role == 'w' {
                            let guard = lock.write(world)?;
                            watch.visit(world, Mode::Write)?;
                            guard.unlock()?;
                        } else {
                            let guard = lock.read(world)?;
                            watch.visit(world, Mode::Read)?;
                            guard.unlock()?;
                        }
                    }
                }
                Ok(())
            },
        ))
    }
}
