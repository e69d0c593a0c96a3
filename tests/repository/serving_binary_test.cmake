# A binary that links coppice::graphs has no emulator in it, and runs. TESTED is such a binary;
# CONTROL is one that links coppice::emulator, in which the same look finds it.
function(find_emulator binary result)
  execute_process(COMMAND "${NM}" -C "${binary}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "coppice::([Ee])mulator::[A-Za-z_]+" found "${symbols}")
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

find_emulator("${CONTROL}" found)
if(NOT found)
  message(FATAL_ERROR "${CONTROL} shows no emulator: this test would find none anywhere")
endif()
find_emulator("${TESTED}" found)
if(found)
  message(FATAL_ERROR "${TESTED} has ${found}, although it links coppice::graphs only")
endif()
execute_process(COMMAND "${TESTED}" COMMAND_ERROR_IS_FATAL ANY)
