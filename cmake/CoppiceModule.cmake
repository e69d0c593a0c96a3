# How coppice declares libraries, tests and its package: one line per target. The layer order is
# checked here, at configure time.

# Warnings for our own sources; never exported. A designated initialiser may leave fields out: each
# has its default. g++ 12 claims uninitialised reads inside Abseil's inlined vectors.
add_library(coppice_build_flags INTERFACE)
target_compile_options(coppice_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers -Wno-maybe-uninitialized)

# coppice_module(<name> LAYER <n> [INTERFACE] [SOURCES ...] [HEADERS ...] [LINK ...]
#                [LINK_PRIVATE ...])
# Creates coppice_<name>, its alias coppice::<name> and its install rules. Headers are named
# relative to include/coppice. A link to a module of the same or a higher layer is an error.
function(coppice_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERFACE" "LAYER" "SOURCES;HEADERS;LINK;LINK_PRIVATE")
  set(target coppice_${name})
  set(scope PUBLIC)
  if(arg_INTERFACE)
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  else()
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:coppice_build_flags>
                          ${arg_LINK_PRIVATE})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  add_library(coppice::${name} ALIAS ${target})
  coppice_headers(${target} ${scope} ${arg_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${arg_LINK})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} COPPICE_LAYER ${arg_LAYER})
  coppice_check_layers(${target} ${arg_LAYER} ${arg_LINK} ${arg_LINK_PRIVATE})
  if(COPPICE_INSTALL)
    install(TARGETS ${target} EXPORT coppice-targets FILE_SET HEADERS FILE_SET lists)
  endif()
endfunction()

# Gives `target` its public headers. Each .h must compile alone, which the target
# all_verify_interface_header_sets checks; an .inc is a list that a header includes.
function(coppice_headers target scope)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/include/coppice/" OUTPUT_VARIABLE headers)
  set(lists ${headers})
  list(FILTER headers EXCLUDE REGEX "\\.inc$")
  list(FILTER lists INCLUDE REGEX "\\.inc$")
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers}
    FILE_SET lists TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${lists})
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
endfunction()

# Fails if one of the targets after `layer` is a coppice module that is not below that layer.
function(coppice_check_layers target layer)
  foreach(dependency IN LISTS ARGN)
    if(NOT dependency MATCHES "^coppice::")
      continue()
    endif()
    get_target_property(below ${dependency} COPPICE_LAYER)
    if(NOT below LESS layer)
      message(FATAL_ERROR
        "${target} (layer ${layer}) may not link ${dependency} (layer ${below}): a layer uses only "
        "the layers below it")
    endif()
  endforeach()
endfunction()

# coppice_test(<layer>/<name>_test [SOURCES ...] [LINK ...] [LABELS ...])
# Builds tests/<layer>/<name>_test.cc into one executable and registers it with CTest. With the
# label gpu it is for a machine that has one, and tools/gpu_check.sh runs its instances Cuda.
function(coppice_test path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;LABELS")
  string(REPLACE "/" "_" target "${path}")
  add_executable(${target} ${path}.cc ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE coppice_build_flags coppice_test_support
                        GTest::gmock GTest::gtest_main ${arg_LINK})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  add_test(NAME ${path} COMMAND ${target})
  set_tests_properties(${path} PROPERTIES FAIL_REGULAR_EXPRESSION "Running 0 tests")
  if(arg_LABELS)
    set_tests_properties(${path} PROPERTIES LABELS "${arg_LABELS}")
  endif()
  if("gpu" IN_LIST arg_LABELS)
    set_property(GLOBAL APPEND PROPERTY COPPICE_GPU_TESTS ${target})
  endif()
endfunction()

# Installs the export set and what find_package(coppice) runs.
function(coppice_install_package)
  include(CMakePackageConfigHelpers)
  set(destination "${CMAKE_INSTALL_LIBDIR}/cmake/coppice")
  install(EXPORT coppice-targets NAMESPACE coppice:: DESTINATION "${destination}")
  configure_package_config_file(cmake/coppiceConfig.cmake.in
    "${PROJECT_BINARY_DIR}/coppiceConfig.cmake" INSTALL_DESTINATION "${destination}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/coppiceConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/coppiceConfig.cmake"
                "${PROJECT_BINARY_DIR}/coppiceConfigVersion.cmake"
                cmake/CoppiceKernels.cmake
          DESTINATION "${destination}")
endfunction()
