# Goal: coppice.h is C11 and C++20 to gcc and to clang, without a warning, and the C sample is built
# by both and runs.
# Method: each compiler that is there, on the header's table of functions and on the sample.
#   cmake -DC_COMPILERS=<gcc;clang> -DCXX_COMPILERS=<g++;clang++> -DROOT=<sources>
#         -DLIBRARY=<libcoppice.so> -DOUT=<folder> -P compilers_test.cmake
set(warnings -Wall -Wextra -Wpedantic -Werror)
set(header "${ROOT}/tests/capi/abi_subject.c")
set(sample "${ROOT}/samples/load_package.c")
set(missing)
file(MAKE_DIRECTORY "${OUT}")
get_filename_component(folder "${LIBRARY}" DIRECTORY)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGV}:\n${said}")
  endif()
endfunction()

foreach(compiler IN LISTS C_COMPILERS)
  if(NOT EXISTS "${compiler}")
    list(APPEND missing "${compiler}")
    continue()
  endif()
  get_filename_component(name "${compiler}" NAME)
  set(program "${OUT}/load_package_${name}")
  run("${compiler}" -std=c11 ${warnings} "-I${ROOT}/include" -fsyntax-only "${header}")
  run("${compiler}" -std=c11 ${warnings} "-I${ROOT}/include" "${sample}" -o "${program}"
      "${LIBRARY}" "-Wl,-rpath,${folder}")
  run("${program}" "${ROOT}/samples/triton_kernels.zip")
endforeach()
foreach(compiler IN LISTS CXX_COMPILERS)
  if(NOT EXISTS "${compiler}")
    list(APPEND missing "${compiler}")
    continue()
  endif()
  run("${compiler}" -std=c++20 ${warnings} "-I${ROOT}/include" -fsyntax-only -x c++ "${header}")
endforeach()
if(missing)
  message("skipped in part, because these are missing: ${missing}")
endif()
