//! A partial differential equation solved by Fourier transforms, as the FT of the NAS benchmarks:
//! one transform forth, and one back for each step of time.
//!
//! A rank has some planes. It transforms along the two directions inside of them; for the third the
//! field is turned around, so that every rank reads some rows of every other's planes.

use std::ops::Range;

use farside::dsm::{Dsm, Placement, Shared};
use farside::{Complex, Error, Result};
use farside_fabric::random::SplitMix;

use super::{Kernel, Machine, Options, picture};

type C = Complex<f64>;

/// How fast waves decay.
const ALPHA: f64 = 1e-6;

pub(super) struct Fft3d {
    /// Planes, rows and columns.
    size: [usize; 3],
    iterations: usize,
    field: Option<Shared<C>>,
}

impl Fft3d {
    pub(super) fn new(size: &[usize], iterations: usize) -> Result<Fft3d> {
        let size: [usize; 3] = Options::check_size("fft3d", size, 2)?;
        match size.iter().find(|extent| !extent.is_power_of_two()) {
            Some(extent) => Err(Error::InvalidArgument(format!(
                "fft3d takes powers of two as its size, and {extent} is none"
            ))),
            None => Ok(Fft3d { size, iterations, field: None }),
        }
    }

    fn points(&self) -> usize {
        self.size.iter().product()
    }

    /// What a point holds at the start: something irregular, the same for the same point.
    fn first(&self, point: usize) -> C {
        let mut random = SplitMix::new(point as u64);
        Complex { re: random.fraction(), im: random.fraction() }
    }

    /// Transforms a plane along its rows and its columns.
    fn plane(&self, plane: &mut [C], rows: usize, back: bool) {
        let columns = plane.len() / rows;
        plane.chunks_exact_mut(columns).for_each(|row| transform(row, back));
        Self::columns(plane, rows, back);
    }

    /// Transforms a plane along its columns only.
    fn columns(plane: &mut [C], rows: usize, back: bool) {
        let columns = plane.len() / rows;
        let mut column = vec![C::default(); rows];
        for at in 0..columns {
            (0..rows).for_each(|row| column[row] = plane[row * columns + at]);
            transform(&mut column, back);
            (0..rows).for_each(|row| plane[row * columns + at] = column[row]);
        }
    }

    /// The waves of a turned plane after so many steps.
    fn evolve(&self, row: usize, spectrum: &[C], step: usize, into: &mut [C]) {
        let [planes, rows, columns] = self.size;
        let wave = |at: usize, extent: usize| {
            if at > extent / 2 { at as f64 - extent as f64 } else { at as f64 }
        };
        let ky = wave(row, rows);
        for plane in 0..planes {
            let kz = wave(plane, planes);
            for column in 0..columns {
                let kx = wave(column, columns);
                let decay =
                    -4.0 * ALPHA * std::f64::consts::PI.powi(2) * (kx * kx + ky * ky + kz * kz);
                let factor = (decay * step as f64).exp();
                let at = plane * columns + column;
                into[at] = Complex { re: spectrum[at].re * factor, im: spectrum[at].im * factor };
            }
        }
    }

    /// Operations of transforms along one direction of so many points.
    fn flops(points: usize, extent: usize) -> usize {
        5 * points * extent.ilog2() as usize
    }
}

impl Kernel for Fft3d {
    fn bytes(&self) -> u64 {
        3 * (self.points() * 16) as u64 + (1 << 18)
    }

    fn run(&mut self, machine: &mut Machine<'_, '_>) -> Result<()> {
        let [planes, rows, _] = self.size;
        let field = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        let spectrum = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        let waves = machine.dsm.alloc_at::<C>(self.points(), Placement::Pages)?;
        self.field = Some(field);
        let (planes, rows) = (machine.part(planes), machine.part(rows));
        let mut solver = Solver { fft: self, machine, field, spectrum, waves, planes, rows };
        solver.fill()?;
        solver.machine.dsm.barrier()?;
        solver.transform_planes()?;
        solver.machine.dsm.barrier()?;
        solver.transform_rows()?;
        solver.machine.dsm.barrier()?;
        for step in 1..=self.iterations {
            solver.evolve_rows(step)?;
            solver.machine.dsm.barrier()?;
            solver.transform_back(step == self.iterations)?;
            solver.machine.dsm.barrier()?;
        }
        Ok(())
    }

