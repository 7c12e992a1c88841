//! Every operation of arrays against `ndarray`, over random shapes, distributions, patches and
//! numbers of ranks, on every fabric.

use crate::support::{Numbers, ensure, on_every_fabric, within_deadline};
use farside::array::ndarray::{ArrayD, Ix2, IxDyn, Slice};
use farside::array::{Area, Builder, Completion, Distribution};
use farside::fence::Style;
use farside::{Error, GlobalArray, Rank, Result, World};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    shape: Vec<usize>,
    distribution: Distribution,
    ghosts: Vec<usize>,
    ranks: u32,
    seed: u64,
}

fn cases(ranks_max: u32, extent_max: usize) -> impl Strategy<Value = Case> {
    let shape = (1usize..=7).prop_flat_map(move |dimensions| {
        let most = match dimensions {
            1..=2 => extent_max,
            3 => 6,
            4 => 4,
            _ => 3,
        };
        proptest::collection::vec(1..=most, dimensions)
    });
    (shape, 1..=ranks_max, any::<u64>(), 0usize..5).prop_map(|(shape, ranks, seed, which)| {
        let mut numbers = Numbers::new(seed);
        let mut below = |limit: usize| numbers.below(limit as u64) as usize;
        let dimensions = shape.len();
        // A grid of at most so many members.
        let mut grid = vec![1; dimensions];
        for _ in 0..3 {
            let at = below(dimensions);
            if grid.iter().product::<usize>() * 2 <= ranks as usize {
                grid[at] *= 2;
            }
        }
        let block: Vec<usize> = shape.iter().map(|&extent| 1 + below(extent)).collect();
        let starts = |(parts, &extent): (&usize, &usize)| -> Vec<usize> {
            let mut starts: Vec<usize> = (1..*parts).map(|part| part * extent / parts).collect();
            starts.insert(0, 0);
            starts
        };
        let distribution = match which {
            0 => Distribution::Regular,
            1 => Distribution::Grid(grid),
            2 => Distribution::Irregular(grid.iter().zip(&shape).map(starts).collect()),
            3 => Distribution::BlockCyclic(block),
            _ => Distribution::BlockCyclicGrid { block, grid },
        };
        let ghosts = (0..dimensions).map(|_| if which < 3 { below(3) } else { 0 }).collect();
        Case { shape, distribution, ghosts, ranks, seed }
    })
}

/// The same numbers on every rank.
fn values(shape: &[usize], numbers: &mut Numbers) -> ArrayD<f64> {
    ArrayD::from_shape_simple_fn(IxDyn(shape), || numbers.below(1000) as f64)
}

/// A random patch, perhaps empty.
fn patch(shape: &[usize], numbers: &mut Numbers) -> Vec<std::ops::Range<usize>> {
    let range = |&extent: &usize| {
        let low = numbers.below(extent as u64) as usize;
        low..low + numbers.below((extent - low + 1) as u64) as usize
    };
    shape.iter().map(range).collect()
}

fn part(array: &ArrayD<f64>, patch: &[std::ops::Range<usize>]) -> ArrayD<f64> {
    array.slice_each_axis(|axis| Slice::from(patch[axis.axis.index()].clone())).to_owned()
}

fn same(seen: &ArrayD<f64>, expected: &ArrayD<f64>, what: &str) -> Result<()> {
    ensure(seen == expected, || format!("{what}: {seen:?} is not {expected:?}"))
}

