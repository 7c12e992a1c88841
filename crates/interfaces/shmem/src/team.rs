//! Teams: some PEs with numbers and collectives of their own.

use std::ffi::c_int;

use farside::Result;

use crate::context;
use crate::exit::{self, Call, OrExit};
use crate::runtime::{Runtime, TEAMS, TeamHandle, TeamState, find_team, runtime};

#[inline]
pub(crate) fn barrier(runtime: &Runtime, team: &TeamState, _call: Call) -> Result<()> {
    team.with(runtime, |team| team.barrier())
}

pub(crate) fn forget_all() {
    for handle in TEAMS.handles() {
        let _ = TEAMS.remove(handle);
    }
}

/// Makes the team of all members of `parent` that give the same colour, in the order of `key`.
fn split(
    runtime: &'static Runtime,
    parent: &TeamState,
    colour: Option<u64>,
    key: u64,
    contexts: c_int,
    call: Call,
) -> TeamHandle {
    let me = runtime.world.rank();
    let made = parent.with(runtime, |team| -> Result<_> {
        let Some(team) = team.split(colour, key)? else { return Ok(None) };
        let members = team.members().to_vec();
        Ok(Some((members, team.detach()?)))
    });
    let Some((members, group)) = made.or_exit(call) else {
        return TeamHandle::INVALID;
    };
    let own = runtime.another_context();
    let state = TeamState { contexts, ..TeamState::new(&members, me, Some(group), own) };
    let state = state.descends_from_shared(parent.is_shared);
    let number = TEAMS.insert(state).or_exit(call);
    TeamHandle::from_number(number)
}

/// Returns which member of a strided subset of `size` PEs number `pe` is; fails if the subset is
/// none of a team of `total`.
pub(crate) fn strided_index(
    total: usize,
    start: c_int,
    stride: c_int,
    size: c_int,
    pe: usize,
) -> Option<Option<usize>> {
    let (total, start, stride, size) =
        (total as i64, i64::from(start), i64::from(stride), i64::from(size));
    let last = start + stride * (size - 1);
    let is_inside = |pe: i64| (0..total).contains(&pe);
    if size < 1 || !is_inside(start) || !is_inside(last) || (stride == 0 && size > 1) {
        return None;
    }
    let distance = pe as i64 - start;
    let index = match stride {
        0 => (distance == 0).then_some(0),
        _ => (distance % stride == 0).then_some(distance / stride),
    };
    Some(index.filter(|index| (0..size).contains(index)).map(|index| index as usize))
}

