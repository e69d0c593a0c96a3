# How coppice declares libraries, tests and its package: one line per target. The layer order is
# checked here, at configure time.

# Warnings for our own sources; never exported. A designated initialiser may leave fields out: each
# has its default. g++ 12 claims uninitialised reads inside Abseil's inlined vectors; its pragmas
# for loops are for it alone, and clang sees what libstdc++ itself uses of what is deprecated.
add_library(coppice_build_flags INTERFACE)
target_compile_options(coppice_build_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  "$<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas;-Wno-deprecated-declarations>")

# coppice_module(<name> LAYER <n> [INTERFACE] [PROGRAMS_ONLY] [SOURCES ...] [HEADERS ...] [LINK ...]
#                [LINK_PRIVATE ...])
# Creates coppice_<name>, its alias coppice::<name> and its install rules. Headers are named
# relative to include/coppice. A link to a module of the same or a higher layer is an error, and so
# is one to a module that is PROGRAMS_ONLY: it stands on its layer, and no module on it.
function(coppice_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERFACE;PROGRAMS_ONLY" "LAYER"
                        "SOURCES;HEADERS;LINK;LINK_PRIVATE")
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
    coppice_precompile(library ${target})
    coppice_unite(${target})
  endif()
  add_library(coppice::${name} ALIAS ${target})
  coppice_headers(${target} ${scope} ${arg_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${arg_LINK})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} COPPICE_LAYER ${arg_LAYER}
                        COPPICE_PROGRAMS_ONLY ${arg_PROGRAMS_ONLY})
  coppice_check_layers(${target} ${arg_LAYER} ${arg_LINK} ${arg_LINK_PRIVATE})
  if(COPPICE_INSTALL)
    coppice_install(${target} EXPORT coppice-targets FILE_SET HEADERS FILE_SET lists)
  endif()
endfunction()

