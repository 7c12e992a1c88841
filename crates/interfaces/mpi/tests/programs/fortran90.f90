! Calls of Fortran 90 with the module mpi: allocated windows, datatypes, locks, PSCW.
program fortran90
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 12
  integer :: ierr, me, ranks, to, from, win, i, failures, total, column, world, group
  integer :: size_of_double, request
  double precision, pointer :: memory(:)
  double precision :: values(n), back(9), old
  type(c_ptr) :: base
  integer(kind=MPI_ADDRESS_KIND) :: bytes, place

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  to = mod(me + 1, ranks)
  from = mod(me + ranks - 1, ranks)
  failures = 0
  call MPI_Type_size(MPI_DOUBLE_PRECISION, size_of_double, ierr)
  bytes = n * size_of_double
  call MPI_Win_allocate(bytes, size_of_double, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
  call c_f_pointer(base, memory, [n])
  memory = -1
  values = [(me * 10.0d0 + i, i = 1, n)]

  ! A row of a matrix that is stored by columns.
  call MPI_Type_vector(3, 1, 4, MPI_DOUBLE_PRECISION, column, ierr)
  call MPI_Type_commit(column, ierr)
  call MPI_Win_fence(0, win, ierr)
  place = 1
  call MPI_Put(values, 3, MPI_DOUBLE_PRECISION, to, place, 1, column, win, ierr)
  call MPI_Win_fence(0, win, ierr)
  do i = 1, 3
     call check(i, memory(2 + 4 * (i - 1)) == from * 10.0d0 + i)
  end do
  call check(4, memory(1) == -1 .and. memory(3) == -1)
  call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)

  ! Passive targets, with requests.
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Win_lock_all(0, win, ierr)
  call MPI_Rget(back, 1, column, to, place, 1, column, win, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call check(5, back(1) == me * 10.0d0 + 1 .and. back(9) == me * 10.0d0 + 3)
  place = 0
  call MPI_Fetch_and_op(2.0d0, old, MPI_DOUBLE_PRECISION, to, place, MPI_SUM, win, ierr)
  call MPI_Win_flush(to, win, ierr)
  call check(6, old == -1)
  call MPI_Win_unlock_all(win, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)

  ! General active targets.
  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  call MPI_Group_incl(world, 1, [from], group, ierr)
  call MPI_Win_post(group, 0, win, ierr)
  call MPI_Group_free(group, ierr)
  call MPI_Group_incl(world, 1, [to], group, ierr)
  call MPI_Win_start(group, 0, win, ierr)
  place = n - 1
  call MPI_Put(values, 1, MPI_DOUBLE_PRECISION, to, place, 1, MPI_DOUBLE_PRECISION, win, ierr)
  call MPI_Win_complete(win, ierr)
  call MPI_Win_wait(win, ierr)
  call check(7, memory(n) == from * 10.0d0 + 1)
  call check(8, memory(1) == 1)

  call MPI_Group_free(group, ierr)
  call MPI_Group_free(world, ierr)
  call MPI_Type_free(column, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Win_free(win, ierr)
  call check(9, win == MPI_WIN_NULL)
  call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (me == 0 .and. total == 0) print '(A)', 'fortran90: 9 checks, OK'
  if (me == 0 .and. total /= 0) print '(A,I0,A)', 'fortran90: ', total, ' FAILED'
  call MPI_Finalize(ierr)

contains

  subroutine check(number, holds)
    integer, intent(in) :: number
    logical, intent(in) :: holds
    if (holds) return
    failures = failures + 1
    print '(A,I0,A,I0,A)', 'rank ', me, ': check ', number, ' does not hold'
  end subroutine check
end program fortran90
