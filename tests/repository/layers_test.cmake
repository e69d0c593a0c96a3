# The layer check: a link to a lower layer configures, a link to the same layer or upward does not,
# and no link of a module to one that only programs link.
# Configures a small project that includes cmake/CoppiceModule.cmake, once per case.

# Configures modules `low` (layer 1) and `high` (layer 2), the first one linking `low_link` and the
# second one `high_link`, and puts CMake's exit code and output into `result` and `output`.
function(configure_project name low_link high_link)
  set(project "${WORK_DIR}/${name}")
  file(REMOVE_RECURSE "${project}")
  file(WRITE "${project}/include/coppice/x.h" "#pragma once\n")
  file(WRITE "${project}/CMakeLists.txt"
    "cmake_minimum_required(VERSION 3.25)\n"
    "project(layers LANGUAGES CXX)\n"
    "include(${SOURCE_DIR}/cmake/CoppiceModule.cmake)\n"
    "coppice_module(same INTERFACE LAYER 1 HEADERS x.h)\n"
    "coppice_module(top INTERFACE LAYER 2 HEADERS x.h)\n"
    "coppice_module(driver INTERFACE PROGRAMS_ONLY LAYER 1 HEADERS x.h)\n"
    "add_library(program INTERFACE)\n"
    "target_link_libraries(program INTERFACE coppice::driver)\n"
    "coppice_module(low INTERFACE LAYER 1 HEADERS x.h LINK ${low_link})\n"
    "coppice_module(high INTERFACE LAYER 2 HEADERS x.h LINK ${high_link})\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${project}" -B "${project}/build"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  set(result "${result}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

configure_project(downward "" "coppice::low")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "A downward link was refused: ${output}")
endif()

configure_project(upward "coppice::top" "")
if(result EQUAL 0 OR NOT output MATCHES
   "coppice_low \\(layer 1\\) may not link coppice::top \\(layer 2\\)")
  message(FATAL_ERROR "An upward link was not refused by name: ${output}")
endif()

configure_project(sideways "coppice::same" "")
if(result EQUAL 0 OR NOT output MATCHES
   "coppice_low \\(layer 1\\) may not link coppice::same \\(layer 1\\)")
  message(FATAL_ERROR "A link within a layer was not refused by name: ${output}")
endif()

configure_project(programs "" "coppice::driver")
if(result EQUAL 0 OR NOT output MATCHES
   "coppice_high may not link coppice::driver: only programs do")
  message(FATAL_ERROR "A link to what only programs link was not refused by name: ${output}")
endif()
