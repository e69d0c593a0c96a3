// The executor, for who asks whether there is one.

#include "runtime/emulator/ptx/executor.h"

const coppice::ptx::Executor coppice_ptx_executor = {
    .build = coppice::ptx::Program::Build,
    .run = coppice::ptx::Run,
    .describe = [](const coppice::ptx::Finding& finding) { return finding.Describe(); }};
