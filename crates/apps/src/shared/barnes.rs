//! Bodies that attract each other, by the method of Barnes and Hut: bodies far away act together,
//! as one.
//!
//! The bodies are shared. Each rank builds a tree of all of them in its own memory, and moves those
//! that are its part: the same ones in every step, or a zone of the tree that has its part of the
//! cost, as in SPLASH. How far the bodies reach is found under a lock.
//!
//! That cells are private, that zones are used, and that ranks meet after they have built the tree,
//! computed the forces and moved the bodies is how Lu, Dwarkadas, Cox and Zwaenepoel describe the
//! program for TreadMarks (Message Passing Versus Distributed Shared Memory on Networks of
//! Workstations, Supercomputing 1995, section 3.9).

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Plain, Result};
use farside_fabric::random::SplitMix;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Kernel, Machine, Options, part, picture};

/// Bodies whose distance is this many times the size of their cell act together.
const THETA: f64 = 1.0;
const SOFTENING: f64 = 0.05;
const STEP: f64 = 0.025;
/// Operations for each body that acts on another.
const FLOPS: usize = 20;
/// Cells do not become smaller than this part of all: bodies at one place would be divided for
/// ever.
const DEPTH: u32 = 48;
const LOCK: u32 = 0;

/// A body, as ranks share it.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Body {
    place: [f64; 3],
    speed: [f64; 3],
    pull: [f64; 3],
    mass: f64,
    /// How many others acted on it.
    cost: f64,
    number: f64,
}

/// What all ranks use of a body.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Point {
    place: [f64; 3],
    mass: f64,
}

impl From<&Body> for Point {
    fn from(body: &Body) -> Point {
        Point { place: body.place, mass: body.mass }
    }
}

fn points_of(bodies: &[Body]) -> Vec<Point> {
    bodies.iter().map(Point::from).collect()
}

pub(super) struct Barnes {
    count: usize,
    steps: usize,
    /// Whether bodies are dealt out by cost.
    has_zones: bool,
    /// Whether forces are shared as soon as they are known, as in the paper. Nobody uses those of
    /// others, and some load them at that moment, with the rest of a body: that is a race.
    is_published: bool,
    bodies: Option<Shared<Body>>,
}

impl Barnes {
    pub(super) fn new(
        size: &[usize],
        steps: usize,
        has_zones: bool,
        is_published: bool,
    ) -> Result<Barnes> {
        let [count] = Options::check_size("barnes", size, 1)?;
        Ok(Barnes { count, steps, has_zones, is_published, bodies: None })
    }

    /// Computes the forces of all bodies on some of them, each with its number.
    fn pull<'b>(
        &self,
        machine: &mut Machine<'_, '_>,
        all: &[Point],
        reaches_to: f64,
        own: impl Iterator<Item = (&'b mut Body, usize)>,
    ) {
        let tree = Tree::new(all, reaches_to);
        machine.computes(FLOPS * self.count);
        let acted: usize = own.map(|(body, number)| tree.pull(all, number, body)).sum();
        machine.computes(FLOPS * acted);
    }

