foreach(ranks 2 4)
  add_mpi_test("train: ${ranks} ranks over mpi equal one process" train_mpi_tests ${ranks})
endforeach()
