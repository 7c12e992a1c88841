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

mod tree;

use std::ops::Range;

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Plain, Result};
use farside_fabric::random::SplitMix;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Base, Kernel, Machine, Options, SharedRun, picture};
use tree::Tree;

const STEP: f64 = 0.025;
/// Operations for each body that acts on another.
const FLOPS: usize = 20;
/// Operations for each body that moves.
const MOVE_FLOPS: usize = 12;
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

impl Body {
    /// Where it is and how it moves: the numbers that are compared.
    fn numbers(&self) -> [f64; 6] {
        let ([x, y, z], [u, v, w]) = (self.place, self.speed);
        [x, y, z, u, v, w]
    }
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

#[derive(Clone)]
pub(super) struct Barnes {
    count: usize,
    steps: usize,
    /// Whether bodies are dealt out by cost.
    has_zones: bool,
    /// Whether forces are shared as soon as they are known, as in the paper. Nobody uses those of
    /// others, and some load them at that moment, with the rest of a body: that is a race.
    is_published: bool,
}

impl Barnes {
    pub(super) fn new(
        size: &[usize],
        steps: usize,
        has_zones: bool,
        is_published: bool,
    ) -> Result<Barnes> {
        let [count] = Options::check_size("barnes", size, 1)?;
        Ok(Barnes { count, steps, has_zones, is_published })
    }

    fn tree_flops(&self) -> usize {
        FLOPS * self.count
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

    /// Lets all see where the bodies are in the end.
    fn meet_after(&self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()> {
        if step + 1 == self.steps { machine.dsm.barrier() } else { Ok(()) }
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

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let view = dsm.view(self.bodies, 0..self.bodies.len())?;
        Ok(view.iter().flat_map(|body| body.numbers()).collect())
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

    fn steps(&self) -> usize {
        self.steps
    }

    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>> {
        let bodies = machine.dsm.alloc_at::<Body>(self.count, Placement::Pages)?;
        let reaches = machine.dsm.alloc_at::<f64>(self.steps + 1, Placement::Pages)?;
        let shared = Places { bodies, reaches };
        let mine = machine.part(self.count);
        let own: Vec<Body> = mine.clone().map(|number| self.first(number)).collect();
        let barnes = self.clone();
        machine.dsm.view_mut(bodies, mine.clone())?.copy_from(0, &own);
        if self.has_zones {
            let reaches_to = reach(&own);
            return Ok(Box::new(Zones { barnes, shared, reaches_to }));
        }
        let mut points = None;
        if !self.is_published {
            let all = machine.dsm.alloc_at::<Point>(self.count, Placement::Pages)?;
            machine.dsm.view_mut(all, mine.clone())?.copy_from(0, &points_of(&own));
            points = Some(all);
        }
        Ok(Box::new(Parts { barnes, shared, points, mine, own }))
    }

    fn base(&self) -> Box<dyn Base> {
        let bodies = (0..self.count).map(|number| self.first(number)).collect();
        Box::new(Own { barnes: self.clone(), bodies })
    }

    fn picture(&self, result: &[f64]) -> String {
        let points: Vec<(f64, f64)> =
            result.chunks_exact(6).map(|body| (body[0], body[1])).collect();
        picture::points("Barnes-Hut", &points)
    }
}

/// A rank with the same bodies in every step.
struct Parts {
    barnes: Barnes,
    shared: Places,
    /// What others use of the bodies, apart from what only their own rank does, so that a third of
    /// it moves; not in the published program.
    points: Option<Shared<Point>>,
    mine: Range<usize>,
    own: Vec<Body>,
}

impl SharedRun for Parts {
    fn step(&mut self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()> {
        let Parts { barnes, shared, points, mine, own } = self;
        shared.reach_to(machine, step, reach(own))?;
        machine.dsm.barrier()?;
        let all = match *points {
            Some(points) => barnes.read_all(machine, points)?,
            None => points_of(&barnes.read_all(machine, shared.bodies)?),
        };
        let tree = Tree::new(&all, machine.dsm.get(shared.reaches, step)?);
        machine.computes(barnes.tree_flops());
        let pulled = own.iter_mut().zip(mine.clone());
        let acted: usize = pulled.map(|(body, number)| tree.pull(&all, number, body)).sum();
        machine.computes(FLOPS * acted);
        if barnes.is_published {
            machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, own);
        }
        // Nobody moves before all have seen where everybody was.
        machine.dsm.barrier()?;
        own.iter_mut().for_each(advance);
        if let Some(points) = *points {
            machine.dsm.view_mut(points, mine.clone())?.copy_from(0, &points_of(own));
        }
        machine.dsm.view_mut(shared.bodies, mine.clone())?.copy_from(0, own);
        machine.computes(MOVE_FLOPS * own.len());
        barnes.meet_after(machine, step)
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        self.shared.result(dsm)
    }
}

/// A rank with the bodies of its zone, which is another one in every step. Their neighbours in
/// memory are those of other ranks.
struct Zones {
    barnes: Barnes,
    shared: Places,
    reaches_to: f64,
}

impl SharedRun for Zones {
    fn step(&mut self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()> {
        let Zones { barnes, shared, reaches_to } = self;
        let (rank, ranks) = {
            let world = machine.dsm.world();
            (world.rank().index(), world.size() as usize)
        };
        shared.reach_to(machine, step, *reaches_to)?;
        machine.dsm.barrier()?;
        let all = barnes.read_all(machine, shared.bodies)?;
        let points = points_of(&all);
        let tree = Tree::new(&points, machine.dsm.get(shared.reaches, step)?);
        machine.computes(barnes.tree_flops());
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
        *reaches_to = (0..3).flat_map(place).fold(0.0, f64::max);
        machine.computes(MOVE_FLOPS * own.len());
        barnes.meet_after(machine, step)
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        self.shared.result(dsm)
    }
}

/// All bodies in one rank's own memory.
struct Own {
    barnes: Barnes,
    bodies: Vec<Body>,
}

impl Base for Own {
    fn step(&mut self, _: usize) -> usize {
        let all = points_of(&self.bodies);
        let tree = Tree::new(&all, reach(&self.bodies));
        let mut acted = 0;
        for (number, body) in self.bodies.iter_mut().enumerate() {
            acted += tree.pull(&all, number, body);
            advance(body);
        }
        self.barnes.tree_flops() + FLOPS * acted + MOVE_FLOPS * self.bodies.len()
    }

    fn result(&self) -> Vec<f64> {
        self.bodies.iter().flat_map(Body::numbers).collect()
    }
}
