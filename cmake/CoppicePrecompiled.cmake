# coppice_precompile(<set> <target>...)
# Parses the headers of packages once for all targets of a set, in place of once per source. A set
# is targets whose flags agree, because a compiler takes what it has parsed only for the same flags:
#
#   library   position-independent, as what an installed coppice links; the command's code too
#   tests     GoogleTest too
#
# The headers of coppice are in none of them, so that a change of one rebuilds what includes it and
# nothing else. A source still includes what it uses: where COPPICE_PRECOMPILED_HEADERS is off, as
# in tools/lint.sh and in a project that adds coppice as a folder, each is parsed alone.

option(COPPICE_PRECOMPILED_HEADERS "Parse the headers of packages once" ${PROJECT_IS_TOP_LEVEL})

set(COPPICE_PRECOMPILED_COMMON
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstddef> <cstdint> <cstdio>
  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <string>
  <string_view> <system_error> <thread> <utility> <vector>
  <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h>
  <absl/functional/any_invocable.h> <absl/status/status.h> <absl/status/statusor.h> <fmt/format.h>)
set(COPPICE_PRECOMPILED_COMMON_LINK
  absl::any_invocable absl::flat_hash_map absl::inlined_vector absl::statusor)
set(COPPICE_PRECOMPILED_library <fmt/ranges.h> <nlohmann/json.hpp>)
set(COPPICE_PRECOMPILED_library_LINK nlohmann_json::nlohmann_json)
set(COPPICE_PRECOMPILED_tests <gmock/gmock.h> <gtest/gtest.h> <filesystem> <fstream> <sstream>)
set(COPPICE_PRECOMPILED_tests_LINK GTest::gmock)

# coppice_unite(<target>...)
# Compiles several sources of a target as one, because most of the time of a small source goes into
# headers that its neighbours include too. Names in anonymous namespaces must then differ within a
# target. Off where a source is to be compiled again by itself: in tools/lint.sh, the preset dev and
# a project that adds coppice as a folder.
option(COPPICE_UNITE_SOURCES "Compile several sources of a library as one" ${PROJECT_IS_TOP_LEVEL})

set(COPPICE_UNITED 32)
function(coppice_unite)
  if(COPPICE_UNITE_SOURCES)
    set_target_properties(${ARGN} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${COPPICE_UNITED})
  endif()
endfunction()

# coppice_unite_apart(<target> <list>...)
# Compiles the sources of each list, which is named by its variable, as one with no others, so that
# how they are optimised does not depend on which others there are. In Debug nothing is optimised
# that counts.
function(coppice_unite_apart target)
  if(NOT COPPICE_UNITE_SOURCES OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    return()
  endif()
  get_target_property(others ${target} SOURCES)
  foreach(list IN LISTS ARGN)
    list(REMOVE_ITEM others ${${list}})
    set_source_files_properties(${${list}} PROPERTIES UNITY_GROUP ${list})
  endforeach()
  list(LENGTH others count)
  math(EXPR groups "(${count} + ${COPPICE_UNITED} / 2) / ${COPPICE_UNITED}")
  set(i 0)
  foreach(source IN LISTS others)
    math(EXPR group "${i} * ${groups} / ${count}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP others_${group})
    math(EXPR i "${i} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

function(coppice_precompile set)
  if(NOT COPPICE_PRECOMPILED_HEADERS)
    return()
  endif()
  set(owner coppice_precompiled_${set})
  if(NOT TARGET ${owner})
    set(source "${PROJECT_BINARY_DIR}/${owner}.cc")
    file(GENERATE OUTPUT "${source}" CONTENT "// Owns the precompiled headers of a set.\n")
    add_library(${owner} OBJECT "${source}")
    target_compile_features(${owner} PRIVATE cxx_std_20)
    target_link_libraries(${owner} PRIVATE
      coppice_build_flags ${fmt} ${COPPICE_PRECOMPILED_COMMON_LINK}
      ${COPPICE_PRECOMPILED_${set}_LINK})
    target_precompile_headers(${owner} PRIVATE
      ${COPPICE_PRECOMPILED_COMMON} ${COPPICE_PRECOMPILED_${set}})
    if(set STREQUAL "library")
      set_target_properties(${owner} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
  endif()
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    if(set STREQUAL "library")
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
  endforeach()
endfunction()

# coppice_precompile_folder(<set> [<type>...])
# Does it for every library, and whatever other type of target, that the calling folder has declared
# so far. CMake makes programs independent of their position otherwise than libraries.
function(coppice_precompile_folder set)
  set(types STATIC_LIBRARY OBJECT_LIBRARY ${ARGN})
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type IN_LIST types AND NOT target MATCHES "^coppice_precompiled_")
      coppice_precompile(${set} ${target})
    endif()
  endforeach()
endfunction()
