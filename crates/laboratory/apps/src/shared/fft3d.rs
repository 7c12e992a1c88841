//! A partial differential equation solved by Fourier transforms, as the FT of the NAS benchmarks:
//! one transform forth, and one back for each step of time.
//!
//! A rank has some planes. It transforms along the two directions inside of them; for the third the
//! field is turned around, so that every rank reads some rows of every other's planes.

use std::ops::Range;
use std::sync::Arc;

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Complex, Error, Result};
use farside_fabric::random::SplitMix;

use super::{Base, Kernel, Machine, Options, SharedRun, picture};

type C = Complex<f64>;

/// How fast waves decay.
const ALPHA: f64 = 1e-6;

/// A problem, which runs share.
#[derive(Clone)]
pub(super) struct Fft3d(Arc<Field>);

struct Field {
    /// Planes, rows and columns.
    size: [usize; 3],
    iterations: usize,
    /// The roots of unity of transforms along each of them.
    roots: [Roots; 3],
}

impl Fft3d {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Fft3d> {
        let size: [usize; 3] = Options::check_size("fft3d", size, 2)?;
        match size.iter().find(|extent| !extent.is_power_of_two()) {
            Some(extent) => Err(Error::InvalidArgument(format!(
                "fft3d needs powers of two as its size, not {extent}"
            ))),
            None => Ok(Fft3d(Arc::new(Field { size, iterations, roots: size.map(Roots::new) }))),
        }
    }
}

impl Field {
    fn points(&self) -> usize {
        self.size.iter().product()
    }

    fn plane_points(&self) -> usize {
        self.size[1] * self.size[2]
    }

    fn turned_points(&self) -> usize {
        self.size[0] * self.size[2]
    }

    fn place(&self, plane: usize) -> Range<usize> {
        plane * self.plane_points()..(plane + 1) * self.plane_points()
    }

    fn turned_place(&self, row: usize) -> Range<usize> {
        row * self.turned_points()..(row + 1) * self.turned_points()
    }

    /// What a point holds at the start: something irregular, the same for the same point.
    fn first(&self, point: usize) -> C {
        let mut random = SplitMix::new(point as u64);
        Complex { re: random.fraction(), im: random.fraction() }
    }

    /// Transforms a plane along its rows and its columns.
    fn plane(&self, plane: &mut [C], back: bool) {
        let [_, rows, columns] = &self.roots;
        plane.chunks_exact_mut(self.size[2]).for_each(|row| columns.transform(row, back));
        rows.transform_columns(plane, back);
    }

    /// Transforms a plane of the turned field along its columns.
    fn turned(&self, plane: &mut [C], back: bool) {
        self.roots[0].transform_columns(plane, back);
    }

    fn evolve(&self, row: usize, spectrum: &[C], step: usize, into: &mut [C]) {
        let [planes, rows, columns] = self.size;
        let decay = |at: usize, extent: usize| {
            let wave = if at > extent / 2 { at as f64 - extent as f64 } else { at as f64 };
            (-4.0 * ALPHA * std::f64::consts::PI.powi(2) * wave * wave * step as f64).exp()
        };
        let along: Vec<f64> = (0..columns).map(|column| decay(column, columns)).collect();
        let waves = spectrum.chunks_exact(columns).zip(into.chunks_exact_mut(columns));
        for (plane, (from, into)) in waves.enumerate() {
            let across = decay(row, rows) * decay(plane, planes);
            for ((from, into), along) in from.iter().zip(into).zip(&along) {
                *into = Complex { re: from.re * across * along, im: from.im * across * along };
            }
        }
    }

    /// Gathers the row number `row` of every plane; each has so many rows.
    fn gather(&self, from: &[C], rows: usize, row: usize, into: &mut [C]) {
        let columns = self.size[2];
        for (plane, into) in into.chunks_exact_mut(columns).enumerate() {
            let at = (plane * rows + row) * columns;
            into.copy_from_slice(&from[at..at + columns]);
        }
    }

    /// Operations of transforms along one direction of so many points.
    fn flops(points: usize, extent: usize) -> usize {
        5 * points * extent.ilog2() as usize
    }

    /// Operations of both transforms of a plane.
    fn plane_flops(&self) -> usize {
        let flops = |extent: usize| Field::flops(self.plane_points(), extent);
        flops(self.size[1]) + flops(self.size[2])
    }

