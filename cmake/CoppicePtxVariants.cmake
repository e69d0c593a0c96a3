# coppice_ptx_variants(<target> <name> <folder> <file.cu>...)
# Has nvcc write <folder>/<name>.<variant>.ptx of kernel sources before <target> is linked: for
# sm_75 and sm_80, with -O3, and for one of them with -O0: sm_80_O3 is a variant. For sm_89 nvcc
# writes what it does for sm_80, and with -O0 the same for all. None is contracted into fused
# multiply-adds, as host code is not. Without nvcc it writes nothing.
#
# Nearly all of the time that nvcc takes goes into reading CUB, so that the sources are one unit for
# it. No two sources of a unit may have kernels of the same name.

set(COPPICE_PTX_VARIANTS sm_75_O3 sm_80_O0 sm_80_O3)

function(coppice_ptx_variants target name folder)
  set(unit "${folder}/${name}.cu")
  set(content)
  set(paths)
  foreach(source IN LISTS ARGN)
    get_filename_component(path "${source}" ABSOLUTE)
    list(APPEND paths "${path}")
    string(APPEND content "#include \"${path}\"\n")
  endforeach()
  file(GENERATE OUTPUT "${unit}" CONTENT "${content}")
  set(includes "$<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>")
  foreach(variant IN LISTS COPPICE_PTX_VARIANTS)
    if(NOT COPPICE_DEVICE_CODE OR NOT COPPICE_NVCC)
      break()
    endif()
    string(REGEX MATCH "^sm_([0-9]+)_(O[03])$" matched "${variant}")
    set(ptx "${folder}/${name}.${variant}.ptx")
    # The front end has no -O0 of its own: what optimises device code is told.
    add_custom_command(OUTPUT "${ptx}"
      COMMAND "${COPPICE_NVCC}" -std=c++20 -ptx -fmad=false -arch=compute_${CMAKE_MATCH_1}
              -Xcicc -${CMAKE_MATCH_2}
              "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>"
              -MD -MF "${ptx}.d" -o "${ptx}" "${unit}"
      DEPENDS "${unit}" ${paths} DEPFILE "${ptx}.d" COMMAND_EXPAND_LISTS VERBATIM
      COMMENT "Compiling ${name}.cu into PTX, ${variant}")
    target_sources(${target} PRIVATE "${ptx}")
  endforeach()
endfunction()
