C     Calls of Fortran 77 with mpif.h: a ring of puts, a sum, a window of
C     memory that is the program's own.
      program fortran77
      implicit none
      include 'mpif.h'
      integer n
      parameter (n = 16)
      integer ierr, me, ranks, to, from, win, i, failures, total
      integer memory(n), values(n), back(n), old
      integer (kind=MPI_ADDRESS_KIND) bytes, place
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, me, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
      to = mod(me + 1, ranks)
      from = mod(me + ranks - 1, ranks)
      failures = 0
      do i = 1, n
         memory(i) = 0
         values(i) = me * 100 + i
      end do
      bytes = n * 4
      call MPI_WIN_CREATE(memory, bytes, 4, MPI_INFO_NULL,
     &     MPI_COMM_WORLD, win, ierr)
      call MPI_WIN_FENCE(0, win, ierr)
      place = 0
      call MPI_PUT(values, n, MPI_INTEGER, to, place, n, MPI_INTEGER,
     &     win, ierr)
      call MPI_WIN_FENCE(0, win, ierr)
      do i = 1, n
         if (memory(i) .ne. from * 100 + i) failures = failures + 1
      end do
      call MPI_GET(back, n, MPI_INTEGER, to, place, n, MPI_INTEGER,
     &     win, ierr)
      call MPI_WIN_FENCE(0, win, ierr)
      do i = 1, n
         if (back(i) .ne. me * 100 + i) failures = failures + 1
      end do
      call MPI_ACCUMULATE(values, 1, MPI_INTEGER, to, place, 1,
     &     MPI_INTEGER, MPI_SUM, win, ierr)
      call MPI_WIN_FENCE(MPI_MODE_NOSUCCEED, win, ierr)
      if (memory(1) .ne. 2 * (from * 100 + 1)) failures = failures + 1
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_WIN_LOCK(MPI_LOCK_EXCLUSIVE, to, 0, win, ierr)
      place = 3
      call MPI_FETCH_AND_OP(1, old, MPI_INTEGER, to, place, MPI_SUM,
     &     win, ierr)
      call MPI_WIN_UNLOCK(to, win, ierr)
      if (old .ne. me * 100 + 4) failures = failures + 1
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_WIN_FREE(win, ierr)
      call MPI_ALLREDUCE(failures, total, 1, MPI_INTEGER, MPI_SUM,
     &     MPI_COMM_WORLD, ierr)
      if (me .eq. 0 .and. total .eq. 0) then
         print '(A)', 'fortran77: 35 checks, OK'
      else if (me .eq. 0) then
         print '(A,I0,A)', 'fortran77: ', total, ' FAILED'
      end if
      call MPI_FINALIZE(ierr)
      end