    fn turned_flops(&self) -> usize {
        Field::flops(self.turned_points(), self.size[0])
    }

    fn decay_flops(&self) -> usize {
        4 * self.turned_points()
    }
}

impl Kernel for Fft3d {
    fn bytes(&self) -> u64 {
        3 * (self.0.points() * 16) as u64 + (1 << 18)
    }

    /// The first is the transform forth.
    fn steps(&self) -> usize {
        self.0.iterations + 1
    }

    fn prepare(&self, machine: &mut Machine<'_, '_>) -> Result<Box<dyn SharedRun>> {
        let fft = self.0.clone();
        let field = machine.dsm.alloc_at::<C>(fft.points(), Placement::Pages)?;
        let spectrum = machine.dsm.alloc_at::<C>(fft.points(), Placement::Pages)?;
        let waves = machine.dsm.alloc_at::<C>(fft.points(), Placement::Pages)?;
        let (planes, rows) = (machine.part(fft.size[0]), machine.part(fft.size[1]));
        for at in planes.clone() {
            let plane: Vec<C> = fft.place(at).map(|point| fft.first(point)).collect();
            machine.dsm.view_mut(field, fft.place(at))?.copy_from(0, &plane);
        }
        let turned = rows.start * fft.turned_points()..rows.end * fft.turned_points();
        machine.touch(spectrum, turned.clone())?;
        machine.touch(waves, turned)?;
        machine.dsm.barrier()?;
        let room = |points: usize| vec![C::default(); points];
        let (plane, around) = (room(fft.plane_points()), room(fft.turned_points()));
        let evolved = around.clone();
        Ok(Box::new(Solver { fft, field, spectrum, waves, planes, rows, plane, around, evolved }))
    }

    fn base(&self) -> Box<dyn Base> {
        let field: Vec<C> = (0..self.0.points()).map(|point| self.0.first(point)).collect();
        let (spectrum, waves) = (field.clone(), field.clone());
        let plane = field[self.0.place(0)].to_vec();
        Box::new(Own { fft: self.0.clone(), field, spectrum, waves, plane })
    }

    fn picture(&self, result: &[f64]) -> String {
        let [_, rows, columns] = self.0.size;
        let slice: Vec<f64> =
            result.chunks_exact(2).take(rows * columns).map(|value| value[0]).collect();
        picture::field("3D-FFT, the first plane", &slice, columns)
    }
}

struct Solver {
    fft: Arc<Field>,
    field: Shared<C>,
    /// The transformed field, turned around.
    spectrum: Shared<C>,
    /// The spectrum after some steps.
    waves: Shared<C>,
    /// The planes of this rank, and its rows of the turned field.
    planes: Range<usize>,
    rows: Range<usize>,
    /// Room for a plane, and for two of the turned field.
    plane: Vec<C>,
    around: Vec<C>,
    evolved: Vec<C>,
}

impl SharedRun for Solver {
    fn step(&mut self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()> {
        match step {
            0 => self.transform_planes(machine)?,
            step => self.evolve_rows(machine, step)?,
        }
        machine.dsm.barrier()?;
        match step {
            0 => self.transform_rows(machine)?,
            step => self.transform_back(machine, step == self.fft.iterations)?,
        }
        machine.dsm.barrier()
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let view = dsm.view(self.field, 0..self.field.len())?;
        Ok(view.iter().flat_map(|value| [value.re, value.im]).collect())
    }
}

impl Solver {
    fn transform_planes(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        for at in self.planes.clone() {
            let view = machine.dsm.view_mut(self.field, self.fft.place(at))?;
            view.copy_to(0, &mut self.plane);
            self.fft.plane(&mut self.plane, false);
            view.copy_from(0, &self.plane);
            machine.computes(self.fft.plane_flops());
        }
        Ok(())
    }

    /// Turns the field around, and transforms along the third direction.
    fn transform_rows(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let [planes, _, columns] = self.fft.size;
        for row in self.rows.clone() {
            // From its own planes on, so that not all ranks ask the first one first.
            for at in (self.planes.start..planes).chain(0..self.planes.start) {
                let from = at * self.fft.plane_points() + row * columns;
                let into = &mut self.around[at * columns..(at + 1) * columns];
                machine.dsm.view(self.field, from..from + columns)?.copy_to(0, into);
            }
            self.fft.turned(&mut self.around, false);
            let to = self.fft.turned_place(row);
            machine.dsm.view_mut(self.spectrum, to)?.copy_from(0, &self.around);
            machine.computes(self.fft.turned_flops());
        }
        Ok(())
    }