/// All operations on patches and elements, one after the other; all ranks know what must come out.
fn transfers(world: &World, case: &Case) -> Result<()> {
    let builder =
        Builder::new(&case.shape).distribution(case.distribution.clone()).ghosts(&case.ghosts);
    let a = builder.create::<f64>(world)?;
    let mut numbers = Numbers::new(case.seed);
    let mut oracle = ArrayD::<f64>::zeros(IxDyn(&case.shape));
    let mine = |step: usize| world.rank().index() == step % world.size() as usize;
    for step in 0..6 {
        let patch = patch(&case.shape, &mut numbers);
        let data = values(part(&oracle, &patch).shape(), &mut numbers);
        let mut view =
            oracle.slice_each_axis_mut(|axis| Slice::from(patch[axis.axis.index()].clone()));
        match step % 3 {
            0 => {
                view.assign(&data);
                if mine(step) {
                    a.put(&patch, data.view())?;
                }
            }
            1 => {
                // Everybody adds.
                view.scaled_add(0.5 * f64::from(world.size()), &data);
                a.accumulate(0.5, &patch, data.view())?;
            }
            _ => {
                // Data in another order in memory.
                view.assign(&data);
                if mine(step) {
                    let reversed = data.t().as_standard_layout().into_owned();
                    a.put(&patch, reversed.t())?;
                }
            }
        }
        let completions = [
            Completion::Combined,
            Completion::AllFence(Style::Acknowledged),
            Completion::AllFence(Style::Confirmed),
        ];
        a.sync_by(completions[step % 3])?;
        let patch = self::patch(&case.shape, &mut numbers);
        same(&a.get(&patch)?, &part(&oracle, &patch), "get")?;
        let mut into = ArrayD::zeros(part(&oracle, &patch).t().shape());
        a.get_into(&patch, into.view_mut().reversed_axes())?;
        same(&into.t().to_owned(), &part(&oracle, &patch), "get_into")?;
        a.sync()?;
    }
    elements(world, &a, &mut oracle, &mut numbers)?;
    same(&a.get(a.area())?, &oracle, "in the end")?;
    a.sync()?;
    a.free()
}

fn elements(
    world: &World,
    a: &GlobalArray<'_, f64>,
    oracle: &mut ArrayD<f64>,
    numbers: &mut Numbers,
) -> Result<()> {
    let index = |numbers: &mut Numbers| -> Vec<usize> {
        oracle.shape().iter().map(|&extent| numbers.below(extent as u64) as usize).collect()
    };
    let indices: std::collections::BTreeSet<Vec<usize>> = (0..9).map(|_| index(numbers)).collect();
    let indices: Vec<Vec<usize>> = indices.into_iter().collect();
    let numbers: Vec<f64> = indices.iter().map(|_| numbers.below(1000) as f64).collect();
    if world.rank() == Rank(0) {
        a.scatter(&indices, &numbers)?;
    }
    a.sync()?;
    a.scatter_accumulate(2.0, &indices, &numbers)?;
    for (index, number) in indices.iter().zip(&numbers) {
        oracle[&index[..]] = number + 2.0 * number * f64::from(world.size());
    }
    a.sync()?;
    let seen = a.gather(&indices)?;
    let expected: Vec<f64> = indices.iter().map(|index| oracle[&index[..]]).collect();
    ensure(seen == expected, || format!("gather: {seen:?} is not {expected:?}"))?;
    ensure(a.get_value(&indices[0])? == expected[0], || "get_value".into())?;
    let owner = a.owner(&indices[0])?;
    ensure(a.blocks_of(owner).any(|area| area.contains(&indices[0])), || {
        "the owner does not have it".into()
    })?;
    a.sync()?;
    if world.rank() == Rank(0) {
        a.put_value(&indices[0], -1.0)?;
    }
    oracle[&indices[0][..]] = -1.0;
    a.sync()
}

