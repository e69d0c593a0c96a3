# coppice_isolate(<library> <objects> <pattern>)
# Adds an object library to a library so that of its functions only those whose symbols match the
# pattern can be called from outside, and none can stand in for a function of the same name outside.
#
# That is for code compiled for newer processors than the rest. It too has copies of inline
# functions, such as std::vector's, and a linker keeps one copy of each for the whole program. Were
# it the new one, old processors would stop at it.
#
#   a.cc.o ─┐
#   b.cc.o ─┼─ linked into one object ─ all but the pattern made local ─► <objects>.o
#   c.cc.o ─┘
function(coppice_isolate library objects pattern)
  set(sources "$<TARGET_OBJECTS:${objects}>")
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${objects}.o")
  # A group is what inline functions come in; symbols of groups that are left would stay global.
  add_custom_command(OUTPUT "${object}"
    COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -Wl,--force-group-allocation -o "${object}.all"
            "${sources}"
    COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=${pattern}"
            "${object}.all" "${object}"
    DEPENDS "${sources}"
    COMMAND_EXPAND_LISTS VERBATIM)
  # What GCC calls unique stays global, whatever objcopy is told.
  target_compile_options(${objects} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_sources(${library} PRIVATE "${object}")
endfunction()
