! Attributes of windows, which are addresses in Fortran.
program fortran_attributes
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: ierr, me, win, failures, total
  type(c_ptr) :: base
  integer(kind=MPI_ADDRESS_KIND) :: bytes, found
  logical :: is_found

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  failures = 0
  bytes = 96
  call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, found, is_found, ierr)
  if (.not. is_found .or. found /= bytes) failures = failures + 1
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, found, is_found, ierr)
  if (.not. is_found .or. found /= 8) failures = failures + 1
  call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, found, is_found, ierr)
  if (.not. is_found .or. found /= MPI_WIN_FLAVOR_ALLOCATE) failures = failures + 1
  call MPI_Win_free(win, ierr)
  call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (me == 0 .and. total == 0) print '(A)', 'fortran_attributes: 3 checks, OK'
  if (me == 0 .and. total /= 0) print '(A,I0,A)', 'fortran_attributes: ', total, ' FAILED'
  call MPI_Finalize(ierr)
end program fortran_attributes