/// Patches beyond the ends, and borders.
fn periodic(world: &World, case: &Case) -> Result<()> {
    let builder =
        Builder::new(&case.shape).distribution(case.distribution.clone()).ghosts(&case.ghosts);
    let a = builder.create::<f64>(world)?;
    let mut numbers = Numbers::new(case.seed);
    let oracle = values(&case.shape, &mut numbers);
    if world.rank() == Rank(0) {
        a.put(a.area(), oracle.view())?;
    }
    a.sync()?;
    let wrapped = |index: &[isize]| -> f64 {
        let inside: Vec<usize> = index
            .iter()
            .zip(&case.shape)
            .map(|(at, &n)| at.rem_euclid(n as isize) as usize)
            .collect();
        oracle[&inside[..]]
    };
    let ranges: Vec<std::ops::Range<isize>> = case
        .shape
        .iter()
        .map(|&extent| {
            let start = numbers.below(3 * extent as u64) as isize - extent as isize;
            start
                ..start
                    + numbers.below(1 + extent as u64 * if case.shape.len() < 4 { 2 } else { 1 })
                        as isize
        })
        .collect();
    let seen = a.get_periodic(&ranges)?;
    for (at, &value) in seen.indexed_iter() {
        let index: Vec<isize> = ranges
            .iter()
            .enumerate()
            .map(|(dimension, range)| range.start + at[dimension] as isize)
            .collect();
        ensure(value == wrapped(&index), || format!("{index:?} of {ranges:?}: {value}"))?;
    }
    a.update_ghosts()?;
    if let (Some(block), Some(area)) =
        (a.own_with_ghosts()?, a.own_blocks().next()).clone_parts(a.own_blocks().count() == 1)
    {
        for (at, &value) in block.indexed_iter() {
            let index: Vec<isize> = (0..case.shape.len())
                .map(|d| area.low()[d] as isize + at[d] as isize - case.ghosts[d] as isize)
                .collect();
            ensure(value == wrapped(&index), || {
                format!("border at {index:?} of {area:?}: {value}")
            })?;
        }
    }
    a.sync()?;
    // Two copies written beyond the ends, and sums of them.
    let zero: Vec<std::ops::Range<isize>> =
        case.shape.iter().map(|&n| n as isize..2 * n as isize).collect();
    if world.rank() == Rank(0) {
        a.put_periodic(&zero, oracle.mapv(|value| value + 1.0).view())?;
    }
    a.sync()?;
    a.accumulate_periodic(1.0, &zero, oracle.view())?;
    a.sync()?;
    same(
        &a.get(a.area())?,
        &oracle.mapv(|value| value + 1.0 + value * f64::from(world.size())),
        "periodic sums",
    )?;
    a.sync()?;
    a.free()
}

/// Keeps the two parts together only if wanted.
trait CloneParts: Sized {
    fn clone_parts(self, wanted: bool) -> Self;
}

impl CloneParts for (Option<ArrayD<f64>>, Option<Area>) {
    fn clone_parts(self, wanted: bool) -> Self {
        if wanted { self } else { (None, None) }
    }
}

/// Whole arrays, distributed differently.
fn whole(world: &World, case: &Case) -> Result<()> {
    let a = Builder::new(&case.shape)
        .distribution(case.distribution.clone())
        .ghosts(&case.ghosts)
        .create::<f64>(world)?;
    let b = GlobalArray::<f64>::new(world, &case.shape)?;
    let c = a.like()?;
    let mut numbers = Numbers::new(case.seed);
    let (x, y) = (values(&case.shape, &mut numbers), values(&case.shape, &mut numbers));
    if world.rank() == Rank(0) {
        a.put(a.area(), x.view())?;
        b.put(b.area(), y.view())?;
    }
    a.sync()?;
    c.copy_from(&b)?;
    same(&c.get(c.area())?, &y, "copy_from")?;
    c.add_from(2.0, &a, -1.0, &c)?;
    same(&c.get(c.area())?, &(&x * 2.0 - &y), "add_from")?;
    c.scale(3.0)?;
    same(&c.get(c.area())?, &((&x * 2.0 - &y) * 3.0), "scale")?;
    ensure(a.dot(&b)? == (&x * &y).sum(), || "dot".into())?;
    ensure(a.sum()? == x.sum(), || "sum".into())?;
    let fold = |pick: fn(f64, f64) -> f64| x.iter().copied().reduce(pick).unwrap_or(f64::NAN);
    ensure((a.min()?, a.max()?) == (fold(f64::min), fold(f64::max)), || "min and max".into())?;
    let (index, value) = a.select(|one, other| one > other)?;
    let first = x
        .indexed_iter()
        .find(|(_, element)| **element == value)
        .map(|(at, _)| (0..x.ndim()).map(|d| at[d]).collect::<Vec<_>>());
    ensure(value == fold(f64::max) && first == Some(index.clone()), || {
        format!("select: {index:?}")
    })?;
    c.fill(7.0)?;
    ensure(c.sum()? == 7.0 * x.len() as f64, || "fill".into())?;
    let reversed: Vec<usize> = case.shape.iter().rev().copied().collect();
    let t = GlobalArray::<f64>::new(world, &reversed)?;
    t.transpose_from(&a)?;
    same(&t.get(t.area())?, &x.t().to_owned(), "transpose")?;
    if case.shape.len() == 2 {
        let product = Builder::new(&[case.shape[0]; 2]).create::<f64>(world)?;
        product.fill(1.0)?;
        product.multiply_from(2.0, &a, &t, 3.0)?;
        let matrix = x
            .clone()
            .into_dimensionality::<Ix2>()
            .map_err(|error| Error::Program(error.to_string()))?;
        same(
            &product.get(product.area())?,
            &(matrix.dot(&matrix.t()) * 2.0 + 3.0).into_dyn(),
            "multiply",
        )?;
        product.sync()?;
        product.free()?;
    }
    let mut visited = 0;
    a.for_each_own_with(&b, |_, mine, theirs| visited += mine.iter().zip(theirs.iter()).count())?;
    let mut all = [visited];
    world.all_reduce(&mut all, |a, b| a + b)?;
    ensure(all[0] == x.len(), || {
        format!("{} elements were visited instead of {}", all[0], x.len())
    })?;
    a.sync()?;
    t.free()?;
    c.free()?;
    b.free()?;
    a.free()
}

