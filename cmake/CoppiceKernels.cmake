# coppice_kernels(<target> <file.cu>...)
# Compiles block-style kernel sources (coppice/runtime/block_kernel.h) into <target>: each file once
# with the C++ compiler, for the host, and, with COPPICE_DEVICE_CODE, once into a fatbin (SASS for
# COPPICE_CUDA_ARCHITECTURE and PTX) that is embedded as read-only data.
#
# COPPICE_CUDA_ARCHITECTURE is a list of SM versions, as "80;90", of which the newest has PTX too,
# or native: the GPUs of the machine that builds. Where it has none, nvcc warns and takes its
# default.
#
# A file name.cu defines one image with COPPICE_KERNEL_IMAGE(name, ...). Host kernels are optimised
# in every build type, and without contraction into fused multiply-adds: a result then has the same
# bits in the vectorised part of a loop, in its remainder, and at every amount of padding.

# Where nobody asks for it, nvcc runs only on a machine that has a GPU: for the library alone it
# takes half a minute.
set(COPPICE_GPU_HERE OFF)
if(EXISTS /dev/nvidiactl OR EXISTS /dev/dxg)
  set(COPPICE_GPU_HERE ON)
endif()
option(COPPICE_DEVICE_CODE "Compile kernels for the GPU where nvcc is found" ${COPPICE_GPU_HERE})

find_program(COPPICE_NVCC nvcc PATHS /usr/local/cuda/bin DOC "nvcc, for device code; optional")

# The first whose kernels may have the 32,760 bytes of parameters that staging takes.
set(COPPICE_NVCC_MIN 12.1)
if(COPPICE_DEVICE_CODE AND COPPICE_NVCC)
  execute_process(COMMAND "${COPPICE_NVCC}" --version OUTPUT_VARIABLE nvcc_version)
  string(REGEX REPLACE ".*release ([0-9.]+).*" "\\1" nvcc_version "${nvcc_version}")
  if(NOT nvcc_version VERSION_GREATER_EQUAL COPPICE_NVCC_MIN)
    message(FATAL_ERROR
      "${COPPICE_NVCC} is of CUDA ${nvcc_version}; kernels need CUDA ${COPPICE_NVCC_MIN} or later: "
      "give another by -DCOPPICE_NVCC=, or build without device code, by -DCOPPICE_DEVICE_CODE=OFF")
  endif()
endif()

# Puts what tells nvcc the architectures into `result`.
function(coppice_device_flags result)
  if(COPPICE_CUDA_ARCHITECTURE STREQUAL "native")
    set(${result} -arch=native PARENT_SCOPE)
    return()
  endif()
  set(flags)
  foreach(version IN LISTS COPPICE_CUDA_ARCHITECTURE)
    if(NOT version MATCHES "^[1-9][0-9]+[af]?$")
      set(flags)
      break()
    endif()
    list(APPEND flags -gencode arch=compute_${version},code=sm_${version})
  endforeach()
  if(NOT flags)
    message(FATAL_ERROR
      "COPPICE_CUDA_ARCHITECTURE is \"${COPPICE_CUDA_ARCHITECTURE}\"; give SM versions, as 90 or "
      "\"80;90\", or native")
  endif()
  set(versions ${COPPICE_CUDA_ARCHITECTURE})
  list(SORT versions COMPARE NATURAL)
  list(POP_BACK versions newest)
  list(APPEND flags -gencode arch=compute_${newest},code=compute_${newest})
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

function(coppice_kernels target)
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME_WE)
    get_filename_component(path "${source}" ABSOLUTE)
    # A .cc that includes the kernel file, so that no file has two languages.
    set(host "${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}_kernels.cc")
    set(content "#include \"${path}\"\n")
    set(depends "${path}")
    if(COPPICE_DEVICE_CODE AND COPPICE_NVCC)
      set(fatbin "${CMAKE_CURRENT_BINARY_DIR}/${target}_${name}.fatbin")
      coppice_device_flags(architectures)
      list(JOIN COPPICE_CUDA_ARCHITECTURE ", " versions)
      set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
      add_custom_command(OUTPUT "${fatbin}"
        COMMAND "${COPPICE_NVCC}" -std=c++20 -O3 -fatbin --no-compress
                ${architectures}
                "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
                -MD -MF "${fatbin}.d" -o "${fatbin}" "${path}"
        DEPENDS "${path}" DEPFILE "${fatbin}.d" COMMAND_EXPAND_LISTS VERBATIM
        COMMENT "Compiling ${name}.cu for SM ${versions}")
      list(APPEND depends "${fatbin}")
      string(PREPEND content "#define COPPICE_HAS_FATBIN 1\n")
      string(APPEND content
        "__asm__(\".pushsection .rodata\\n.balign 16\\n\"\n"
        "        \".global coppice_${name}_fatbin\\n.hidden coppice_${name}_fatbin\\n\"\n"
        "        \"coppice_${name}_fatbin:\\n.incbin \\\"${fatbin}\\\"\\n.popsection\\n\");\n")
    endif()
    file(GENERATE OUTPUT "${host}" CONTENT "${content}")
    target_sources(${target} PRIVATE "${host}")
    set_source_files_properties("${host}" PROPERTIES
      OBJECT_DEPENDS "${depends}" COMPILE_OPTIONS "-O3;-ffp-contract=off"
      SKIP_PRECOMPILE_HEADERS ON
      SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