    /// A rank with the same bodies in every step. What others use of them lies apart from what
    /// only their own rank does, so that a third of it moves.
    fn run_points(&self, machine: &mut Machine<'_, '_>, shared: Places) -> Result<()> {
        let points = machine.dsm.alloc_at::<Point>(self.count, Placement::Pages)?;
        let mine = machine.part(self.count);
        let mut own: Vec<Body> = mine.clone().map(|number| self.first(number)).collect();
        machine.dsm.view_mut(points, mine.clone())?.copy_from(0, &points_of(&own));
        for step in 0..self.steps {
            shared.reach_to(machine, step, reach(&own))?;
            machine.dsm.barrier()?;
            let all = self.read_all(machine, points)?;
            let reaches_to = machine.dsm.get(shared.reaches, step)?;
            self.pull(machine, &all, reaches_to, own.iter_mut().zip(mine.clone()));
            // Nobody moves before all have seen where everybody was.
            machine.dsm.barrier()?;
            own.iter_mut().for_each(advance);
            machine.dsm.view_mut(points, mine.clone())?.copy_from(0, &points_of(&own));
            machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, &own);
            machine.computes(12 * own.len());
        }
        machine.dsm.barrier()
    }

    /// A rank with the same bodies in every step.
    fn run_parts(&self, machine: &mut Machine<'_, '_>, shared: Places) -> Result<()> {
        let mine = machine.part(self.count);
        let mut own: Vec<Body> = mine.clone().map(|number| self.first(number)).collect();
        machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, &own);
        for step in 0..self.steps {
            shared.reach_to(machine, step, reach(&own))?;
            machine.dsm.barrier()?;
            let all = points_of(&self.read_all(machine, shared.bodies)?);
            let reaches_to = machine.dsm.get(shared.reaches, step)?;
            self.pull(machine, &all, reaches_to, own.iter_mut().zip(mine.clone()));
            machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, &own);
            // Nobody moves before all have seen where everybody was.
            machine.dsm.barrier()?;
            own.iter_mut().for_each(advance);
            machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, &own);
            machine.computes(12 * own.len());
        }
        machine.dsm.barrier()
    }

    /// A rank with the bodies of its zone, which is another one in every step. Their neighbours in
    /// memory are those of other ranks.
    fn run_zones(&self, machine: &mut Machine<'_, '_>, shared: Places) -> Result<()> {
        let (rank, ranks) = {
            let world = machine.dsm.world();
            (world.rank().index(), world.size() as usize)
        };
        let mine = machine.part(self.count);
        let first: Vec<Body> = mine.clone().map(|number| self.first(number)).collect();
        machine.dsm.view_mut(shared.bodies, mine)?.copy_from(0, &first);
        let mut reaches_to = reach(&first);
        for step in 0..self.steps {
            shared.reach_to(machine, step, reaches_to)?;
            machine.dsm.barrier()?;
            let all = self.read_all(machine, shared.bodies)?;
            let points = points_of(&all);
            let tree = Tree::new(&points, machine.dsm.get(shared.reaches, step)?);
            machine.computes(FLOPS * self.count);
            machine.dsm.barrier()?;
            let mut acted = 0;
            let mut own = Vec::new();
            for number in tree.zone(&all, rank, ranks) {
                let mut body = all[number];
                acted += tree.pull(&points, number, &mut body);
                machine.dsm.set(shared.bodies, number, body)?;
                own.push((number, body));
            }
            machine.computes(FLOPS * acted);
            // Nobody moves before all have seen where everybody was.
            machine.dsm.barrier()?;
            for (number, body) in &mut own {
                advance(body);
                machine.dsm.set(shared.bodies, *number, *body)?;
            }
            let place = |axis: usize| own.iter().map(move |(_, body)| body.place[axis].abs());
            reaches_to = (0..3).flat_map(place).fold(0.0, f64::max);
            machine.computes(12 * own.len());
        }
        machine.dsm.barrier()
    }

    /// Reads all bodies, from those of the own part on, so that not all ranks ask the first one
    /// first.
    fn read_all<T: Plain + Default>(
        &self,
        machine: &Machine<'_, '_>,
        shared: Shared<T>,
    ) -> Result<Vec<T>> {
        let begin = machine.part(self.count).start;
        let mut all = vec![T::default(); self.count];
        let (before, after) = all.split_at_mut(begin);
        machine.dsm.view(shared, begin..self.count)?.copy_to(0, after);
        machine.dsm.view(shared, 0..begin)?.copy_to(0, before);
        Ok(all)
    }

    /// A body at the start: a ball that is denser in the middle, after Plummer.
    fn first(&self, number: usize) -> Body {
        let mut numbers = SplitMix::new(number as u64 * 8 + 1);
        let mut random = || numbers.fraction();
        let radius = 1.0 / ((0.999 * random() + 1e-4).powf(-2.0 / 3.0) - 1.0).sqrt();
        let on_sphere = |length: f64, height: f64, turn: f64| {
            let across = (1.0 - height * height).max(0.0).sqrt();
            let (sin, cos) = (turn * std::f64::consts::TAU).sin_cos();
            [length * across * cos, length * across * sin, length * height]
        };
        let place = on_sphere(radius, 2.0 * random() - 1.0, random());
        let speed = 0.7 * (1.0 + radius * radius).powf(-0.25) * random();
        let speed = on_sphere(speed, 2.0 * random() - 1.0, random());
        Body {
            place,
            speed,
            mass: 1.0 / self.count as f64,
            number: number as f64,
            ..Body::default()
        }
    }
}