fn run(case: Case, test: fn(&World, &Case) -> Result<()>) {
    let which = case.seed % 5;
    within_deadline(crate::support::DEADLINE, move || {
        if which == 3 {
            let topology = if case.ranks.is_multiple_of(2) { "node:2" } else { "node:1" };
            return crate::support::simulated(case.ranks, Some(topology), move |world| {
                test(world, &case)
            });
        }
        let local = farside::Local::new(case.ranks).expect("the environment is in order");
        let local = match which {
            0 => local,
            4 => local.nodes(2.min(case.ranks)),
            1 => local.topology(if case.ranks.is_multiple_of(2) { "node:2" } else { "node:1" }),
            _ => {
                let counts = farside::fabric::counting::Counts::new(case.ranks);
                local.decorate(move |fabric| counts.over(fabric))
            }
        };
        if let Err(error) = local.run(|world| test(world, &case)) {
            panic!("{case:?}: {error}");
        }
    });
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: if crate::support::is_long() { 20 * cases } else { cases },
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn patches_and_elements(case in cases(9, 17)) {
        run(case, transfers);
    }

    #[test]
    fn beyond_the_ends(case in cases(9, 9)) {
        run(case, periodic);
    }

    #[test]
    fn whole_arrays(case in cases(9, 13)) {
        run(case, whole);
    }
}

fn example(ranks: u32) -> Case {
    let distribution = Distribution::BlockCyclic(vec![2, 3]);
    Case { shape: vec![7, 8], distribution, ghosts: vec![0, 0], ranks, seed: 3 }
}

#[test]
fn patches_on_every_fabric() {
    on_every_fabric(|world| {
        transfers(world, &example(world.size()))?;
        let blocks = Case {
            distribution: Distribution::Regular,
            ghosts: vec![1, 2],
            ..example(world.size())
        };
        transfers(world, &blocks)?;
        periodic(world, &blocks)
    });
}

#[test]
fn whole_arrays_on_every_fabric() {
    on_every_fabric(|world| whole(world, &example(world.size())));
}

#[test]
fn a_counter_is_shared() {
    on_every_fabric(|world| {
        let counter = GlobalArray::<i64>::new(world, &[3])?;
        let mut seen: Vec<i64> =
            (0..5).map(|_| counter.read_increment(&[1], 2)).collect::<Result<_>>()?;
        seen.sort_unstable();
        counter.sync()?;
        let all = world.all_gather(&seen)?;
        let distinct: std::collections::BTreeSet<&i64> = all.iter().collect();
        ensure(distinct.len() == all.len(), || format!("{all:?}"))?;
        ensure(counter.get_value(&[1])? == 10 * i64::from(world.size()), || "the sum".into())?;
        counter.sync()?;
        counter.free()
    });
}

#[test]
fn arrays_of_a_team() {
    on_every_fabric(|world| {
        let half =
            world.split(Some(u64::from(world.rank().0 % 2)), 0)?.expect("everybody has a colour");
        let a = Builder::new(&[10, 3]).create_on::<f32>(&half)?;
        a.fill(world.rank().0 as f32 % 2.0)?;
        a.accumulate_slice(1.0, [0..1, 0..1], &[1.0])?;
        let expected = 30.0 * (world.rank().0 as f32 % 2.0) + half.size() as f32;
        ensure(a.sum()? == expected, || "the sum of a team's array".into())?;
        ensure(a.blocks().all(|(rank, _)| half.members().contains(&rank)), || {
            "a stranger has a block".into()
        })?;
        a.free()?;
        half.free()
    });
}

