# With COPPICE_STATIC what is built runs on machines without the packages it was built with.

set(COPPICE_STATIC_ARCHIVES "" CACHE PATH
    "Folder of position-independent archives, which COPPICE_STATIC prefers to those of packages")

# Sets `result` to the archive that stands for a shared library: that of COPPICE_STATIC_ARCHIVES, or
# the one beside the library, or nothing.
function(coppice_find_archive result library)
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" beside "${library}")
  get_filename_component(name "${beside}" NAME)
  set(${result} "" PARENT_SCOPE)
  foreach(archive IN ITEMS "${COPPICE_STATIC_ARCHIVES}/${name}" "${beside}")
    if(EXISTS "${archive}")
      set(${result} "${archive}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# coppice_link_statically()
# Links every program and shared library of the calling folder, and of folders added after it, with
# archives in place of the shared libraries that find_package found, and so with the C++ runtime.
# libc stays shared, because the CUDA driver is loaded by it when a program runs; and so does
# libgcc_s, by which libc unwinds the stack of a thread that it ends: a second unwinder on that
# stack aborts. libc's own package asks for it. Packages without an archive must be headers only.
#
# Debian's archives are for programs alone: libcoppice.so and the extension of Python take
# position-independent ones, which tools/release.sh makes of the same sources.
function(coppice_link_statically)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "SHARED_LIBRARY")
      continue()
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      get_target_property(library ${target} IMPORTED_LOCATION_${configuration})
      coppice_find_archive(archive "${library}")
      if(archive)
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
      endif()
    endforeach()
  endforeach()
  # What comes from archives is no part of a library's surface, and nothing else stands in for it.
  add_link_options(-static-libstdc++ LINKER:--exclude-libs,ALL LINKER:--gc-sections)
endfunction()
