//! Aggregators on threads, on pretended nodes and on processes' fabrics' own paths: every item
//! arrives once and in order, whatever the packets.

use std::collections::HashMap;

use farside::aggregator::Packing;
use farside::{Aggregator, Local, Rank, Result, World};
use proptest::prelude::*;

/// Items that each rank pushes, as targets; a handler passes an item on as often as its `left`
/// says, to the next rank.
fn scatter(world: &World, packing: Packing, targets: &[Vec<u32>], left: u32) -> Result<()> {
    let (me, ranks) = (world.rank(), world.size());
    let mut items = Aggregator::<[u32; 3]>::packed(world, packing)?;
    let mut last: HashMap<(Rank, u32), u32> = HashMap::new();
    let mut handled = 0u64;
    for _ in 0..2 {
        last.clear();
        items.run(
            |out| {
                for (number, &to) in targets[me.index()].iter().enumerate() {
                    out.push(Rank(to % ranks), [number as u32, left, me.0])?;
                }
                Ok(())
            },
            |out, from, arrived| {
                for &[number, left, by] in arrived {
                    handled += 1;
                    // Of one origin's own items to one rank, each is later than the one before.
                    if from.0 == by {
                        let before = last.insert((from, left), number);
                        assert!(before.is_none_or(|before| before < number), "{from} {number}");
                    }
                    if left > 0 {
                        out.push(Rank((me.0 + 1) % ranks), [number, left - 1, by])?;
                    }
                }
                Ok(())
            },
        )?;
    }
    let mut total = [handled];
    world.all_sum(&mut total)?;
    let pushed: usize = targets.iter().map(Vec::len).sum();
    assert_eq!(total[0], 2 * pushed as u64 * u64::from(left + 1));
    items.free()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_item_is_handled_once(
        targets in prop::collection::vec(prop::collection::vec(0u32..4, 0..200), 4),
        items in 1usize..7,
        packets in 1usize..4,
        left in 0u32..3,
        nodes in 1u32..3,
    ) {
        let packing = Packing { items, packets };
        let local = Local::new(4).unwrap().topology(&format!("node:{nodes}"));
        local.run(|world| scatter(world, packing, &targets, left)).unwrap();
    }
}

#[test]
fn packets_go_past_the_end_of_their_numbers() {
    let packing = Packing { items: 2, packets: 3 };
    farside::local(2, |world| {
        let mut items = Aggregator::<u64>::packed(world, packing)?;
        items.renumber((1 << 32) - 5)?;
        let (mut sum, other) = (0, Rank(1 - world.rank().0));
        items.run(
            |out| (0..100).try_for_each(|number| out.push(other, number)),
            |_, _, arrived| {
                sum += arrived.iter().sum::<u64>();
                Ok(())
            },
        )?;
        assert_eq!(sum, 4950);
        items.free()
    })
    .unwrap();
}

#[test]
fn a_failed_closure_fails_on_its_rank_alone() {
    farside::local(3, |world| {
        let mut items = Aggregator::<u32>::packed(world, Packing { items: 1, packets: 1 })?;
        let (me, mut handled) = (world.rank(), 0);
        let run = items.run(
            |out| {
                (0..5).try_for_each(|number| out.push(Rank((me.0 + 1) % 3), number))?;
                match me.0 {
                    0 => Err(farside::Error::Program("enough".into())),
                    _ => Ok(()),
                }
            },
            |_, _, arrived| {
                handled += arrived.len();
                match me.0 {
                    2 => Err(farside::Error::Program("too much".into())),
                    _ => Ok(()),
                }
            },
        );
        let said = run.err().map(|error| error.to_string()).unwrap_or_default();
        let expected = ["enough", "", "too much"][me.index()];
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
        assert_eq!(handled, if me.0 == 2 { 1 } else { 5 });
        // It can be used again.
        items.run(|out| out.push(me, 7), |_, _, _| Ok(()))?;
        items.free()
    })
    .unwrap();
}

/// The program catches the panic and goes on; the others must not wait for that rank's items.
#[test]
fn a_panic_that_is_caught_fails_the_run_of_all() {
    farside::local(3, |world| {
        let mut items = Aggregator::<u32>::packed(world, Packing { items: 1, packets: 1 })?;
        let me = world.rank();
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            items.run(
                |out| (0..5).try_for_each(|number| out.push(Rank((me.0 + 1) % 3), number)),
                |_, _, _| match me.0 {
                    0 => panic!("enough"),
                    _ => Ok(()),
                },
            )
        }));
        match me.0 {
            0 => assert!(run.is_err()),
            _ => {
                let said = run.expect("the others go on").unwrap_err().to_string();
                assert!(said.contains("rank 0"), "{said}");
            }
        }
        assert!(items.run(|_| Ok(()), |_, _, _| Ok(())).is_err());
        items.free()
    })
    .unwrap();
}

#[test]
fn what_cannot_be_is_refused() {
    farside::local(2, |world| {
        for packing in [Packing { items: 0, packets: 1 }, Packing { items: 1, packets: 0 }] {
            let refused = Aggregator::<u8>::packed(world, packing).err().map(|e| e.to_string());
            assert!(refused.is_some_and(|said| said.contains("packets of 1 to")));
        }
        let mut items = Aggregator::<u8>::new(world)?;
        assert_eq!(items.packing(), Packing { items: 32 << 10, packets: 4 });
        let said = std::cell::RefCell::new(String::new());
        items.run(
            |out| {
                *said.borrow_mut() = out.push(Rank(2), 1).unwrap_err().to_string();
                Ok(())
            },
            |_, _, _| Ok(()),
        )?;
        assert!(said.borrow().contains("rank 2"), "{}", said.borrow());
        items.free()
    })
    .unwrap();
}