/// What ranks share.
#[derive(Clone, Copy)]
struct Places {
    bodies: Shared<Body>,
    /// How far the bodies reach, for each step.
    reaches: Shared<f64>,
}

impl Places {
    /// Tells all how far the bodies of this rank reach.
    fn reach_to(&self, machine: &mut Machine<'_, '_>, step: usize, reaches_to: f64) -> Result<()> {
        machine.dsm.locked(LOCK, |dsm| {
            let known = dsm.get(self.reaches, step)?;
            dsm.set(self.reaches, step, known.max(reaches_to))
        })
    }
}

/// How far bodies reach in any direction from the middle.
fn reach(bodies: &[Body]) -> f64 {
    bodies.iter().flat_map(|body| body.place).map(f64::abs).fold(0.0, f64::max)
}

fn advance(body: &mut Body) {
    for axis in 0..3 {
        body.speed[axis] += STEP * body.pull[axis];
        body.place[axis] += STEP * body.speed[axis];
    }
}

impl Kernel for Barnes {
    fn bytes(&self) -> u64 {
        let body = size_of::<Body>() + if self.is_published { 0 } else { size_of::<Point>() };
        (self.count * body + self.steps * 8) as u64 + (1 << 16)
    }

    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let bodies = machine.dsm.alloc_at::<Body>(self.count, Placement::Pages)?;
        let reaches = machine.dsm.alloc_at::<f64>(self.steps + 1, Placement::Pages)?;
        self.bodies = Some(bodies);
        let shared = Places { bodies, reaches };
        match (self.has_zones, self.is_published) {
            (true, _) => self.run_zones(machine, shared),
            (false, true) => self.run_parts(machine, shared),
            (false, false) => self.run_points(machine, shared),
        }
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let Some(bodies) = self.bodies else { return Ok(Vec::new()) };
        Ok(dsm
            .view(bodies, 0..bodies.len())?
            .iter()
            .flat_map(|body| [body.place, body.speed].concat())
            .collect())
    }

    fn sequential(&self) -> Vec<f64> {
        let mut bodies: Vec<Body> =
            part(self.count, 0, 1).map(|number| self.first(number)).collect();
        for _ in 0..self.steps {
            let all = points_of(&bodies);
            let tree = Tree::new(&all, reach(&bodies));
            for (number, body) in bodies.iter_mut().enumerate() {
                tree.pull(&all, number, body);
                advance(body);
            }
        }
        bodies.into_iter().flat_map(|body| [body.place, body.speed].concat()).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        let points: Vec<(f64, f64)> =
            result.chunks_exact(6).map(|body| (body[0], body[1])).collect();
        picture::points("Barnes-Hut", &points)
    }
}

/// A tree of cells, each of which has up to eight parts.
struct Tree {
    cells: Vec<Cell>,
    size: f64,
}

struct Cell {
    parts: [Part; 8],
    mass: f64,
    middle: [f64; 3],
}

#[derive(Clone, Copy)]
enum Part {
    Empty,
    Body(usize),
    Cell(usize),
}

impl Cell {
    const EMPTY: Cell = Cell { parts: [Part::Empty; 8], mass: 0.0, middle: [0.0; 3] };

    /// Takes bodies at one place, which act as one.
    fn merge(&mut self, bodies: &[Point], numbers: &[usize]) {
        for body in numbers.iter().map(|&number| &bodies[number]) {
            self.mass += body.mass;
            (0..3).for_each(|axis| self.middle[axis] += body.mass * body.place[axis]);
        }
    }
}

/// The space of a cell: its centre, how far from there the centres of its parts are, and how often
/// it may be divided.
#[derive(Clone, Copy)]
struct Cube {
    centre: [f64; 3],
    half: f64,
    depth: u32,
}

impl Cube {
    /// Returns a part of it, unless it is too small to be divided.
    fn part(&self, octant: usize) -> Option<Cube> {
        let depth = self.depth.checked_sub(1)?;
        Some(Cube {
            centre: shifted(&self.centre, octant, self.half),
            half: self.half / 2.0,
            depth,
        })
    }
}