    fn result(&self, dsm: &Dsm<'_>) -> Result<Vec<f64>> {
        let Some(field) = self.field else { return Ok(Vec::new()) };
        Ok(dsm.view(field, 0..field.len())?.iter().flat_map(|value| [value.re, value.im]).collect())
    }

    fn sequential(&self) -> Vec<f64> {
        let [planes, rows, columns] = self.size;
        let mut field: Vec<C> = (0..self.points()).map(|point| self.first(point)).collect();
        field.chunks_exact_mut(rows * columns).for_each(|plane| self.plane(plane, rows, false));
        let turn = |from: &[C], planes: usize, rows: usize| -> Vec<C> {
            let places = (0..rows)
                .flat_map(|row| (0..planes).map(move |plane| (plane * rows + row) * columns));
            places.flat_map(|at| from[at..at + columns].iter().copied()).collect()
        };
        let mut spectrum = turn(&field, planes, rows);
        spectrum
            .chunks_exact_mut(planes * columns)
            .for_each(|plane| Self::columns(plane, planes, false));
        let mut waves = spectrum.clone();
        for step in 1..=self.iterations {
            for (row, into) in waves.chunks_exact_mut(planes * columns).enumerate() {
                self.evolve(
                    row,
                    &spectrum[row * planes * columns..][..planes * columns],
                    step,
                    into,
                );
                Self::columns(into, planes, true);
            }
            field = turn(&waves, rows, planes);
            field.chunks_exact_mut(rows * columns).for_each(|plane| self.plane(plane, rows, true));
        }
        field.into_iter().flat_map(|value| [value.re, value.im]).collect()
    }

    fn picture(&self, result: &[f64]) -> String {
        let [_, rows, columns] = self.size;
        let slice: Vec<f64> =
            result.chunks_exact(2).take(rows * columns).map(|value| value[0]).collect();
        picture::field("3D-FFT, the first plane", &slice, columns)
    }
}

/// One rank's part of the work.
struct Solver<'s, 'a, 'w> {
    fft: &'s Fft3d,
    machine: &'s mut Machine<'a, 'w>,
    field: Shared<C>,
    /// The transformed field, turned around.
    spectrum: Shared<C>,
    /// The spectrum after some steps.
    waves: Shared<C>,
    /// The planes of this rank, and its rows of the turned field.
    planes: Range<usize>,
    rows: Range<usize>,
}

