//! The transposition and the topological sort of a sparse matrix, which is dealt out by rows.

use farside::{Aggregator, Result, World};

use super::{FEWER, Rate, check, home, numbers, timed};

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

/// Transposes a matrix twice.
pub(super) fn transpose(world: &World, operations: u64) -> Result<Vec<Rate>> {
    let matrix = matrix(world, operations / 8, 7);
    let mut items = Aggregator::new(world)?;
    let mut back = Matrix::new();
    let aggregated = timed(world, ("transpose", "aggregated"), 2 * matrix.len() as u64, || {
        let columns = transposed(world, &mut items, &matrix)?;
        back = transposed(world, &mut items, &columns)?;
        Ok(())
    })?;
    let mut expected = matrix;
    expected.sort_unstable();
    back.sort_unstable();
    check(back == expected, "the matrix that was transposed twice")?;
    items.free()?;
    Ok(vec![aggregated])
}

/// Finds the triangle in a matrix: a row with one element left is the next one, and its column is
/// taken from all other rows. Each row and column gets a level; sorted by it, the matrix is
/// triangular.
pub(super) fn sort(world: &World, operations: u64) -> Result<Vec<Rate>> {
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
    let aggregated = timed(world, ("sort", "aggregated"), matrix.len() as u64, || {
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
    check_levels(world, &matrix, &row_levels, &column_levels)?;
    Ok(vec![aggregated])
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
