//! What handlers do is checked, and what calls order is no race.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use farside::check::{Check, begin};
use farside::{Local, Node, Rank, Result, Window, World};
use farside_fabric::{Agent, Atomic, HandlerId, Region, Shape, Width, Word};
use farside_races::{Checker, Report};

const RANKS: u32 = 3;
const R0: Rank = Rank(0);
const R1: Rank = Rank(1);
const R2: Rank = Rank(2);

fn checked(nodes: u32, program: impl Fn(&It<'_>) -> Result<()> + Sync) -> Report {
    let checker = Checker::new(RANKS).unwrap();
    let over = checker.clone();
    let local = Local::new(RANKS).unwrap().nodes(nodes);
    let local = local.decorate(move |fabric| over.over(fabric).unwrap());
    let ran = local.run(|world| {
        let it = It::new(world)?;
        program(&it)?;
        world.sync()?;
        it.words.free(world)
    });
    ran.unwrap();
    checker.report()
}

/// A window of words, and handlers that use them: each is asked with the rank and the word.
struct It<'w> {
    world: &'w World,
    words: Window<u64>,
    puts: HandlerId,
    gets: HandlerId,
    adds: HandlerId,
    put_signals: HandlerId,
}

impl It<'_> {
    fn new(world: &World) -> Result<It<'_>> {
        let words = world.window::<u64>(4)?;
        let segment = words.at(R0, 0).word().segment;
        let serve = |act: fn(&dyn Agent, &Region<'_>) -> Result<()>| {
            world.serve(move |agent, _, asked| {
                let region =
                    Region::block(Rank(asked[0].into()), segment, 8 * u64::from(asked[1]), 8);
                vec![u8::from(act(agent, &region).is_ok())]
            })
        };
        let word = |region: &Region<'_>, further: u64| Word {
            rank: region.rank,
            segment: region.segment,
            offset: offset(region) + further,
            width: Width::W64,
        };
        let puts = serve(|agent, region| agent.put(region, &[7; 8]))?;
        let gets = serve(|agent, region| agent.get(region, &mut [0; 8]))?;
        let adds = world.serve(move |agent, _, asked| {
            let region = Region::block(Rank(asked[0].into()), segment, 8 * u64::from(asked[1]), 8);
            vec![u8::from(agent.atomic(word(&region, 0), Atomic::Add(1)).is_ok())]
        })?;
        let put_signals = world.serve(move |agent, _, asked| {
            let region = Region::block(Rank(asked[0].into()), segment, 8 * u64::from(asked[1]), 8);
            let signal = word(&region, 8);
            vec![u8::from(agent.put_signal(&region, &[7; 8], signal, Atomic::Store(1)).is_ok())]
        })?;
        Ok(It { world, words, puts, gets, adds, put_signals })
    }

    fn call(&self, node: u32, handler: HandlerId, rank: Rank, word: u8) -> Result<()> {
        let reply = self.world.call(Node(node), handler, &[rank.0 as u8, word])?;
        assert_eq!(reply, [1], "the handler has done its operation");
        Ok(())
    }

    fn wait(&self, word: usize, value: u64) -> Result<()> {
        let at = self.words.at(self.world.rank(), word);
        self.world.wait(at, |held| held >= value).map(drop)
    }

    fn put(&self, rank: Rank, word: usize) -> Result<()> {
        self.world.put_value(7, self.words.at(rank, word))?;
        self.world.flush(rank)
    }
}

fn offset(region: &Region<'_>) -> u64 {
    match region.shape {
        Shape::Block(piece) => piece.offset,
        _ => unreachable!("all regions are blocks"),
    }
}

#[test]
fn what_a_handler_writes_races_with_what_nothing_orders_behind_it() {
    let report = checked(1, |it| match it.world.rank() {
        R0 => it.call(0, it.puts, R1, 0),
        R1 => it.words.own().get(0).map(drop),
        _ => Ok(()),
    });
    assert_eq!(report.races.len(), 1, "{report}");
    let report = checked(1, |it| match it.world.rank() {
        R0 => it.call(0, it.gets, R1, 0),
        R1 => it.put(R1, 0),
        _ => Ok(()),
    });
    assert_eq!(report.races.len(), 1, "{report}");
}

#[test]
fn calls_order_what_handlers_do() {
    let report = checked(1, |it| {
        if it.world.rank() == R0 {
            it.call(0, it.puts, R1, 0)?;
        }
        it.world.barrier()?;
        if it.world.rank() == R1 { it.words.own().get(0).map(drop) } else { Ok(()) }
    });
    assert!(report.races.is_empty(), "{report}");
    // One handler comes behind the other, whoever has called them.
    let report = checked(1, |it| match it.world.rank() {
        R0 => it.call(0, it.puts, R1, 0),
        R2 => it.call(0, it.gets, R1, 0),
        _ => Ok(()),
    });
    assert!(report.races.is_empty(), "{report}");
    let report = checked(1, |it| match it.world.rank() {
        R0 => {
            it.put(R1, 0)?;
            it.call(0, it.gets, R1, 0)?;
            it.call(0, it.puts, R1, 0)?;
            it.world.get_value(it.words.at(R1, 0)).map(drop)
        }
        _ => Ok(()),
    });
    assert!(report.races.is_empty(), "{report}");
    assert!(report.accesses >= 4, "{report}");
}

