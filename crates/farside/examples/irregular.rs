//! Programs of many small operations on memory of other ranks, with and without an aggregator: a
//! histogram, a gather, the transposition of a sparse matrix, and a topological sort. Each result
//! is checked.
//!
//! ```console
//! $ cargo build --release -p farside --example irregular
//! $ farside run -n 2 --nodes 2 target/release/examples/irregular
//! ```
//!
//! The number of operations of each rank may follow.

use std::time::Instant;

use farside::{Aggregator, Error, Rank, Result, World};
use farside_fabric::random::SplitMix;

/// Words of each rank's part of a table.
const WORDS: u64 = 1 << 16;
/// One in so many operations is done without an aggregator, which takes longer.
const FEWER: u64 = 16;

/// Numbers that are the same in every run.
fn numbers(world: &World, purpose: u64) -> SplitMix {
    SplitMix::new(u64::from(world.rank().0) << 32 | purpose)
}

/// The rank and the place there of element `index` of a table.
fn home(world: &World, index: u64) -> (Rank, u64) {
    let ranks = u64::from(world.size());
    (Rank((index % ranks) as u32), index / ranks)
}

fn check(is_right: bool, what: &str) -> Result<()> {
    if is_right { Ok(()) } else { Err(Error::Program(format!("{what} is wrong"))) }
}

fn sum(world: &World, number: u64) -> Result<u64> {
    let mut sum = [number];
    world.all_sum(&mut sum)?;
    Ok(sum[0])
}

/// Runs a program between two barriers, and says how many operations a second all ranks have done.
fn measured(
    world: &World,
    name: &str,
    operations: u64,
    program: impl FnOnce() -> Result<()>,
) -> Result<f64> {
    world.barrier()?;
    let begin = Instant::now();
    program()?;
    world.barrier()?;
    let rate = sum(world, operations)? as f64 / begin.elapsed().as_secs_f64() / 1e6;
    if world.rank() == Rank(0) {
        println!("{name:<32} {rate:>9.2} million a second");
    }
    Ok(rate)
}

/// Counts random numbers, by adding to words of other ranks.
fn histogram(world: &World, operations: u64) -> Result<()> {
    let all = WORDS * u64::from(world.size());
    let table = world.window::<u64>(WORDS as usize)?;
    let mut random = numbers(world, 1);
    let single = operations / FEWER;
    measured(world, "histogram, one by one", single, || {
        for _ in 0..single {
            let (rank, at) = home(world, random.below(all));
            world.add(table.at(rank, at as usize), 1)?;
        }
        world.sync()
    })?;
    let mut counts = table.own().to_vec()?;
    check(sum(world, counts.iter().sum())? == sum(world, single)?, "the histogram")?;
    let mut items = Aggregator::<u32>::new(world)?;
    measured(world, "histogram, aggregated", operations, || {
        items.run(
            |out| {
                (0..operations).try_for_each(|_| {
                    let (rank, at) = home(world, random.below(all));
                    out.push(rank, at as u32)
                })
            },
            |_, _, arrived| {
                arrived.iter().for_each(|&at| counts[at as usize] += 1);
                Ok(())
            },
        )
    })?;
    let total = sum(world, counts.iter().sum())?;
    check(total == sum(world, single + operations)?, "the aggregated histogram")?;
    items.free()?;
    table.free(world)
}

/// Reads random elements of a table.
fn gather(world: &World, operations: u64) -> Result<()> {
    let all = WORDS * u64::from(world.size());
    let table = world.window::<u64>(WORDS as usize)?;
    let value = |index: u64| index.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8;
    let (me, ranks) = (u64::from(world.rank().0), u64::from(world.size()));
    let own: Vec<u64> = (0..WORDS).map(|at| value(at * ranks + me)).collect();
    world.put(&own, table.at(world.rank(), 0))?;
    world.sync()?;
    let mut random = numbers(world, 2);
    let wanted: Vec<u64> = (0..operations).map(|_| random.below(all)).collect();
    let single = &wanted[..(operations / FEWER) as usize];
    measured(world, "gather, one by one", single.len() as u64, || {
        for &index in single {
            let (rank, at) = home(world, index);
            check(world.get_value(table.at(rank, at as usize))? == value(index), "an element")?;
        }
        Ok(())
    })?;
    // A question has where the answer goes and which element is wanted, an answer its value.
    let mut items = Aggregator::<[u64; 2]>::new(world)?;
    let mut found = vec![0; wanted.len()];
    const IS_ANSWER: u64 = 1 << 63;
    measured(world, "gather, aggregated", operations, || {
        items.run(
            |out| {
                wanted.iter().enumerate().try_for_each(|(to, &index)| {
                    let (rank, at) = home(world, index);
                    out.push(rank, [to as u64, at])
                })
            },
            |out, from, arrived| {
                for &[to, at] in arrived {
                    match to & IS_ANSWER {
                        0 => out.push(from, [to | IS_ANSWER, own[at as usize]])?,
                        _ => found[(to & !IS_ANSWER) as usize] = at,
                    }
                }
                Ok(())
            },
        )
    })?;
    let is_right = wanted.iter().zip(&found).all(|(&index, &found)| value(index) == found);
    check(is_right, "the aggregated gather")?;
    items.free()?;
    table.free(world)
}

/// The positions of the non-zero elements of a square matrix, as row and column, in any order. Each
/// rank has those of its rows.
type Matrix = Vec<[u32; 2]>;

