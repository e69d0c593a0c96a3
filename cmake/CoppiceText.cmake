# coppice_extract(<archive> <folder>)
# Extracts an archive of texts that a script made into a folder of its own, when the project is
# configured and the archive has changed.
function(coppice_extract archive folder)
  get_filename_component(path "${archive}" ABSOLUTE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  if("${path}" IS_NEWER_THAN "${folder}.extracted")
    file(REMOVE_RECURSE "${folder}")
    file(ARCHIVE_EXTRACT INPUT "${path}" DESTINATION "${folder}" TOUCH)
    file(TOUCH "${folder}.extracted")
  endif()
endfunction()

# coppice_embed_text(<target> <file> <symbol>)
# Makes the text of <file>, ended by a NUL, part of <target>. Its sources reach it by
#
#   extern "C" const char <symbol>[];
#
# A change of the file rebuilds one object. A table that people read and edit as a file, or that a
# custom command of the same CMakeLists.txt writes, is thereby a constant of the library, which
# opens no file when it runs.
function(coppice_embed_text target file symbol)
  get_filename_component(path "${file}" ABSOLUTE)
  get_source_file_property(generated "${path}" GENERATED)
  if(NOT generated AND NOT EXISTS "${path}")
    message(FATAL_ERROR "coppice_embed_text(${target}): ${path} does not exist")
  endif()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${symbol}_text.cc")
  string(CONCAT content
    "__asm__(\".pushsection .rodata\\n.global ${symbol}\\n.hidden ${symbol}\\n\"\n"
    "        \"${symbol}:\\n.incbin \\\"${path}\\\"\\n.byte 0\\n.popsection\\n\");\n")
  file(GENERATE OUTPUT "${source}" CONTENT "${content}")
  target_sources(${target} PRIVATE "${source}")
  set_source_files_properties("${source}" PROPERTIES
    OBJECT_DEPENDS "${path}" SKIP_PRECOMPILE_HEADERS ON
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
