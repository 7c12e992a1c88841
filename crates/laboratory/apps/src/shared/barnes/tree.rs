//! A tree of all bodies, in a rank's own memory: bodies far away act together, as one.

use super::{Body, Point};

/// Bodies whose distance is this many times the size of their cell act together.
const THETA: f64 = 1.0;
const SOFTENING: f64 = 0.05;
/// Cells do not become smaller than this part of all: bodies at one place would be divided for
/// ever.
const DEPTH: u32 = 48;

/// A tree of cells, each of which has up to eight parts.
pub(super) struct Tree {
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
    pub(super) fn new(bodies: &[Point], reach: f64) -> Tree {
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
    pub(super) fn zone(&self, bodies: &[Body], rank: usize, ranks: usize) -> Vec<usize> {
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
    pub(super) fn pull(&self, bodies: &[Point], number: usize, body: &mut Body) -> usize {
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
    use super::super::{Barnes, points_of, reach};
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