/// Returns a colour for the members of a strided subset. PEs that name another subset get another
/// team: the standard wants one subset, and programs make a team of each PE's own.
fn subset_colour(start: c_int, stride: c_int, size: c_int) -> u64 {
    let word = |number: c_int| u64::from(number as u32);
    (word(start) << 40) ^ (word(stride) << 20) ^ word(size)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_team_my_pe(team: TeamHandle, call: Call) -> c_int {
    find_team(runtime(call), team, call).map_or(-1, |team| team.index as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_team_n_pes(team: TeamHandle, call: Call) -> c_int {
    find_team(runtime(call), team, call).map_or(-1, |team| team.size() as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_team_contexts(
    team: TeamHandle,
    num_contexts: *mut c_int,
    call: Call,
) -> c_int {
    match find_team(runtime(call), team, call) {
        None => -1,
        Some(state) => {
            if !num_contexts.is_null() {
                // SAFETY: by the specification it is an int of the caller's.
                unsafe { num_contexts.write(state.contexts) };
            }
            0
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_team_translate_pe(
    source: TeamHandle,
    pe: c_int,
    dest: TeamHandle,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let (Some(source), Some(dest)) =
        (find_team(runtime, source, call), find_team(runtime, dest, call))
    else {
        return -1;
    };
    let rank = usize::try_from(pe).ok().and_then(|pe| source.members.get(pe));
    let there = rank.and_then(|rank| dest.members.iter().position(|member| member == rank));
    there.map_or(-1, |index| index as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_team_split_strided(
    parent: TeamHandle,
    start: c_int,
    stride: c_int,
    size: c_int,
    num_contexts: c_int,
    team: *mut TeamHandle,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let mut made = TeamHandle::INVALID;
    let mut code = -1;
    if let Some(parent) = find_team(runtime, parent, call)
        && let Some(mine) = strided_index(parent.size(), start, stride, size, parent.index)
    {
        let key = mine.unwrap_or(0) as u64;
        let colour = mine.map(|_| subset_colour(start, stride, size));
        made = split(runtime, parent, colour, key, num_contexts, call);
        let members = find_team(runtime, made, call).map(TeamState::size);
        if members.is_some_and(|members| members != size as usize) {
            let members = members.unwrap_or(0);
            exit::end(
                call,
                &format!(
                    "of the {size} PEs of the new team, only {members} passed start {start}, \
                     stride {stride} and size {size}: all of them must pass the same numbers"
                ),
            );
        }
        code = 0;
    }
    if !team.is_null() {
        // SAFETY: by the specification it is a team of the caller's.
        unsafe { team.write(made) };
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn farside_shmem_team_split_2d(
    parent: TeamHandle,
    xrange: c_int,
    x_contexts: c_int,
    x_team: *mut TeamHandle,
    y_contexts: c_int,
    y_team: *mut TeamHandle,
    call: Call,
) -> c_int {
    let runtime = runtime(call);
    let (mut row, mut column, mut code) = (TeamHandle::INVALID, TeamHandle::INVALID, -1);
    if let Some(parent) = find_team(runtime, parent, call)
        && let Ok(range @ 1..) = usize::try_from(xrange)
    {
        let range = range.min(parent.size());
        let (x, y) = ((parent.index % range) as u64, (parent.index / range) as u64);
        row = split(runtime, parent, Some(y), x, x_contexts, call);
        column = split(runtime, parent, Some(x), y, y_contexts, call);
        code = 0;
    }
    for (to, team) in [(x_team, row), (y_team, column)] {
        if !to.is_null() {
            // SAFETY: by the specification it is a team of the caller's.
            unsafe { to.write(team) };
        }
    }
    code
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_team_destroy(team: TeamHandle, call: Call) {
    let runtime = runtime(call);
    if matches!(team, TeamHandle::INVALID) {
        return;
    }
    if matches!(team, TeamHandle::WORLD | TeamHandle::SHARED) {
        exit::end(call, &"the teams of the world and of shared memory cannot be destroyed");
    }
    context::forget_those_of(runtime, team, call);
    let state = TEAMS.remove(team.number()).or_exit(call);
    let TeamState { group, own, .. } = state;
    match (group, own) {
        (Some(group), Some(own)) => group.free(&own).or_exit(call),
        (Some(group), None) => {
            runtime.default.with(runtime, |context| group.free(context)).or_exit(call);
        }
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::strided_index;

    #[test]
    fn subsets_are_those_of_the_specification() {
        let members = |total, start, stride, size| -> Option<Vec<usize>> {
            let mut members = vec![usize::MAX; usize::try_from(size).unwrap_or(0)];
            for pe in 0..total {
                if let Some(index) = strided_index(total, start, stride, size, pe)? {
                    members[index] = pe;
                }
            }
            Some(members)
        };
        assert_eq!(members(10, 1, 3, 3), Some(vec![1, 4, 7]));
        assert_eq!(members(10, 9, -4, 3), Some(vec![9, 5, 1]));
        assert_eq!(members(10, 4, 0, 1), Some(vec![4]));
        assert_eq!(members(10, 4, 1000, 1), Some(vec![4]));
        for (start, stride, size) in
            [(0, 0, 2), (0, 4, 4), (-1, 1, 2), (10, 1, 1), (0, 1, 0), (0, 1, -1), (1, -1, 3)]
        {
            assert_eq!(members(10, start, stride, size), None, "{start} {stride} {size}");
        }
    }
}
