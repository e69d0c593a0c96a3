# Goal: callers who were compiled with an earlier coppice.h can use this library.
# Method: abidiff of the description that is checked in and a library made of today's header.
#   cmake -DABIDIFF=<abidiff> -DSUBJECT=<library> -DDESCRIPTION=<.tar.xz> -DOUT=<folder>
#         -P abi_test.cmake
if(NOT ABIDIFF)
  message("skipped, because there is no abidiff")
  return()
endif()
file(ARCHIVE_EXTRACT INPUT "${DESCRIPTION}" DESTINATION "${OUT}")
execute_process(COMMAND "${ABIDIFF}" "${OUT}/coppice_0.abi" "${SUBJECT}"
                RESULT_VARIABLE result OUTPUT_VARIABLE differences ERROR_VARIABLE differences)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${differences}
The header is not the one that ${DESCRIPTION} describes. If fields or functions were appended, and "
"nothing else: abidw --no-corpus-path --no-comp-dir-path --no-show-locs --drop-undefined-syms "
"${SUBJECT} > coppice_0.abi && cmake -E tar cJ ${DESCRIPTION} --mtime=1970-01-01 coppice_0.abi")
endif()
