! Calls of Fortran 2008 with the module mpi_f08: typed handles, errors that are optional.
program fortran08
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 8
  integer :: me, ranks, to, from, i, failures, total, code, class
  integer, pointer :: memory(:)
  integer, asynchronous :: values(n), back(n), old, one, next
  type(c_ptr) :: base
  type(MPI_Win) :: win
  type(MPI_Request) :: requests(2)
  integer(kind=MPI_ADDRESS_KIND) :: place

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  to = mod(me + 1, ranks)
  from = mod(me + ranks - 1, ranks)
  failures = 0
  call MPI_Win_allocate(int(4 * n, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
  call c_f_pointer(base, memory, [n])
  memory = 0
  values = [(me * 10 + i, i = 1, n)]
  call MPI_Win_fence(0, win)
  place = 0
  call MPI_Put(values, n, MPI_INTEGER, to, place, n, MPI_INTEGER, win)
  call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
  do i = 1, n
     if (memory(i) /= from * 10 + i) failures = failures + 1
  end do
  call MPI_Barrier(MPI_COMM_WORLD)

  call MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win)
  call MPI_Rget(back, n, MPI_INTEGER, to, place, n, MPI_INTEGER, win, requests(1))
  one = 1
  place = 7
  call MPI_Raccumulate(one, 1, MPI_INTEGER, to, place, 1, MPI_INTEGER, MPI_SUM, win, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Win_flush(to, win)
  if (any(back(1:7) /= values(1:7))) failures = failures + 1
  next = 77
  one = me * 10 + 9
  call MPI_Compare_and_swap(next, one, old, MPI_INTEGER, to, place, win)
  call MPI_Win_unlock(to, win)
  if (old /= me * 10 + 9) failures = failures + 1
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win)
  call MPI_Win_unlock(me, win)
  if (memory(8) /= 77) failures = failures + 1

  ! An error comes back in the last argument.
  call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN)
  call MPI_Win_lock(MPI_LOCK_SHARED, ranks + 5, 0, win, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_RANK) failures = failures + 1
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Win_free(win)
  call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (me == 0 .and. total == 0) print '(A)', 'fortran08: 12 checks, OK'
  if (me == 0 .and. total /= 0) print '(A,I0,A)', 'fortran08: ', total, ' FAILED'
  call MPI_Finalize()
end program fortran08