/// A matrix of `rows` rows for each rank that becomes triangular if its rows and columns are
/// permuted: row and column number `k` of the triangle are `mixed(k)` and `k` here.
fn matrix(world: &World, rows: u64, per_row: u64) -> Matrix {
    let (size, mut random) = (rows * u64::from(world.size()), numbers(world, 3));
    let mut matrix = Matrix::new();
    for triangle in 0..size {
        let row = mixed(triangle, size);
        if home(world, row).0 != world.rank() {
            continue;
        }
        let mut columns: Vec<u64> =
            (0..per_row).map(|_| triangle + random.below(size - triangle)).collect();
        columns.push(triangle);
        columns.sort_unstable();
        columns.dedup();
        matrix.extend(columns.into_iter().map(|column| [row as u32, column as u32]));
    }
    matrix
}

/// A permutation of the numbers below `size`.
fn mixed(number: u64, size: u64) -> u64 {
    let odd = (0..).map(|step| 7 + 2 * step).find(|&odd| gcd(odd, size) == 1).unwrap_or(1);
    number * odd % size
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Sends each element of a matrix to the owner of its column, which has it as row.
fn transposed(
    world: &World,
    items: &mut Aggregator<'_, [u32; 2]>,
    matrix: &Matrix,
) -> Result<Matrix> {
    let mut found = Matrix::new();
    items.run(
        |out| {
            matrix.iter().try_for_each(|&[row, column]| {
                out.push(home(world, column.into()).0, [column, row])
            })
        },
        |_, _, arrived| {
            found.extend_from_slice(arrived);
            Ok(())
        },
    )?;
    Ok(found)
}

fn transpose(world: &World, operations: u64) -> Result<()> {
    let matrix = matrix(world, operations / 8, 7);
    let mut items = Aggregator::new(world)?;
    let mut back = Matrix::new();
    measured(world, "transpose twice, aggregated", 2 * matrix.len() as u64, || {
        let columns = transposed(world, &mut items, &matrix)?;
        back = transposed(world, &mut items, &columns)?;
        Ok(())
    })?;
    let mut expected = matrix;
    expected.sort_unstable();
    back.sort_unstable();
    check(back == expected, "the matrix that was transposed twice")?;
    items.free()
}

/// Finds the triangle in a matrix: a row with one element left is the next one, and its column is
/// taken from all other rows. Each row and column gets a level; sorted by it, the matrix is
/// triangular.
fn sort(world: &World, operations: u64) -> Result<()> {
    let matrix = matrix(world, operations / 8, 3);
    let rows = (operations / 8) as usize;
    let at = |number: u32| home(world, number.into()).1 as usize;
    let owner = |number: u32| home(world, number.into()).0;
    let mut columns = vec![Vec::new(); rows];
    let mut items = Aggregator::new(world)?;
    for [column, row] in transposed(world, &mut items, &matrix)? {
        columns[at(column)].push(row);
    }
    items.free()?;
    // How many elements a row has left, and the sum of their columns.
    let mut left = vec![(0u32, 0u32); rows];
    for &[row, column] in &matrix {
        let (count, sum) = &mut left[at(row)];
        (*count, *sum) = (*count + 1, sum.wrapping_add(column));
    }
    let (mut row_levels, mut column_levels) = (vec![0u32; rows], vec![0u32; rows]);
    // What is to be done to a column (0), to a row (1) or to the row of the column itself (2), its
    // number, the other's number, and the level.
    let mut steps = Aggregator::<[u32; 4]>::new(world)?;
    let first: Vec<[u32; 2]> = matrix
        .iter()
        .filter(|[row, _]| left[at(*row)].0 == 1)
        .map(|&[row, column]| [row, column])
        .collect();
    measured(world, "topological sort, aggregated", matrix.len() as u64, || {
        steps.run(
            |out| {
                first
                    .iter()
                    .try_for_each(|&[row, column]| out.push(owner(column), [0, column, row, 1]))
            },
            |out, _, arrived| {
                for &[what, number, other, level] in arrived {
                    if what == 0 {
                        column_levels[at(number)] = level;
                        for &row in &columns[at(number)] {
                            // The row that the column belongs to learns its level, too.
                            out.push(
                                owner(row),
                                [1 + u32::from(row == other), row, number, level],
                            )?;
                        }
                        continue;
                    }
                    let row = at(number);
                    row_levels[row] = row_levels[row].max(level);
                    if what == 1 {
                        let (count, sum) = &mut left[row];
                        (*count, *sum) = (*count - 1, sum.wrapping_sub(other));
                        if *count == 1 {
                            let next = row_levels[row] + 1;
                            out.push(owner(*sum), [0, *sum, number, next])?;
                        }
                    }
                }
                Ok(())
            },
        )
    })?;
    steps.free()?;
    check_levels(world, &matrix, &row_levels, &column_levels)
}

/// Looks, for some elements of a matrix, whether the column comes before the row.
fn check_levels(world: &World, matrix: &Matrix, rows: &[u32], columns: &[u32]) -> Result<()> {
    check(columns.iter().all(|&level| level > 0), "the level of a column")?;
    let levels = world.window::<u32>(columns.len())?;
    world.put(columns, levels.at(world.rank(), 0))?;
    world.sync()?;
    for &[row, column] in matrix.iter().step_by(FEWER as usize) {
        let (owner, at) = home(world, column.into());
        let level = world.get_value(levels.at(owner, at as usize))?;
        let row = rows[home(world, row.into()).1 as usize];
        check(level <= row, "the order of a row and a column")?;
    }
    levels.free(world)
}

#[farside::main]
fn main(world: &World) -> Result<()> {
    let operations = match std::env::args().nth(1) {
        None => 1 << 20,
        Some(number) => number.parse().ok().filter(|number| *number >= 64).ok_or_else(|| {
            Error::Program(format!("{number:?} is no number of operations: 64 or more"))
        })?,
    };
    histogram(world, operations)?;
    gather(world, operations)?;
    transpose(world, operations)?;
    sort(world, operations)
}
