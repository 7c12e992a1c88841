//! Labelled programs in Rust: three ranks, one idea each.

mod it;

use farside::{Lock, Patch, Result, Run, RwLock};

pub(crate) use it::It;
use it::{R0, R1, R2};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) is_racy: bool,
    pub(crate) run: fn(&It<'_>) -> Result<()>,
}

macro_rules! cases {
    ($($label:ident $name:ident: |$it:ident| $body:expr;)*) => {
        /// All programs.
        pub(crate) const CASES: &[Case] = &[$(Case {
            name: stringify!($name),
            is_racy: $label,
            run: {
                fn run($it: &It<'_>) -> Result<()> { $body }
                run
            },
        }),*];
    };
}

const RACY: bool = true;
const RIGHT: bool = false;

cases! {
    RACY put_read: |it| it.both(|it| it.put(R1, 0), |it| it.read(0));
    RACY put_barrier_read: |it| {
        it.on(0, |_| it.put(R1, 0))?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RIGHT put_flush_barrier_read: |it| {
        it.on(0, |world| { it.put(R1, 0)?; world.flush(R1) })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RIGHT put_sync_read: |it| {
        it.on(0, |_| it.put(R1, 0))?;
        it.world.sync()?;
        it.on(1, |_| it.read(0))
    };
    RACY put_flush_read: |it| it.both(
        |it| { it.put(R1, 0)?; it.world.flush(R1) },
        |it| it.read(0),
    );
    RIGHT put_flush_all_barrier_get: |it| {
        it.on(0, |world| { it.put(R1, 0)?; world.flush_all() })?;
        it.world.barrier()?;
        it.on(2, |_| it.get(R1, 0))
    };
    RACY flush_of_another_rank: |it| {
        it.on(0, |world| { it.put(R1, 0)?; it.put(R2, 0)?; world.flush(R2) })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RIGHT flush_of_the_rank_read: |it| {
        it.on(0, |world| { it.put(R1, 0)?; it.put(R2, 0)?; world.flush(R2) })?;
        it.world.barrier()?;
        it.on(2, |_| it.read(0))
    };
    RACY flush_ahead_of_the_put: |it| {
        it.on(0, |world| { world.flush(R1)?; it.put(R1, 0) })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RACY one_of_two_puts_flushed: |it| {
        it.on(0, |world| { it.put(R1, 0)?; world.flush(R1)?; it.put(R1, 1) })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(1))
    };
    RIGHT the_flushed_one_of_two_puts: |it| {
        it.on(0, |world| { it.put(R1, 0)?; world.flush(R1)?; it.put(R1, 1) })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RIGHT read_barrier_put: |it| {
        it.on(1, |_| it.read(0))?;
        it.world.barrier()?;
        it.on(0, |_| it.put(R1, 0))
    };
    RACY get_and_put: |it| it.both(|it| it.get(R2, 0), |it| it.put(R2, 0));
    RIGHT get_and_get: |it| it.both(|it| it.get(R2, 0), |it| it.get(R2, 0));
    RIGHT puts_to_different_elements: |it| it.put(R0, it.world.rank().index());
    RACY puts_to_one_element: |it| it.put(R0, 0);
    RIGHT puts_in_turn: |it| {
        it.on(0, |_| it.put(R2, 0))?;
        it.world.sync()?;
        it.on(1, |_| it.put(R2, 0))
    };
    RACY puts_in_turn_without_flush: |it| {
        it.on(0, |_| it.put(R2, 0))?;
        it.world.barrier()?;
        it.on(1, |_| it.put(R2, 0))
    };
    RACY ranges_that_overlap: |it| it.both(
        |it| it.world.put(&[1; 8], it.data.at(R2, 0)),
        |it| it.world.put(&[2; 8], it.data.at(R2, 7)),
    );
    RIGHT ranges_that_touch: |it| it.both(
        |it| it.world.put(&[1; 8], it.data.at(R2, 0)),
        |it| it.world.put(&[2; 8], it.data.at(R2, 8)),
    );
    RACY own_put_then_get: |it| it.on(0, |_| { it.put(R1, 0)?; it.get(R1, 0) });
    RIGHT own_put_flush_get: |it| it.on(0, |world| {
        it.put(R1, 0)?;
        world.flush(R1)?;
        it.get(R1, 0)
    });
    RACY own_put_fence_get: |it| it.on(0, |world| {
        it.put(R1, 0)?;
        world.fence()?;
        it.get(R1, 0)
    });
    RACY own_put_put: |it| it.on(0, |_| { it.put(R1, 0)?; it.put(R1, 0) });
    RIGHT own_put_fence_put: |it| it.on(0, |world| {
        it.put(R1, 0)?;
        world.fence()?;
        it.put(R1, 0)
    });
    RACY put_fence_barrier_read: |it| {
        it.on(0, |world| { it.put(R1, 0)?; world.fence() })?;
        it.world.barrier()?;
        it.on(1, |_| it.read(0))
    };
    RIGHT put_signal_wait_read: |it| it.both(
        |it| it.world.put_signal(&[7], it.data.at(R1, 0), 1, it.flags.at(R1, 0)),
        |it| { it.wait(0)?; it.read(0) },
    );
    RACY put_then_signal: |it| it.both(
        |it| { it.put(R1, 0)?; it.signal(R1, 0) },
        |it| { it.wait(0)?; it.read(0) },
    );
    RIGHT put_fence_signal: |it| it.both(
        |it| { it.put(R1, 0)?; it.world.fence()?; it.signal(R1, 0) },
        |it| { it.wait(0)?; it.read(0) },
    );
    RIGHT put_flush_signal: |it| it.both(
        |it| { it.put(R1, 0)?; it.world.flush(R1)?; it.signal(R1, 0) },
        |it| { it.wait(0)?; it.read(0) },
    );
    RACY fence_orders_no_third_rank: |it| match it.world.rank().0 {
        0 => { it.put(R1, 0)?; it.world.fence()?; it.signal(R2, 0) }
        2 => { it.wait(0)?; it.get(R1, 0) }
        _ => Ok(()),
    };
    RIGHT flush_orders_a_third_rank: |it| match it.world.rank().0 {
        0 => { it.put(R1, 0)?; it.world.flush(R1)?; it.signal(R2, 0) }
        2 => { it.wait(0)?; it.get(R1, 0) }
        _ => Ok(()),
    };
    RACY signal_ahead_of_the_put: |it| it.both(
        |it| { it.signal(R1, 0)?; it.put(R1, 0) },
        |it| { it.wait(0)?; it.read(0) },
    );
    RACY put_behind_the_fence: |it| it.both(
        |it| {
            it.put(R1, 1)?;
            it.world.fence()?;
            it.put(R1, 0)?;
            it.signal(R1, 0)
        },
        |it| { it.wait(0)?; it.read(0) },
    );
    RIGHT put_ahead_of_the_fence: |it| it.both(
        |it| {
            it.put(R1, 1)?;
            it.world.fence()?;
            it.put(R1, 0)?;
            it.signal(R1, 0)
        },
        |it| { it.wait(0)?; it.read(1) },
    );
    RIGHT put_signal_add_of_two: |it| match it.world.rank().0 {
        2 => { it.wait_for(0, 2)?; it.data.own().to_vec().map(drop) }
        me => it.world.put_signal_add(&[1], it.data.at(R2, me as usize), 1, it.flags.at(R2, 0)),
    };
    RACY one_of_two_without_a_signal: |it| match it.world.rank().0 {
        0 => it.put(R2, 0),
        1 => it.world.put_signal_add(&[1], it.data.at(R2, 1), 1, it.flags.at(R2, 0)),
        _ => { it.wait(0)?; it.read(0) }
    };
    RACY put_signal_brings_its_own_data_only: |it| it.both(
        |it| {
            it.put(R1, 1)?;
            it.world.put_signal(&[7], it.data.at(R1, 0), 1, it.flags.at(R1, 0))
        },
        |it| { it.wait(0)?; it.read(1) },
    );
    RIGHT put_fence_put_signal: |it| it.both(
        |it| {
            it.put(R1, 1)?;
            it.world.fence()?;
            it.world.put_signal(&[7], it.data.at(R1, 0), 1, it.flags.at(R1, 0))
        },
        |it| { it.wait(0)?; it.read(1) },
    );
    RACY read_ahead_of_the_wait: |it| it.both(
        |it| it.world.put_signal(&[7], it.data.at(R1, 0), 1, it.flags.at(R1, 0)),
        |it| { it.read(0)?; it.wait(0) },
    );
    RACY wait_on_another_flag: |it| match it.world.rank().0 {
        0 => it.world.put_signal(&[7], it.data.at(R1, 0), 1, it.flags.at(R1, 0)),
        1 => { it.wait(1)?; it.read(0) }
        _ => it.signal(R1, 1),
    };
    RACY two_signals_to_one_word: |it| it.both(
        |it| { it.signal(R1, 0)?; it.world.signal(it.flags.at(R1, 0), 2) },
        |it| it.wait_for(0, 2),
    );
    RIGHT two_signals_with_a_fence: |it| it.both(
        |it| {
            it.signal(R1, 0)?;
            it.world.fence()?;
            it.world.signal(it.flags.at(R1, 0), 2)
        },
        |it| it.wait_for(0, 2),
    );
    RIGHT two_signals_to_two_words: |it| it.both(
        |it| { it.signal(R1, 0)?; it.signal(R1, 1) },
        |it| { it.wait(0)?; it.wait(1) },
    );
    RIGHT two_signals_with_an_answer: |it| it.both(
        |it| {
            it.signal(R1, 0)?;
            it.wait(1)?;
            it.world.signal(it.flags.at(R1, 0), 2)
        },
        |it| { it.wait(0)?; it.signal(R0, 1)?; it.wait_for(0, 2) },
    );
    RACY two_signals_with_an_answer_to_nothing: |it| it.both(
        |it| {
            it.signal(R1, 0)?;
            it.wait(1)?;
            it.world.signal(it.flags.at(R1, 0), 2)
        },
        |it| { it.signal(R0, 1)?; it.wait_for(0, 2) },
    );
    RACY a_signal_and_an_add: |it| it.on(0, |world| {
        it.signal(R1, 0)?;
        world.add(it.flags.at(R1, 0), 1)
    });
    RIGHT two_adds_in_any_order: |it| it.on(0, |world| {
        world.add(it.flags.at(R1, 0), 1)?;
        world.add(it.flags.at(R1, 0), 2)
    });
    RACY two_put_signals_to_one_word: |it| it.both(
        |it| { it.put_signal(R1, 0, 1, 0)?; it.put_signal(R1, 1, 2, 0) },
        |it| { it.wait_for(0, 2)?; it.read(0)?; it.read(1) },
    );
    RIGHT two_put_signals_with_a_fence: |it| it.both(
        |it| {
            it.put_signal(R1, 0, 1, 0)?;
            it.world.fence()?;
            it.put_signal(R1, 1, 2, 0)
        },
        |it| { it.wait_for(0, 2)?; it.read(0)?; it.read(1) },
    );
    RACY data_of_the_put_signal_of_another_word: |it| it.both(
        |it| { it.put_signal(R1, 0, 1, 0)?; it.put_signal(R1, 1, 1, 1) },
        |it| { it.wait(1)?; it.read(0) },
    );
    RIGHT data_of_two_put_signals_of_three: |it| it.both(
        |it| (0..3).try_for_each(|at| it.put_signal(R1, at, 1, at)),
        |it| { it.wait(2)?; it.wait(0)?; it.read(0)?; it.read(2) },
    );
    RACY data_of_the_third_put_signal: |it| it.both(
        |it| (0..3).try_for_each(|at| it.put_signal(R1, at, 1, at)),
        |it| { it.wait(2)?; it.wait(0)?; it.read(1) },
    );
    RIGHT rounds_with_a_fence: |it| it.rounds(true);
    RACY rounds_without_a_fence: |it| it.rounds(false);
    RIGHT signal_that_counts_down: |it| it.counts_to_zero(1, u64::MAX);
    RIGHT signal_that_counts_up_to_zero: |it| it.counts_to_zero(u64::MAX, 1);
    RIGHT sum_of_both_adds: |it| it.two_adds(false, 2, 0);
    RACY sum_of_one_of_two_adds: |it| it.two_adds(false, 1, 0);
    RIGHT first_of_two_fenced_adds: |it| it.two_adds(true, 1, 0);
    RACY second_of_two_fenced_adds: |it| it.two_adds(true, 1, 1);
    RIGHT credits_come_back: |it| it.credits(true);
    RACY no_credits: |it| it.credits(false);
    RIGHT news_pass_on: |it| match it.world.rank().0 {
        0 => { it.put(R2, 0)?; it.world.flush(R2)?; it.signal(R1, 0) }
        1 => { it.wait(0)?; it.signal(R2, 0) }
        _ => { it.wait(0)?; it.read(0) }
    };
    RACY news_pass_on_without_flush: |it| match it.world.rank().0 {
        0 => { it.put(R2, 0)?; it.signal(R1, 0) }
        1 => { it.wait(0)?; it.signal(R2, 0) }
        _ => { it.wait(0)?; it.read(0) }
    };
    RIGHT own_write_signal_get: |it| it.both(
        |it| { it.data.own().set(0, 7)?; it.signal(R1, 0) },
        |it| { it.wait(0)?; it.get(R0, 0) },
    );
    RACY own_write_behind_the_signal: |it| it.both(
        |it| { it.signal(R1, 0)?; it.data.own().set(0, 7) },
        |it| { it.wait(0)?; it.get(R0, 0) },
    );
    RIGHT own_write_barrier_get: |it| {
        it.on(0, |_| it.data.own().set(0, 7))?;
        it.world.barrier()?;
        it.on(1, |_| it.get(R0, 0))
    };
    RACY own_write_get: |it| it.both(|it| it.data.own().set(0, 7), |it| it.get(R0, 0));
    RIGHT counter: |it| it.world.fetch_add(it.data.at(R0, 0), 1).map(drop);
    RACY counter_read_plainly: |it| it.both(
        |it| it.read(0),
        |it| it.world.fetch_add(it.data.at(R0, 0), 1).map(drop),
    );
    RIGHT counter_read_behind_a_barrier: |it| {
        it.world.fetch_add(it.data.at(R0, 0), 1)?;
        it.world.barrier()?;
        it.on(0, |_| it.read(0))
    };
    RACY posted_adds: |it| {
        it.world.add(it.data.at(R0, 0), 1)?;
        it.world.barrier()?;
        it.on(0, |_| it.read(0))
    };
    RIGHT posted_adds_flushed: |it| {
        it.world.add(it.data.at(R0, 0), 1)?;
        it.world.flush(R0)?;
        it.world.barrier()?;
        it.on(0, |_| it.read(0))
    };
    RIGHT posted_adds_loaded: |it| {
        it.world.add(it.data.at(R0, 0), 1)?;
        it.world.barrier()?;
        it.world.load(it.data.at(R0, 0)).map(drop)
    };
    RIGHT posted_add_read_by_whoever_has_seen_it: |it| it.both(
        |it| it.world.add(it.data.at(R2, 0), 1),
        |it| {
            while it.world.load(it.data.at(R2, 0))? == 0 {
                it.world.relax()?;
            }
            it.get(R2, 0)
        },
    );
    RACY put_to_a_counter: |it| it.both(
        |it| it.put(R2, 0),
        |it| it.world.fetch_add(it.data.at(R2, 0), 1).map(drop),
    );
    RIGHT store_behind_a_fence: |it| it.both(
        |it| {
            it.put(R2, 0)?;
            it.world.fence()?;
            it.world.store(it.flags.at(R2, 1), 1)?;
            it.signal(R1, 0)
        },
        |it| { it.wait(0)?; it.get(R2, 0) },
    );
    RACY store_without_a_fence: |it| it.both(
        |it| {
            it.put(R2, 0)?;
            it.world.store(it.flags.at(R2, 1), 1)?;
            it.signal(R1, 0)
        },
        |it| { it.wait(0)?; it.get(R2, 0) },
    );
    RIGHT attempt_that_succeeds: |it| match it.world.rank().0 {
        0 => {
            it.put(R2, 0)?;
            it.world.flush(R2)?;
            it.world.compare_swap(it.flags.at(R2, 0), 0, 1).map(drop)
        }
        1 => {
            while it.world.load(it.flags.at(R2, 0))? == 0 {
                it.world.relax()?;
            }
            it.get(R2, 0)
        }
        _ => Ok(()),
    };
    RACY attempt_that_fails: |it| match it.world.rank().0 {
        0 => {
            it.put(R2, 0)?;
            it.world.flush(R2)?;
            it.world.compare_swap(it.flags.at(R2, 0), 5, 6).map(drop)
        }
        1 => { it.world.load(it.flags.at(R2, 0))?; it.get(R2, 0) }
        _ => Ok(()),
    };
    RIGHT spin_lock: |it| it.spin(|| it.add_one(), true);
    RACY spin_lock_without_flush: |it| it.spin(|| it.add_one(), false);
    RIGHT poll_by_loads: |it| it.both(
        |it| { it.put(R1, 0)?; it.world.flush(R1)?; it.signal(R2, 0) },
        |it| {
            while it.world.load(it.flags.at(R2, 0))? == 0 {
                it.world.relax()?;
            }
            it.read(0)
        },
    );
    RACY poll_by_gets: |it| it.both(
        |it| { it.put(R1, 0)?; it.world.flush(R1)?; it.signal(R2, 0) },
        |it| {
            while it.world.get_value(it.flags.at(R2, 0))? == 0 {
                it.world.relax()?;
            }
            it.read(0)
        },
    );
    RIGHT accumulates: |it| {
        it.world.accumulate(1, &[1u64], it.data.at(R0, 0))?;
        it.world.sync()?;
        it.on(0, |_| it.read(0))
    };
    RACY accumulates_read_at_once: |it| it.both(
        |it| it.read(0),
        |it| it.world.accumulate(1, &[1u64], it.data.at(R0, 0)),
    );
    RACY accumulates_and_atomics: |it| it.both(
        |it| it.world.fetch_add(it.data.at(R2, 0), 1).map(drop),
        |it| it.world.accumulate(1, &[1u64], it.data.at(R2, 0)),
    );
    RIGHT accumulates_then_atomics: |it| {
        it.on(0, |world| world.accumulate(1, &[1u64], it.data.at(R2, 0)))?;
        it.world.sync()?;
        it.on(1, |world| world.fetch_add(it.data.at(R2, 0), 1).map(drop))
    };
    RACY accumulate_and_put: |it| it.both(
        |it| it.put(R2, 0),
        |it| it.world.accumulate(1, &[1u64], it.data.at(R2, 0)),
    );
    RIGHT lock_protects: |it| it.locked(|lock| {
        let guard = lock.lock(it.world)?;
        it.add_one()?;
        guard.unlock()
    });
    RACY one_rank_without_the_lock: |it| it.locked(|lock| {
        if it.world.rank() == R1 {
            return it.add_one();
        }
        let guard = lock.lock(it.world)?;
        it.add_one()?;
        guard.unlock()
    });
    RACY two_locks: |it| {
        let locks = [Lock::new(it.world, R0)?, Lock::new(it.world, R1)?];
        let guard = locks[it.world.rank().index() % 2].lock(it.world)?;
        it.add_one()?;
        guard.unlock()?;
        it.world.barrier()?;
        locks.into_iter().try_for_each(|lock| lock.free(it.world))
    };
    RIGHT readers_and_a_writer: |it| {
        let lock = RwLock::new(it.world, R0)?;
        if it.world.rank() == R1 {
            let guard = lock.write(it.world)?;
            it.add_one()?;
            guard.unlock()?;
        } else {
            let guard = lock.read(it.world)?;
            it.get(R0, 0)?;
            guard.unlock()?;
        }
        it.world.barrier()?;
        lock.free(it.world)
    };
    RIGHT halo_with_two_syncs: |it| it.halo(true);
    RACY halo_with_one_sync: |it| it.halo(false);
    RIGHT all_to_all_sync: |it| it.all_to_all(true);
    RACY all_to_all_barrier: |it| it.all_to_all(false);
    RIGHT context_flushes_itself: |it| it.two_threads(true);
    RACY context_flushed_by_another: |it| it.two_threads(false);
    RIGHT barrier_of_the_team: |it| it.team(|rank| u64::from(rank == 2));
    RACY barrier_of_another_team: |it| it.team(|rank| u64::from(rank == 1));
    RACY strided_put_over_a_read: |it| it.both(
        |it| {
            let patch = Patch { counts: &[4, 1], near: &[1, 1], far: &[4, 1] };
            it.world.put_strided(&[1; 4], it.data.at(R1, 0), &patch)
        },
        |it| it.read(8),
    );
    RIGHT strided_put_beside_a_read: |it| it.both(
        |it| {
            let patch = Patch { counts: &[4, 1], near: &[1, 1], far: &[4, 1] };
            it.world.put_strided(&[1; 4], it.data.at(R1, 0), &patch)
        },
        |it| it.read(9),
    );
    RACY vector_put_over_a_read: |it| it.both(
        |it| {
            let runs = [Run { near: 0, far: 3, len: 1 }, Run { near: 1, far: 20, len: 2 }];
            it.world.put_vector(&[1; 3], it.data.at(R1, 0), &runs)
        },
        |it| it.read(21),
    );
    RIGHT vector_put_beside_a_read: |it| it.both(
        |it| {
            let runs = [Run { near: 0, far: 3, len: 1 }, Run { near: 1, far: 20, len: 2 }];
            it.world.put_vector(&[1; 3], it.data.at(R1, 0), &runs)
        },
        |it| it.read(22),
    );
    RIGHT broadcast_brings_its_data: |it| {
        let mut value = [it.world.rank().0];
        it.world.broadcast(R0, &mut value)?;
        it.read(value[0] as usize)
    };
}
