//! Containers at their edges: an array that is an operand of itself, numbers that are none, and
//! maps through which many keys pass.

use crate::support::{ensure, on_every_fabric, within_deadline};
use farside::array::{Builder, Distribution};
use farside::map::{Options, Synchronization};
use farside::{Error, GlobalArray, HashMap, Local, Result, World};

const SIDE: usize = 6;

/// A square of which each element says where it is, in regular and in scattered blocks.
fn squares(world: &World) -> Result<[GlobalArray<'_, i64>; 2]> {
    let cyclic = Distribution::BlockCyclic(vec![2, 3]);
    let arrays = [
        GlobalArray::new(world, &[SIDE, SIDE])?,
        Builder::new(&[SIDE, SIDE]).distribution(cyclic).create(world)?,
    ];
    for array in &arrays {
        if world.rank().0 == 0 {
            for at in 0..SIDE * SIDE {
                array.put_value(&[at / SIDE, at % SIDE], at as i64)?;
            }
        }
        array.sync()?;
    }
    Ok(arrays)
}

fn is(array: &GlobalArray<'_, i64>, expected: impl Fn(usize, usize) -> i64) -> Result<()> {
    let all = array.get([.., ..])?;
    array.sync()?;
    for at in 0..SIDE * SIDE {
        let (i, j) = (at / SIDE, at % SIDE);
        let (seen, expected) = (all[[i, j]], expected(i, j));
        ensure(seen == expected, || format!("{seen} instead of {expected} at {i}, {j}"))?;
    }
    Ok(())
}

#[test]
fn an_array_is_the_transpose_and_the_product_of_itself() {
    on_every_fabric(|world| {
        let number = |i: usize, j: usize| (i * SIDE + j) as i64;
        for a in squares(world)? {
            a.transpose_from(&a)?;
            is(&a, |i, j| number(j, i))?;
            a.transpose_from(&a)?;
            a.multiply_from(1, &a, &a, 2)?;
            let product = |i, j| {
                (0..SIDE).map(|k| number(i, k) * number(k, j)).sum::<i64>() + 2 * number(i, j)
            };
            is(&a, product)?;
            a.free()?;
        }
        Ok(())
    });
}

#[test]
fn the_smallest_and_the_largest_number_are_numbers() {
    on_every_fabric(|world| {
        for places in [&[0][..], &[3], &[7], &[0, 1, 2, 7]] {
            let a = GlobalArray::<f64>::new(world, &[8])?;
            if world.rank().0 == 0 {
                for at in 0..8 {
                    let value = if places.contains(&at) { f64::NAN } else { 1.0 + at as f64 };
                    a.put_value(&[at], value)?;
                }
            }
            a.sync()?;
            let numbers = (0..8).filter(|at| !places.contains(at)).map(|at| 1.0 + at as f64);
            let smallest = numbers.clone().fold(f64::INFINITY, f64::min);
            let largest = numbers.fold(0.0, f64::max);
            let seen = (a.min()?, a.max()?);
            ensure(seen == (smallest, largest), || format!("{seen:?} with NaN at {places:?}"))?;
            a.fill(f64::NAN)?;
            ensure(a.min()?.is_nan() && a.max()?.is_nan(), || "a number among none".into())?;
            a.free()?;
        }
        Ok(())
    });
}

/// Many keys pass through a map, few at a time.
fn churn(world: &World, synchronization: &Synchronization, batch: usize) -> Result<()> {
    const LIVE: u64 = 600;
    let options = Options {
        synchronization: synchronization.clone(),
        slots: 64,
        reserve_bytes: Some(64 << 10),
    };
    let map = HashMap::<u64, u64>::with(&world.team(), &options)?;
    let me = u64::from(world.rank().0);
    let key = |number: u64| number * u64::from(world.size()) + me;
    for first in (0..5_000 / u64::from(world.size())).step_by(batch) {
        let numbers = first..first + batch as u64;
        let entries: Vec<(u64, u64)> = numbers.map(|number| (key(number), number)).collect();
        let full = |error: &Error| eprintln!("{error} at {first}: {:?}", map.len(world));
        match entries[..] {
            [(key, value)] => drop(map.insert(world, key, value).inspect_err(full)?),
            _ => drop(map.insert_all(world, &entries).inspect_err(full)?),
        }
        let mine = LIVE / u64::from(world.size());
        for number in (first + batch as u64).saturating_sub(mine + batch as u64)
            ..(first + batch as u64).saturating_sub(mine)
        {
            let seen = map.remove(world, key(number))?;
            ensure(seen == Some(number), || format!("{seen:?} instead of {number}"))?;
        }
    }
    world.barrier()?;
    let kept: usize = map.own_entries(world)?.len();
    let mut all = [kept];
    world.all_reduce(&mut all, |a, b| a + b)?;
    ensure(all == [map.len(world)?], || format!("{all:?} entries, {:?}", map.len(world)))?;
    world.barrier()?;
    map.free(world)
}

#[test]
fn a_map_through_which_many_keys_pass_does_not_fill_up() {
    for synchronization in Synchronization::all() {
        for (ranks, batch) in [(1, 1), (1, 16), (3, 1)] {
            let synchronization = synchronization.clone();
            within_deadline(crate::support::DEADLINE, move || {
                Local::new(ranks).unwrap().run(|world| churn(world, &synchronization, batch))
            })
            .unwrap();
        }
    }
}