#[test]
fn own_blocks_are_memory() {
    farside::local(4, |world| {
        let a = Builder::new(&[6, 6]).ghosts(&[1, 1]).create::<i32>(world)?;
        a.sync()?;
        for (number, area) in a.own_blocks().enumerate() {
            // SAFETY: each rank touches its own blocks only, between two syncs.
            let mut block = unsafe { a.own_view_mut(number)? };
            block.indexed_iter_mut().for_each(|(at, value)| {
                *value = ((area.low()[0] + at[0]) * 6 + area.low()[1] + at[1]) as i32
            });
        }
        a.sync()?;
        let all = a.get(a.area())?;
        ensure(all.iter().copied().eq(0..36), || format!("{all:?}"))?;
        // SAFETY: nobody writes any more.
        let own = unsafe { a.own_view(0)? };
        ensure(own.shape() == [3, 3], || format!("{:?}", own.shape()))?;
        // SAFETY: as above.
        ensure(unsafe { a.own_view(1) }.is_err(), || "a block that is not there".into())?;
        a.sync()?;
        a.free()
    })
    .unwrap();
}

#[test]
fn what_does_not_fit_is_named() {
    farside::local(2, |world| {
        let a = GlobalArray::<f64>::new(world, &[4, 5])?;
        let says = |result: Result<()>, parts: &[&str]| {
            let text = result.err().map_or("nothing".to_owned(), |error| error.to_string());
            ensure(parts.iter().all(|part| text.contains(part)), || {
                format!("{text:?} does not say {parts:?}")
            })
        };
        says(a.get(0..4).map(drop), &["dimensions"])?;
        says(a.get([0..5, 0..1]).map(drop), &["0..5", "dimension 0", "4"])?;
        #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
        says(a.get([3..1, 0..1]).map(drop), &["3..1"])?;
        says(a.put_slice([0..2, 0..2], &[1.0; 3]), &["4 and 3"])?;
        says(
            a.put([0..2, 0..2], ArrayD::<f64>::zeros(IxDyn(&[2, 3])).view()),
            &["[2, 3]", "[2, 2]"],
        )?;
        says(a.get_value(&[4, 0]).map(drop), &["[4, 0]", "[4, 5]"])?;
        says(a.scatter(&[[0, 0]], &[]), &["1 and 0"])?;
        let b = GlobalArray::<f64>::new(world, &[5, 5])?;
        says(a.copy_from(&b), &["[5, 5]", "[4, 5]"])?;
        says(a.multiply_from(1.0, &a, &a, 0.0), &["do not multiply"])?;
        says(a.transpose_from(&a), &["transpose"])?;
        says(GlobalArray::<f64>::new(world, &[1; 8]).map(drop), &["8 dimensions"])?;
        says(a.read_npy("/nonexistent.npy"), &["/nonexistent.npy"])?;
        b.free()?;
        a.free()
    })
    .unwrap();
}

#[test]
fn numpy_reads_what_is_written() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a.npy");
    let bytes: Vec<f64> = (0..42).map(f64::from).collect();
    farside::local(3, |world| {
        let cyclic = Distribution::BlockCyclic(vec![2, 2, 1]);
        let a = Builder::new(&[3, 7, 2]).distribution(cyclic).create::<f64>(world)?;
        if world.rank() == Rank(1) {
            a.put_slice(a.area(), &bytes)?;
        }
        a.save_npy(&path)?;
        let b = GlobalArray::<f64>::load_npy(world, &path)?;
        let seen = b.get(b.area())?;
        ensure(seen.iter().eq(bytes.iter()), || format!("{seen:?}"))?;
        let wrong = GlobalArray::<f32>::load_npy(world, &path).map(drop);
        let text = wrong.unwrap_err().to_string();
        ensure(text.contains("<f8") || text.contains("has failed"), || text.clone())?;
        b.sync()?;
        b.free()?;
        a.free()
    })
    .unwrap();
    // The format is fixed: a magic, a header that ends a multiple of 64, and then the elements in
    // order.
    let file = std::fs::read(&path).unwrap();
    let data = usize::from(u16::from_le_bytes([file[8], file[9]])) + 10;
    assert_eq!((data % 64, file.len()), (0, data + 42 * 8));
    let elements: Vec<f64> =
        file[data..].as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
    assert_eq!(elements, bytes);
}
