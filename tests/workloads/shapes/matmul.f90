! SPDX-License-Identifier: Apache-2.0
! A product of matrices too large to be inlined: the library's function, in its version for this processor.
subroutine fortran_loop(n) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), allocatable :: a(:, :), b(:, :), c(:, :)
  real(c_double), volatile :: total
  integer :: i

  allocate(a(n, n), b(n, n), c(n, n))
  call random_number(a)
  call random_number(b)
  do i = 1, 3
    c = matmul(a, b)
    total = c(1, 1)
  end do
  deallocate(a, b, c)
end subroutine