    /// Lets the waves decay, and transforms them back along the third direction.
    fn evolve_rows(&mut self, machine: &mut Machine<'_, '_>, step: usize) -> Result<()> {
        for row in self.rows.clone() {
            let place = self.fft.turned_place(row);
            machine.dsm.view(self.spectrum, place.clone())?.copy_to(0, &mut self.around);
            self.fft.evolve(row, &self.around, step, &mut self.evolved);
            self.fft.turned(&mut self.evolved, true);
            machine.dsm.view_mut(self.waves, place)?.copy_from(0, &self.evolved);
            machine.computes(self.fft.turned_flops() + self.fft.decay_flops());
        }
        Ok(())
    }

    /// Turns the waves around, and transforms the planes back; the last result is kept.
    fn transform_back(&mut self, machine: &mut Machine<'_, '_>, is_last: bool) -> Result<()> {
        let [_, rows, columns] = self.fft.size;
        for at in self.planes.clone() {
            for row in (self.rows.start..rows).chain(0..self.rows.start) {
                let from = row * self.fft.turned_points() + at * columns;
                let into = &mut self.plane[row * columns..(row + 1) * columns];
                machine.dsm.view(self.waves, from..from + columns)?.copy_to(0, into);
            }
            self.fft.plane(&mut self.plane, true);
            machine.computes(self.fft.plane_flops());
            if is_last {
                machine.dsm.view_mut(self.field, self.fft.place(at))?.copy_from(0, &self.plane);
            }
        }
        Ok(())
    }
}

/// All of the work, in one rank's own memory.
struct Own {
    fft: Arc<Field>,
    field: Vec<C>,
    spectrum: Vec<C>,
    waves: Vec<C>,
    /// Room for a plane.
    plane: Vec<C>,
}

impl Base for Own {
    fn step(&mut self, step: usize) -> usize {
        match step {
            0 => self.transform(),
            step => self.transform_back(step, step == self.fft.iterations),
        }
    }

    fn result(&self) -> Vec<f64> {
        self.field.iter().flat_map(|value| [value.re, value.im]).collect()
    }
}

impl Own {
    fn transform(&mut self) -> usize {
        let Own { fft, field, spectrum, .. } = self;
        let [planes, rows, _] = fft.size;
        field.chunks_exact_mut(fft.plane_points()).for_each(|plane| fft.plane(plane, false));
        for (row, around) in spectrum.chunks_exact_mut(fft.turned_points()).enumerate() {
            fft.gather(field, rows, row, around);
            fft.turned(around, false);
        }
        planes * fft.plane_flops() + rows * fft.turned_flops()
    }

    /// Lets the waves decay, and transforms them back; the last result is kept.
    fn transform_back(&mut self, step: usize, is_last: bool) -> usize {
        let Own { fft, field, spectrum, waves, plane } = self;
        let [planes, rows, _] = fft.size;
        for (row, evolved) in waves.chunks_exact_mut(fft.turned_points()).enumerate() {
            fft.evolve(row, &spectrum[fft.turned_place(row)], step, evolved);
            fft.turned(evolved, true);
        }
        for at in 0..planes {
            fft.gather(waves, planes, at, plane);
            fft.plane(plane, true);
            if is_last {
                field[fft.place(at)].copy_from_slice(plane);
            }
        }
        planes * fft.plane_flops() + rows * (fft.turned_flops() + fft.decay_flops())
    }
}

/// The roots of unity of transforms of one length, a power of two: one for the pairs at distance 1,
/// then two for those at distance 2, and so on.
struct Roots(Vec<C>);

impl Roots {
    fn new(len: usize) -> Roots {
        let level = |half: usize| {
            (0..half).map(move |at| {
                let (sin, cos) = (-std::f64::consts::PI / half as f64 * at as f64).sin_cos();
                C { re: cos, im: sin }
            })
        };
        Roots((0..len.ilog2()).flat_map(|bit| level(1 << bit)).collect())
    }

    fn len(&self) -> usize {
        self.0.len() + 1
    }

    /// The distances of pairs, each with its roots; those of a transform back are conjugated.
    fn levels(&self, back: bool) -> impl Iterator<Item = (usize, impl Iterator<Item = C> + Clone)> {
        let sign = if back { -1.0 } else { 1.0 };
        (0..self.len().ilog2()).map(move |bit| {
            let half = 1 << bit;
            let roots = self.0[half - 1..2 * half - 1].iter();
            (half, roots.map(move |root| C { re: root.re, im: sign * root.im }))
        })
    }