# coppice_install(<target> <argument of install(TARGETS)>...)
# Installs a target without what only debuggers read, unless it is a Debug build: a stripped archive
# keeps the symbols that linkers need. COPPICE_INSTALL_FOLDER of the target is the folder below the
# usual one that it goes to, as one of the arguments says.
function(coppice_install target)
  install(TARGETS ${target} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY COPPICE_INSTALLED ${target})
  get_target_property(type ${target} TYPE)
  set(folder "${CMAKE_INSTALL_LIBDIR}")
  set(option --strip-debug)
  if(type STREQUAL "SHARED_LIBRARY")
    set(option --strip-unneeded)
  elseif(type STREQUAL "EXECUTABLE")
    set(folder "${CMAKE_INSTALL_BINDIR}")
    set(option --strip-all)
  endif()
  get_target_property(own_folder ${target} COPPICE_INSTALL_FOLDER)
  if(own_folder)
    string(APPEND folder "/${own_folder}")
  endif()
  if(CMAKE_STRIP AND NOT type STREQUAL "INTERFACE_LIBRARY")
    install(CODE "
      if(NOT CMAKE_INSTALL_CONFIG_NAME STREQUAL \"Debug\")
        execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND \"${CMAKE_STRIP}\" ${option}
          \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\")
      endif()")
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

# Fails if one of the targets after `layer` is a coppice module that is not below that layer, or one
# that only programs link, unless it is for programs itself.
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
    get_target_property(programs_only ${dependency} COPPICE_PROGRAMS_ONLY)
    get_target_property(own_programs_only ${target} COPPICE_PROGRAMS_ONLY)
    if(programs_only AND NOT own_programs_only)
      message(FATAL_ERROR "${target} may not link ${dependency}: only programs do")
    endif()
  endforeach()
endfunction()

# coppice_test(<folder>/<name>_test [ALONE] [PROGRAM <name>] [SOURCES ...] [LINK ...] [LABELS ...]
#              [COST <seconds>])
# Adds <folder>/<name>_test.cc to the program <folder>_tests, or to the one that PROGRAM names, and
# registers it with CTest, which runs that program for the tests of this file only. SOURCES and LINK
# become part of the program. ALONE makes a program of the test, for what a program has once: its
# exported symbols, its hooks. COST is about how long it takes; CTest starts the longest first.
#
# Where COPPICE_SANITIZED_TESTS is off, programs in COPPICE_SANITIZED_PROGRAMS, which a run of the
# sanitizers' presets has as well, are not compiled, and their tests are disabled.
#
# With the label gpu, which goes with ALONE, it is for a machine that has one, and
# tools/gpu_check.sh runs its instances Cuda; <path>_cuda runs them on the emulated libcuda.so.1.
function(coppice_test path)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "PROGRAM;COST" "SOURCES;LINK;LABELS")
  get_filename_component(folder "${path}" DIRECTORY)
  set(target ${folder}_tests)
  set(chosen --test=${path})
  if(arg_ALONE)
    string(REPLACE "/" "_" target "${path}")
    set(chosen)
  elseif(arg_PROGRAM)
    set(target ${arg_PROGRAM})
  endif()
  if(NOT TARGET ${target})
    add_executable(${target})
    # Without a thread in any of its sources it has none that is compiled: see below.
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${target} PRIVATE coppice_build_flags coppice_test_main)
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  endif()
  coppice_starts_threads(threads ${path}.cc ${arg_SOURCES})
  if(threads AND NOT target IN_LIST COPPICE_TSAN_EXCEPT)
    add_dependencies(threaded_tests ${target})
  else()
    list(APPEND arg_LABELS one_thread)
    if(COPPICE_THREADED_TESTS_ONLY)  # It is not run either: a source that is no source.
      set_source_files_properties(${path}.cc PROPERTIES HEADER_FILE_ONLY ON)
    endif()
  endif()
  target_sources(${target} PRIVATE ${path}.cc)
  set(disabled OFF)
  if(NOT COPPICE_SANITIZED_TESTS AND target IN_LIST COPPICE_SANITIZED_PROGRAMS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    set(disabled ON)
  endif()
  foreach(source IN LISTS arg_SOURCES)
    get_target_property(sources ${target} SOURCES)
    if(NOT source IN_LIST sources)
      target_sources(${target} PRIVATE ${source})
    endif()
  endforeach()
  target_link_libraries(${target} PRIVATE ${arg_LINK})
  add_test(NAME ${path} COMMAND ${target} ${chosen})
  set_tests_properties(${path} PROPERTIES
    FAIL_REGULAR_EXPRESSION "Running 0 tests" DISABLED ${disabled})
  if(arg_COST)
    set_tests_properties(${path} PROPERTIES COST ${arg_COST})
  endif()
  if(arg_LABELS)
    set_tests_properties(${path} PROPERTIES LABELS "${arg_LABELS}")
  endif()
  if("gpu" IN_LIST arg_LABELS)
    set_property(GLOBAL APPEND PROPERTY COPPICE_GPU_TESTS ${target})
    if(COPPICE_DEVICE_CODE AND COPPICE_NVCC)
      add_test(NAME ${path}_cuda COMMAND ${target} --gtest_filter=*/Cuda)
      coppice_run_on_emulated_cuda(${path}_cuda)
    endif()
  endif()
endfunction()

# Has a registered test find the emulated libcuda.so.1 where it loads CUDA's, and fail if that finds
# anything wrong.
function(coppice_run_on_emulated_cuda test)
  set_tests_properties(${test} PROPERTIES
    ENVIRONMENT "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:coppice_emulated_cuda>"
    FAIL_REGULAR_EXPRESSION "Running 0 tests;libcuda.so.1: finding")
endfunction()

# Sets `result` to whether tests of these sources start threads, or have a session start one: its
# recorder in the background, or the writer of its trace. All others are labelled one_thread, which
# ThreadSanitizer has nothing to say of.
function(coppice_starts_threads result)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" lines LIMIT_COUNT 1
         REGEX "std::j?thread|in_background|trace\\.path|TraceOptions|\\.trace = ")
    if(lines)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} FALSE PARENT_SCOPE)
endfunction()

# Installs the export set, what find_package(coppice) runs, the samples and the licence; and makes
# the target coppice_installed, which builds what `cmake --install` asks for and nothing else.
function(coppice_install_package)
  get_property(installed GLOBAL PROPERTY COPPICE_INSTALLED)
  add_custom_target(coppice_installed)
  add_dependencies(coppice_installed ${installed})
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
  install(DIRECTORY samples DESTINATION "${CMAKE_INSTALL_DATADIR}/coppice")
  install(FILES LICENSE ${COPPICE_NOTICES} DESTINATION "${CMAKE_INSTALL_DOCDIR}")
  file(RELATIVE_PATH coppice_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  configure_file(cmake/coppice.pc.in "${PROJECT_BINARY_DIR}/coppice.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/coppice.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  coppice_describe_archives()
endfunction()

# What `cpack` makes of an install tree: coppice-<version>-linux-<processor>.tar.gz, and a .deb
# where dpkg is. Its C library and command are for other machines with COPPICE_STATIC; the archives
# of C++ need the packages that they were built with.
function(coppice_describe_archives)
  set(CPACK_GENERATOR TGZ)
  find_program(COPPICE_DPKG dpkg DOC "dpkg, for a .deb; optional")
  if(COPPICE_DPKG)
    list(APPEND CPACK_GENERATOR DEB)
  endif()
  string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" machine)
  set(CPACK_PACKAGE_VENDOR "coppice")
  set(CPACK_PACKAGE_CONTACT "The coppice authors")
  set(CPACK_PACKAGE_FILE_NAME "coppice-${PROJECT_VERSION}-${machine}")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_NAME coppice-dev)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34), libgcc-s1")
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, libabsl-dev, libfmt-dev, libssl-dev, pkg-config")
  include(CPack)
endfunction()
