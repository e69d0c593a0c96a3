# Device code for the architectures asked for: several, native, and an error for anything else, as
# for an nvcc that is too old.
# Builds a small project that includes cmake/CoppiceKernels.cmake, once per case, with nvcc.

if(NOT NVCC)
  message("skipped, because there is no nvcc")
  return()
endif()

# Configures and builds a kernel for `architecture`, and puts CMake's exit code and output into
# `result` and `output`.
function(build_kernel architecture)
  file(REMOVE_RECURSE "${WORK_DIR}")
  file(WRITE "${WORK_DIR}/small.cu" "#ifdef __CUDACC__\n__global__ void Small() {}\n#endif\n")
  file(WRITE "${WORK_DIR}/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.25)\n"
    "project(architectures LANGUAGES CXX)\n"
    "set(COPPICE_DEVICE_CODE ON)\n"
    "include(${SOURCE_DIR}/cmake/CoppiceKernels.cmake)\n"
    "add_library(kernels STATIC)\n"
    "coppice_kernels(kernels small.cu)\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${WORK_DIR}" -B "${WORK_DIR}/build"
            "-DCOPPICE_NVCC=${NVCC}" "-DCOPPICE_CUDA_ARCHITECTURE=${architecture}"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result EQUAL 0)
    execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}/build" --verbose
                    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  endif()
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(result "${result}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

build_kernel("100;80;90")
foreach(flag "compute_80,code=sm_80" "compute_90,code=sm_90" "compute_100,code=compute_100")
  if(NOT result EQUAL 0 OR NOT output MATCHES "${flag}")
    message(FATAL_ERROR "Three architectures, of which the newest has PTX, lack ${flag}: ${output}")
  endif()
endforeach()
if(output MATCHES "code=compute_[89]0")
  message(FATAL_ERROR "An older architecture has PTX too: ${output}")
endif()

build_kernel("native")
if(NOT result EQUAL 0 OR NOT output MATCHES "-arch=native")
  message(FATAL_ERROR "native does not build: ${output}")
endif()

foreach(wrong "sm_90" "80,90" "80;newest" "")
  build_kernel("${wrong}")
  if(result EQUAL 0 OR NOT output MATCHES "give SM versions, as 90 or \"80;90\", or native")
    message(FATAL_ERROR "\"${wrong}\" is not refused in words: ${output}")
  endif()
endforeach()

# An nvcc that says that it is older.
set(old "${WORK_DIR}_nvcc")
file(WRITE "${old}" "#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n")
file(CHMOD "${old}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
set(NVCC "${old}")
build_kernel("90")
if(result EQUAL 0 OR NOT output MATCHES "is of CUDA 11.8; kernels need CUDA 12.1 or later")
  message(FATAL_ERROR "An nvcc of 11.8 is not refused in words: ${output}")
endif()