#[test]
fn what_a_handler_posts_to_another_node_is_under_way_when_its_caller_goes_on() {
    // The handler of the second node, where ranks 1 and 2 are, puts to rank 0.
    let far = |handler: fn(&It<'_>) -> HandlerId, wait: bool| {
        checked(2, move |it| {
            if it.world.rank() == R1 {
                it.call(1, handler(it), R0, 0)?;
            }
            it.world.barrier()?;
            if it.world.rank() != R0 {
                return Ok(());
            }
            if wait {
                it.wait(1, 1)?;
            }
            it.words.own().get(0).map(drop)
        })
    };
    let report = far(|it| it.puts, false);
    assert!(!report.races.is_empty(), "{report}");
    let report = far(|it| it.put_signals, true);
    assert!(report.races.is_empty(), "{report}");
    let report = far(|it| it.put_signals, false);
    assert!(!report.races.is_empty(), "{report}");
}

#[test]
fn handlers_of_explored_programs_are_checked() {
    let explored = |nodes: u32, program: fn(&It<'_>) -> Result<()>| {
        let check = Check::new(2).nodes(nodes).policy("random").schedules(50);
        let finding = check.explore(move |world: &World| {
            let it = It::new(world)?;
            begin(world);
            program(&it)
        });
        let finding = finding.unwrap();
        let is_race = finding.race.is_some();
        assert_eq!(finding.report.failure.is_some(), is_race, "{:?}", finding.report.failure);
        is_race
    };
    assert!(explored(1, |it| match it.world.rank() {
        R0 => it.call(0, it.puts, R1, 0),
        _ => it.words.own().get(0).map(drop),
    }));
    assert!(!explored(1, |it| match it.world.rank() {
        R0 => {
            it.call(0, it.puts, R1, 0)?;
            it.world.signal(it.words.at(R1, 1), 1)
        }
        _ => {
            it.wait(1, 1)?;
            it.words.own().get(0).map(drop)
        }
    }));
    // The handler of the second node puts to the first.
    assert!(explored(2, |it| match it.world.rank() {
        R0 => {
            it.wait(2, 1)?;
            it.words.own().get(0).map(drop)
        }
        _ => {
            it.call(1, it.puts, R0, 0)?;
            it.world.signal(it.words.at(R0, 2), 1)
        }
    }));
    assert!(!explored(2, |it| match it.world.rank() {
        R0 => {
            it.wait(1, 1)?;
            it.words.own().get(0).map(drop)
        }
        _ => it.call(1, it.put_signals, R0, 0),
    }));
}

/// Lets one rank go on when another has come: the checker does not see it.
struct Turn(Mutex<Sender<()>>, Mutex<Receiver<()>>);

impl Turn {
    fn new() -> Arc<Turn> {
        let (sender, receiver) = channel();
        Arc::new(Turn(Mutex::new(sender), Mutex::new(receiver)))
    }

    fn give(&self) {
        self.0.lock().unwrap().send(()).unwrap();
    }

    fn take(&self) {
        self.1.lock().unwrap().recv().unwrap();
    }
}

#[test]
fn a_handler_that_adds_to_a_word_passes_on_what_was_stored_there() {
    let turn = Turn::new();
    let report = checked(1, |it| match it.world.rank() {
        R0 => {
            it.put(R1, 0)?;
            it.world.store(it.words.at(R1, 1), 1)?;
            turn.give();
            Ok(())
        }
        R2 => {
            turn.take();
            it.call(0, it.adds, R1, 1)
        }
        _ => {
            it.wait(1, 2)?;
            it.words.own().get(0).map(drop)
        }
    });
    assert!(report.races.is_empty(), "{report}");
}

#[test]
fn an_attempt_that_fails_tells_nobody_anything() {
    for (expected, is_told) in [(5, false), (0, true)] {
        let turn = Turn::new();
        for nodes in [1, 3] {
            let report = checked(nodes, |it| {
                let word = it.words.at(R2, 1);
                match it.world.rank() {
                    R0 => {
                        it.put(R2, 0)?;
                        it.world.compare_swap(word, expected, 6)?;
                        turn.give();
                        Ok(())
                    }
                    R1 => {
                        turn.take();
                        it.world.load(word)?;
                        it.world.get_value(it.words.at(R2, 0)).map(drop)
                    }
                    _ => Ok(()),
                }
            });
            assert_eq!(report.races.is_empty(), is_told, "{nodes} nodes: {report}");
        }
    }
}