impl Tree {
    fn new(bodies: &[Point], reach: f64) -> Tree {
        let mut tree = Tree { cells: vec![Cell::EMPTY], size: 2.0 * reach.max(1e-9) };
        let mut numbers: Vec<usize> = (0..bodies.len()).collect();
        let cube = Cube { centre: [0.0; 3], half: tree.size / 4.0, depth: DEPTH };
        tree.divide(bodies, &mut numbers, &mut vec![0; bodies.len()], 0, cube);
        tree.weigh(bodies, 0);
        tree
    }

    /// Divides bodies among the parts of a cell, and on down. `sorted` is room for as many.
    fn divide(
        &mut self,
        bodies: &[Point],
        numbers: &mut [usize],
        sorted: &mut [usize],
        cell: usize,
        cube: Cube,
    ) {
        let place = |number: usize| octant(&cube.centre, &bodies[number].place);
        let mut counts = [0; 8];
        numbers.iter().for_each(|&number| counts[place(number)] += 1);
        let mut begins = [0; 8];
        (1..8).for_each(|octant| begins[octant] = begins[octant - 1] + counts[octant - 1]);
        let mut next = begins;
        for &number in numbers.iter() {
            let octant = place(number);
            sorted[next[octant]] = number;
            next[octant] += 1;
        }
        numbers.copy_from_slice(sorted);
        for (octant, (begin, end)) in begins.into_iter().zip(next).enumerate() {
            let part = match &mut numbers[begin..end] {
                [] => continue,
                [one] => Part::Body(*one),
                several => {
                    let inner = self.cells.len();
                    self.cells.push(Cell::EMPTY);
                    match cube.part(octant) {
                        Some(cube) => {
                            self.divide(bodies, several, &mut sorted[begin..end], inner, cube);
                        }
                        None => self.cells[inner].merge(bodies, several),
                    }
                    Part::Cell(inner)
                }
            };
            self.cells[cell].parts[octant] = part;
        }
    }

    /// Sums up what is in a cell.
    fn weigh(&mut self, bodies: &[Point], cell: usize) {
        let (mut mass, mut moment) = (self.cells[cell].mass, self.cells[cell].middle);
        for part in self.cells[cell].parts {
            let (weight, place) = match part {
                Part::Empty => continue,
                Part::Body(number) => (bodies[number].mass, bodies[number].place),
                Part::Cell(inner) => {
                    self.weigh(bodies, inner);
                    (self.cells[inner].mass, self.cells[inner].middle)
                }
            };
            mass += weight;
            (0..3).for_each(|axis| moment[axis] += weight * place[axis]);
        }
        self.cells[cell].mass = mass;
        self.cells[cell].middle = moment.map(|moment| if mass > 0.0 { moment / mass } else { 0.0 });
    }

    /// The bodies of a rank's zone: leaves that follow each other in the tree and have had their
    /// part of the cost in the step before. Bodies without a leaf of their own come last.
    fn zone(&self, bodies: &[Body], rank: usize, ranks: usize) -> Vec<usize> {
        let cost = |number: usize| bodies[number].cost.max(1.0);
        let mut order = self.leaves(bodies.len());
        let mut is_leaf = vec![false; bodies.len()];
        order.iter().for_each(|&number| is_leaf[number] = true);
        order.extend((0..bodies.len()).filter(|&number| !is_leaf[number]));
        let total: f64 = (0..bodies.len()).map(cost).sum();
        let mut before = 0.0;
        order.retain(|&number| {
            // Costs are whole numbers, so that all ranks come to the same sums.
            let zone = (before * ranks as f64 / total) as usize;
            before += cost(number);
            zone.min(ranks - 1) == rank
        });
        order
    }

    /// The bodies that are leaves, in the order of the tree.
    fn leaves(&self, count: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(count);
        let mut open = vec![Part::Cell(0)];
        while let Some(part) = open.pop() {
            match part {
                Part::Empty => {}
                Part::Body(number) => order.push(number),
                Part::Cell(cell) => open.extend(self.cells[cell].parts.iter().rev()),
            }
        }
        order
    }

