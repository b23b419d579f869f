foreach(ranks 2 3 4)
  add_mpi_test("wire: mpi on ${ranks} ranks" wire_mpi_tests ${ranks} good)
  add_mpi_test("wire: mpi over emulated links on ${ranks} ranks" wire_mpi_tests ${ranks} shaped)
endforeach()
# By hand, because it takes 5 GiB: mpirun -np 2 wire_mpi_tests large. (Messages from 16 MiB on take
# the same path, and the good bodies have one.)
# The message, and the end of the whole job within the deadline (2 s) and some time to start.
add_mpi_failure_test("wire: mpi deadline names the silent rank" 12
                     "waited 2.0 s for rank 1 .promised block" wire_mpi_tests 3 never_sends)
add_mpi_failure_test("wire: mpi deadline over emulated links" 12
                     "waited 2.0 s for rank 1 .promised block" wire_mpi_tests 3 shaped_never_sends)
add_mpi_failure_test("wire: mpi rank that throws over emulated links" 12
                     "rank 1: loss is not finite in step 3" wire_mpi_tests 3 shaped_throws)
add_mpi_failure_test("wire: mpi rank that throws" 12 "rank 1: loss is not finite in step 3"
                     wire_mpi_tests 3 throws)
add_mpi_failure_test("wire: mpi message too long" 12
                     "rank 0 receives from rank 1 .odd block, tag 5, 8 bytes expected.*longer"
                     wire_mpi_tests 2 too_long)
add_mpi_failure_test("wire: mpi message too short" 12
                     "rank 0 receives from rank 1 .odd block, tag 5, 12 bytes expected.*8 bytes"
                     wire_mpi_tests 2 too_short)
add_mpi_failure_test("wire: mpi rank killed" 12 "signal 9" wire_mpi_tests 3 killed)
add_mpi_failure_test("wire: mpi rank stopped" 12 "waited 2.0 s for rank 1 .barrier"
                     wire_mpi_tests 3 stopped)
add_mpi_failure_test("wire: mpi rank that exits without abort" 12
                     "^loss is not finite in step 3" wire_mpi_tests 3 unwound)