    /// Transforms a row: back, it is divided by the length.
    fn transform(&self, row: &mut [C], back: bool) {
        self.reorder(|at, other| row.swap(at, other));
        for (half, roots) in self.levels(back) {
            for block in row.chunks_exact_mut(2 * half) {
                let (ones, others) = block.split_at_mut(half);
                let pairs = ones.iter_mut().zip(others).zip(roots.clone());
                pairs.for_each(|((one, other), root)| combine(one, other, root));
            }
        }
        self.scale(row, back);
    }

    fn transform_columns(&self, plane: &mut [C], back: bool) {
        let columns = plane.len() / self.len();
        self.reorder(|at, other| {
            let (before, after) = plane.split_at_mut(other * columns);
            before[at * columns..][..columns].swap_with_slice(&mut after[..columns]);
        });
        for (half, roots) in self.levels(back) {
            for block in plane.chunks_exact_mut(2 * half * columns) {
                let (ones, others) = block.split_at_mut(half * columns);
                let rows = ones.chunks_exact_mut(columns).zip(others.chunks_exact_mut(columns));
                for ((ones, others), root) in rows.zip(roots.clone()) {
                    let pairs = ones.iter_mut().zip(others);
                    pairs.for_each(|(one, other)| combine(one, other, root));
                }
            }
        }
        self.scale(plane, back);
    }

    /// Swaps each place with the one whose bits are the same in reverse.
    fn reorder(&self, mut swap: impl FnMut(usize, usize)) {
        let bits = self.len().ilog2();
        for at in 0..self.len() {
            let other = at.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(at);
            if at < other {
                swap(at, other);
            }
        }
    }

    fn scale(&self, values: &mut [C], back: bool) {
        if back {
            let scale = 1.0 / self.len() as f64;
            let scaled = |value: &C| C { re: value.re * scale, im: value.im * scale };
            values.iter_mut().for_each(|value| *value = scaled(value));
        }
    }
}

/// Replaces two values by the sum and the difference of the one and the turned other.
fn combine(one: &mut C, other: &mut C, root: C) {
    let turned = C {
        re: other.re * root.re - other.im * root.im,
        im: other.re * root.im + other.im * root.re,
    };
    *other = C { re: one.re - turned.re, im: one.im - turned.im };
    *one = C { re: one.re + turned.re, im: one.im + turned.im };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_that_of_the_reference() {
        let mut planner = rustfft::FftPlanner::<f64>::new();
        for len in [1, 2, 8, 64, 512] {
            let roots = Roots::new(len);
            let input: Vec<C> =
                (0..len).map(|at| C { re: (at as f64).sin(), im: (at * at % 7) as f64 }).collect();
            for back in [false, true] {
                let mut ours = input.clone();
                roots.transform(&mut ours, back);
                let mut columns: Vec<C> = input.iter().flat_map(|&value| [value; 3]).collect();
                roots.transform_columns(&mut columns, back);
                let mut theirs: Vec<_> = input
                    .iter()
                    .map(|value| rustfft::num_complex::Complex::new(value.re, value.im))
                    .collect();
                let plan = if back {
                    planner.plan_fft_inverse(len)
                } else {
                    planner.plan_fft_forward(len)
                };
                plan.process(&mut theirs);
                let scale = if back { 1.0 / len as f64 } else { 1.0 };
                for ((ours, theirs), columns) in ours.iter().zip(&theirs).zip(columns.chunks(3)) {
                    assert!(
                        (ours.re - theirs.re * scale).abs() < 1e-9
                            && (ours.im - theirs.im * scale).abs() < 1e-9,
                        "{len}"
                    );
                    assert!(columns.iter().all(|column| column == ours), "{len}");
                }
            }
        }
    }

    #[test]
    fn without_decay_the_field_comes_back() {
        let kernel = Fft3d::new(&[4, 8, 16], 1).unwrap();
        let mut base = kernel.base();
        let first = base.result();
        for step in 0..kernel.steps() {
            base.step(step);
        }
        for (first, back) in first.iter().zip(base.result()) {
            // One step of a slow decay changes next to nothing.
            assert!((back - first).abs() < 0.01, "{back} {first}");
        }
    }
}