impl Solver<'_, '_, '_> {
    /// Returns how many points a plane has, and a plane of the turned field.
    fn plane_points(&self) -> usize {
        self.fft.size[1] * self.fft.size[2]
    }

    fn turned_points(&self) -> usize {
        self.fft.size[0] * self.fft.size[2]
    }

    fn place(&self, plane: usize) -> Range<usize> {
        plane * self.plane_points()..(plane + 1) * self.plane_points()
    }

    fn turned_place(&self, row: usize) -> Range<usize> {
        row * self.turned_points()..(row + 1) * self.turned_points()
    }

    fn fill(&mut self) -> Result<()> {
        for at in self.planes.clone() {
            let plane: Vec<C> = self.place(at).map(|point| self.fft.first(point)).collect();
            self.machine.dsm.view_mut(self.field, self.place(at))?.copy_from(0, &plane);
        }
        Ok(())
    }

    /// Transforms the planes.
    fn transform_planes(&mut self) -> Result<()> {
        let mut plane = vec![C::default(); self.plane_points()];
        for at in self.planes.clone() {
            let view = self.machine.dsm.view_mut(self.field, self.place(at))?;
            view.copy_to(0, &mut plane);
            self.fft.plane(&mut plane, self.fft.size[1], false);
            view.copy_from(0, &plane);
            self.computes_plane();
        }
        Ok(())
    }

    /// Turns the field around, and transforms along the third direction.
    fn transform_rows(&mut self) -> Result<()> {
        let [planes, _, columns] = self.fft.size;
        let mut around = vec![C::default(); self.turned_points()];
        for row in self.rows.clone() {
            // From its own planes on, so that not all ranks ask the first one first.
            for at in (self.planes.start..planes).chain(0..self.planes.start) {
                let from = at * self.plane_points() + row * columns;
                let into = &mut around[at * columns..(at + 1) * columns];
                self.machine.dsm.view(self.field, from..from + columns)?.copy_to(0, into);
            }
            Fft3d::columns(&mut around, planes, false);
            let to = self.turned_place(row);
            self.machine.dsm.view_mut(self.spectrum, to)?.copy_from(0, &around);
            self.machine.computes(Fft3d::flops(self.turned_points(), planes));
        }
        Ok(())
    }

    /// Lets the waves decay, and transforms them back along the third direction.
    fn evolve_rows(&mut self, step: usize) -> Result<()> {
        let (planes, turned_points) = (self.fft.size[0], self.turned_points());
        let mut around = vec![C::default(); turned_points];
        let mut evolved = vec![C::default(); turned_points];
        for row in self.rows.clone() {
            let place = self.turned_place(row);
            self.machine.dsm.view(self.spectrum, place.clone())?.copy_to(0, &mut around);
            self.fft.evolve(row, &around, step, &mut evolved);
            Fft3d::columns(&mut evolved, planes, true);
            self.machine.dsm.view_mut(self.waves, place)?.copy_from(0, &evolved);
            self.machine.computes(Fft3d::flops(turned_points, planes) + 4 * turned_points);
        }
        Ok(())
    }

    /// Turns the waves around, and transforms the planes back; the last result is kept.
    fn transform_back(&mut self, is_last: bool) -> Result<()> {
        let [_, rows, columns] = self.fft.size;
        let mut plane = vec![C::default(); self.plane_points()];
        for at in self.planes.clone() {
            for row in (self.rows.start..rows).chain(0..self.rows.start) {
                let from = row * self.turned_points() + at * columns;
                let into = &mut plane[row * columns..(row + 1) * columns];
                self.machine.dsm.view(self.waves, from..from + columns)?.copy_to(0, into);
            }
            self.fft.plane(&mut plane, rows, true);
            self.computes_plane();
            if is_last {
                self.machine.dsm.view_mut(self.field, self.place(at))?.copy_from(0, &plane);
            }
        }
        Ok(())
    }

    fn computes_plane(&self) {
        let [_, rows, columns] = self.fft.size;
        let flops = |extent: usize| Fft3d::flops(self.plane_points(), extent);
        self.machine.computes(flops(rows) + flops(columns));
    }
}

/// The transform of a row whose length is a power of two: back, it is divided by the length.
fn transform(row: &mut [C], back: bool) {
    let len = row.len();
    if len < 2 {
        return;
    }
    let bits = len.ilog2();
    for at in 0..len {
        let other = at.reverse_bits() >> (usize::BITS - bits);
        if at < other {
            row.swap(at, other);
        }
    }
    let sign = if back { 1.0 } else { -1.0 };
    for level in 0..bits {
        let half = 1 << level;
        let angle = sign * std::f64::consts::PI / half as f64;
        for at in 0..half {
            let (sin, cos) = (angle * at as f64).sin_cos();
            for pair in (at..len).step_by(2 * half) {
                let (one, other) = (row[pair], row[pair + half]);
                let turned =
                    C { re: other.re * cos - other.im * sin, im: other.re * sin + other.im * cos };
                row[pair] = C { re: one.re + turned.re, im: one.im + turned.im };
                row[pair + half] = C { re: one.re - turned.re, im: one.im - turned.im };
            }
        }
    }
    if back {
        let scale = 1.0 / len as f64;
        row.iter_mut().for_each(|value| *value = C { re: value.re * scale, im: value.im * scale });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_that_of_the_reference() {
        let mut planner = rustfft::FftPlanner::<f64>::new();
        for len in [1, 2, 8, 64, 512] {
            let input: Vec<C> =
                (0..len).map(|at| C { re: (at as f64).sin(), im: (at * at % 7) as f64 }).collect();
            for back in [false, true] {
                let mut ours = input.clone();
                transform(&mut ours, back);
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
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    assert!(
                        (ours.re - theirs.re * scale).abs() < 1e-9
                            && (ours.im - theirs.im * scale).abs() < 1e-9,
                        "{len}"
                    );
                }
            }
        }
    }

    #[test]
    fn without_decay_the_field_comes_back() {
        let kernel = Fft3d { size: [4, 8, 16], iterations: 1, field: None };
        let back = kernel.sequential();
        for point in 0..kernel.points() {
            // One step of a slow decay changes next to nothing.
            assert!((back[2 * point] - kernel.first(point).re).abs() < 0.01, "{point}");
        }
    }
}
