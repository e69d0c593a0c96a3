# coppice_link_statically()
# Makes every program of the calling folder, and of folders added after it, run on machines without
# the packages it was built with: what find_package found as a shared library is linked from the
# archive beside it, and so is the C++ runtime. libc stays shared, because the CUDA driver is loaded
# by it when a program runs. Packages without an archive must be headers only.
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
      string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${library}")
      if(EXISTS "${archive}")
        set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
      endif()
    endforeach()
  endforeach()
  add_link_options(-static-libstdc++ -static-libgcc)
endfunction()
