// Goal: a child that is forked has no device, and its parent's stays as it is. Method: a child of a
// machine calls, destroys and ends as it likes; the parent looks at its memory.

#include <unistd.h>

#include <sys/wait.h>

#include "tests/runtime/emulator_machine.h"

namespace coppice {
namespace {

// Whether all that a child does to the word at `word` is refused.
bool IsRefused(Machine& machine, DeviceAddress word) {
  int64_t read = 0;
  const bool refused =
      machine.cu.MemsetD8Async(word, 1, 8, machine.stream) == CuResult::kNotInitialized &&
      machine.cu.MemcpyDtoHAsync(&read, word, 8, machine.stream) == CuResult::kNotInitialized &&
      machine.cu.CtxSynchronize() == CuResult::kNotInitialized &&
      machine.cu.Init(0) == CuResult::kNotInitialized;
  // What destructors do.
  const bool kept = machine.cu.MemFree(word) == CuResult::kNotInitialized &&
                    machine.cu.StreamDestroy(machine.stream) == CuResult::kNotInitialized;
  machine.emulator->Report("a finding of the child's");
  machine.emulator->Restart();
  const bool silent =
      machine.emulator->reports().empty() && machine.emulator->fault().empty() &&
      machine.emulator->finding_count() == 0 && machine.emulator->FindingsSince(0).empty() &&
      machine.emulator->live() == Emulator::Live() && !machine.emulator->Readable(word, 8);
  machine.emulator.reset();
  return refused && kept && silent && !Emulator::Create().ok();
}

TEST(EmulatorForkTest, ChildHasNoDeviceAndLeavesItsParentsAsItIs) {
  Machine machine(OptionsToLook());
  const DeviceAddress word = machine.Allocate(16);
  ASSERT_CU(kSuccess, machine.Store(machine.stream, word, 7));
  ASSERT_CU(kSuccess, machine.cu.CtxSynchronize());
  // Queued when the child comes to be, which is not to run it.
  ASSERT_CU(kSuccess, machine.Store(machine.stream, word + 8, 8));
  const Emulator::Live before = machine.emulator->live();
  const pid_t child = fork();
  if (child == 0) _exit(IsRefused(machine, word) ? 0 : 1);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(machine.emulator->live(), before);
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(*PointerAt<int64_t>(word), 7);
  EXPECT_CU(kSuccess, machine.Store(machine.stream, word, 9));
  EXPECT_CU(kSuccess, machine.cu.CtxSynchronize());
  EXPECT_EQ(*PointerAt<int64_t>(word), 9);
}

TEST(EmulatorForkTest, ChildOfAProcessWithoutAnEmulatorMayHaveOne) {
  { const Machine earlier; }
  const pid_t child = fork();
  if (child == 0) _exit(Emulator::Create().ok() ? 0 : 1);
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace coppice
