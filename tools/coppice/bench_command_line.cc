// Declares every option of the benches once, with its check and its help.

#include "tools/coppice/bench_command_line.h"

#include <string>

#include "tools/support/options.h"

namespace coppice {
namespace {

constexpr const char* kDispatchNotes =
    "Times Session::Run with default options and, interleaved, the same raw driver calls, on a\n"
    "driver that returns at once; the overhead is the difference. heap_allocs counts 1000 calls.\n"
    "instructions come from perf, or from valgrind, or are null where there is neither.\n";

constexpr const char* kPoolNotes =
    "Every bucket of a family of programs is recorded into one arena that only grows: in "
    "ascending\n"
    "order of what they need, descending, and five random orders. A model of a caching allocator\n"
    "(512-byte rounding, segments of 2 and 20 MiB, best fit) serves the same requests. The bound "
    "is\n"
    "the most bytes live at once in any bucket. Planning is timed with each bucket alone,\n"
    "in processor time.\n"
    "\n"
    "A folder of families has one sub-folder per family and in it one CSV file per bucket, as\n"
    "`coppice plan` reads them; files in train and random are programs of their own.\n";

constexpr int64_t kIterationsMax = 1'000'000'000;

void AddDispatch(CLI::App& app, BenchDispatchOptions& options) {
  app.footer(std::string(kDispatchNotes) + "\n" + kExitCodes);
  AddCount(app, "--iterations", options.iterations, kIterationsMax,
           "Calls timed per case, default 200000");
  app.add_flag("--json", options.json, "Print JSON");
  app.add_option("--probe", options.probe)->group("");
}

void AddRecord(CLI::App& app, BenchRecordOptions& options) {
  app.footer(kExitCodes);
  AddCount(app, "--iterations", options.iterations, 1024, "Graphs to record, default 64");
  AddParsed(app, "--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  app.add_flag("--json", options.json, "Print JSON");
}

void AddPool(CLI::App& app, BenchPoolOptions& options) {
  app.footer(std::string(kPoolNotes) + "\n" + kExitCodes);
  app.add_option("--families", options.families, "Read families, in place of the built-in")
      ->type_name("DIR")
      ->check(RefuseEmpty);
  app.add_flag("--json", options.json, "Print JSON");
}

}  // namespace

void AddBench(CLI::App& app, BenchOptions& options) {
  app.require_subcommand(1);
  AddDispatch(*app.add_subcommand("dispatch", "What a replay costs beyond its driver calls"),
              options.dispatch);
  AddRecord(*app.add_subcommand("record", "What recording a graph of 100 kernels costs"),
            options.record);
  AddPool(*app.add_subcommand("pool", "How high an arena that many buckets share becomes"),
          options.pool);
}

ExitCode RunBench(const CLI::App& app, const BenchOptions& options, const Console& console) {
  if (app.got_subcommand("dispatch")) return BenchDispatch(options.dispatch, console);
  if (app.got_subcommand("pool")) return BenchPool(options.pool, console);
  return BenchRecord(options.record, console);
}

}  // namespace coppice