    /// What pulls at a body; returns how many did.
    fn pull(&self, bodies: &[Point], number: usize, body: &mut Body) -> usize {
        let (mut pull, mut acted) = ([0.0; 3], 0);
        let mut open = vec![(0, self.size)];
        let mut act = |place: &[f64; 3], mass: f64, distance2: f64| {
            let near = distance2 + SOFTENING * SOFTENING;
            let strength = mass / (near * near.sqrt());
            (0..3).for_each(|axis| pull[axis] += strength * (place[axis] - body.place[axis]));
            acted += 1;
        };
        while let Some((cell, size)) = open.pop() {
            for part in self.cells[cell].parts {
                match part {
                    Part::Empty => {}
                    Part::Body(other) if other == number => {}
                    Part::Body(other) => {
                        let other = &bodies[other];
                        act(&other.place, other.mass, distance2(&other.place, &body.place));
                    }
                    Part::Cell(inner) => {
                        let (middle, mass) = (&self.cells[inner].middle, self.cells[inner].mass);
                        let distance2 = distance2(middle, &body.place);
                        if size * size / 4.0 < THETA * THETA * distance2 {
                            act(middle, mass, distance2);
                        } else {
                            open.push((inner, size / 2.0));
                        }
                    }
                }
            }
        }
        body.pull = pull;
        body.cost = acted as f64;
        acted
    }
}

fn octant(centre: &[f64; 3], place: &[f64; 3]) -> usize {
    (0..3).map(|axis| usize::from(place[axis] >= centre[axis]) << axis).sum()
}

/// The centre of a part of a cell, which is `half` away along each axis.
fn shifted(centre: &[f64; 3], octant: usize, half: f64) -> [f64; 3] {
    std::array::from_fn(|axis| centre[axis] + if octant & (1 << axis) != 0 { half } else { -half })
}

fn distance2(one: &[f64; 3], other: &[f64; 3]) -> f64 {
    (0..3).map(|axis| (one[axis] - other[axis]).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_pulls_about_as_all_bodies_do() {
        let kernel = Barnes::new(&[300], 1, false, true).unwrap();
        let bodies: Vec<Body> = (0..300).map(|number| kernel.first(number)).collect();
        let points = points_of(&bodies);
        let tree = Tree::new(&points, reach(&bodies));
        assert!((tree.cells[0].mass - 1.0).abs() < 1e-9);
        for number in (0..300).step_by(17) {
            let mut body = bodies[number];
            assert!(tree.pull(&points, number, &mut body) < 300);
            let mut exact = [0.0; 3];
            for (at, other) in bodies.iter().enumerate().filter(|&(at, _)| at != number) {
                let near = distance2(&other.place, &bodies[number].place) + SOFTENING * SOFTENING;
                let _ = at;
                (0..3).for_each(|axis| {
                    exact[axis] += other.mass * (other.place[axis] - bodies[number].place[axis])
                        / (near * near.sqrt());
                });
            }
            let (off, all) =
                (distance2(&body.pull, &exact).sqrt(), distance2(&exact, &[0.0; 3]).sqrt());
            assert!(off < 0.15 * all + 0.02, "body {number}: {off} of {all}");
        }
    }

    #[test]
    fn zones_share_all_bodies_out_by_their_cost() {
        let kernel = Barnes::new(&[500], 1, true, true).unwrap();
        let mut bodies: Vec<Body> = (0..500).map(|number| kernel.first(number)).collect();
        // Two at one place: one of them has no leaf.
        bodies[7].place = bodies[8].place;
        let points = points_of(&bodies);
        let tree = Tree::new(&points, reach(&bodies));
        for (number, body) in bodies.clone().iter().enumerate() {
            let mut body = *body;
            tree.pull(&points, number, &mut body);
            bodies[number].cost = body.cost;
        }
        let total: f64 = bodies.iter().map(|body| body.cost).sum();
        for ranks in [1, 2, 3, 8] {
            let zones: Vec<Vec<usize>> =
                (0..ranks).map(|rank| tree.zone(&bodies, rank, ranks)).collect();
            let mut all = zones.concat();
            all.sort_unstable();
            assert_eq!(all, (0..500).collect::<Vec<_>>(), "{ranks} ranks");
            for zone in zones {
                let cost: f64 = zone.iter().map(|&number| bodies[number].cost).sum();
                let part = cost * ranks as f64 / total;
                assert!((0.9..1.1).contains(&part), "{part} of a part, {ranks} ranks");
            }
        }
    }

    #[test]
    fn bodies_at_one_place_end_somewhere() {
        let body = Body { place: [0.5; 3], mass: 0.25, ..Body::default() };
        let tree = Tree::new(&points_of(&[body; 4]), 1.0);
        assert!((tree.cells[0].mass - 1.0).abs() < 1e-9);
    }
}
