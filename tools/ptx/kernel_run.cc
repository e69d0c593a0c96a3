// Checks all that a launch would be refused for; the executor takes what it is given.

#include "tools/ptx/kernel_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/support/npy.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr LaunchExtents kGridMax = {0x7fffffff, 65535, 65535};
constexpr LaunchExtents kBlockMax = {1024, 1024, 64};
// Blocks of a cooperative launch are all there at once: on as many multiprocessors as an H200 has.
constexpr uint64_t kMultiprocessors = 132;
constexpr uint64_t kThreadsPerMultiprocessor = 2048;
constexpr uint64_t kBlocksPerMultiprocessor = 32;

constexpr int64_t kAddressBytes = 8;
constexpr int64_t kVariableBytesMax = kGiB;
// What nobody has written: no number in an array of floats, -1 among integers.
constexpr int kUnwritten = 0xff;

absl::Status CheckExtents(const char* option,
                          const LaunchExtents& extents,
                          const LaunchExtents& most) {
  for (size_t i = 0; i < extents.size(); ++i)
    if (extents[i] > most[i])
      return InvalidArgument("{} {}: the maximum is {}; give a smaller launch", option,
                             fmt::join(extents, ","), fmt::join(most, ","));
  return absl::OkStatus();
}

uint64_t CountOf(const LaunchExtents& extents) {
  return uint64_t{extents[0]} * extents[1] * extents[2];
}

absl::Status CheckBlock(const ptx::Kernel& kernel, const LaunchExtents& block) {
  COPPICE_RETURN_IF_ERROR(CheckExtents("--block", block, kBlockMax));
  const std::string& name = kernel.code->name;
  const auto& required = kernel.required_threads;
  const bool any = required[0] == 0;
  if (!any && !std::equal(block.begin(), block.end(), required.begin(),
                          [](unsigned a, int b) { return static_cast<int>(a) == b; }))
    return InvalidArgument("--block {}: kernel {} is compiled for blocks of {}; give that size",
                           fmt::join(block, ","), name, fmt::join(required, ","));
  if (CountOf(block) > static_cast<uint64_t>(kernel.max_threads))
    return InvalidArgument(
        "--block {}: this block has {} threads, but kernel {} allows at most {}; give fewer",
        fmt::join(block, ","), CountOf(block), name, kernel.max_threads);
  return absl::OkStatus();
}

absl::Status CheckCooperative(const ptx::Launch& launch) {
  const uint64_t threads = (CountOf(launch.block) + 31) / 32 * 32;
  const uint64_t most = kMultiprocessors * std::clamp(kThreadsPerMultiprocessor / threads,
                                                      uint64_t{1}, kBlocksPerMultiprocessor);
  if (!launch.cooperative || CountOf(launch.grid) <= most) return absl::OkStatus();
  return InvalidArgument(
      "--grid {}: this grid has {} blocks, but in a cooperative launch at most {} run at once; "
      "give a smaller grid",
      fmt::join(launch.grid, ","), CountOf(launch.grid), most);
}

std::string ListOf(const std::vector<ptx::Kernel>& kernels) {
  std::vector<std::string> names;
  for (const ptx::Kernel& kernel : kernels)
    names.push_back(kernel.code->name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// What an argument for a parameter may be.
std::string WantedFor(const ptx::Place& parameter) {
  switch (parameter.bytes) {
    case 1:
      return "give i8 or u8";
    case 2:
      return "give i16 or u16";
    case 4:
      return "give i32, u32 or f32";
    case kAddressBytes:
      return "give in, out, inout, null, i64, u64 or f64";
    default:
      return "no argument has that size, so this command cannot run the kernel";
  }
}

}  // namespace

absl::StatusOr<KernelRun> KernelRun::Prepare(const PtxRunOptions& options) {
  KernelRun run;
  run.seed_ = options.seed;
  run.checks_ = options.checks;
  COPPICE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(options.file, "a PTX file"));
  auto program = ptx::Program::Build(std::move(text));
  if (!program.ok()) return AtFile(options.file, program.status());
  run.program_ = *std::move(program);
  if (run.program_->global_bytes() > kVariableBytesMax)
    return InvalidArgument("{}: the variables in this file have {} bytes; declare at most {}",
                           options.file, run.program_->global_bytes(), kVariableBytesMax);
  run.launch_.kernel = run.program_->FindKernel(options.kernel);
  if (run.launch_.kernel == nullptr)
    return InvalidArgument("{}: there is no kernel {}; kernels: {}", options.file,
                           Quote(options.kernel), ListOf(run.program_->kernels()));
  COPPICE_RETURN_IF_ERROR(run.SetShape(options));
  COPPICE_RETURN_IF_ERROR(run.AddArguments(options));
  for (const std::string& padding : options.padding)
    COPPICE_RETURN_IF_ERROR(run.MarkPadding(padding));
  run.reached_ = options.reached;
  if (!run.reached_.empty() && run.taint_ == nullptr)
    return InvalidArgument("--reached needs to know which elements are padding; add --padding");
  if (!run.reached_.empty()) COPPICE_RETURN_IF_ERROR(MakeFolder(run.reached_));
  run.Link();
  return run;
}

absl::Status KernelRun::MarkPadding(const std::string& text) {
  const size_t equals = text.find('=');
  uint64_t index = 0;
  if (equals == std::string::npos || !absl::SimpleAtoi(text.substr(0, equals), &index))
    return InvalidArgument("--padding {}: give INDEX=MASK.npy, with the index of an --arg",
                           Quote(text));
  if (index >= arguments_.size() || arguments_[index].given.input.empty())
    return InvalidArgument(
        "--padding {}: argument {} is not an array that the kernel reads; give "
        "the index of an in or inout argument, from 0",
        text, index);
  const Argument& argument = arguments_[index];
  COPPICE_ASSIGN_OR_RETURN(const NpyArray mask, ReadNpy(text.substr(equals + 1)));
  if (mask.dtype != DType::kBool || mask.dims != argument.dims)
    return InvalidArgument("--padding {}: the mask is {}[{}], but must be bool[{}]", text,
                           NameOf(mask.dtype), fmt::join(mask.dims, ", "),
                           fmt::join(argument.dims, ", "));
  if (taint_ == nullptr) taint_ = std::make_unique<ptx::Taint>();
  const auto bytes = static_cast<uint64_t>(SizeOf(argument.dtype));
  const uint64_t begin = reinterpret_cast<uint64_t>(argument.memory.data());
  for (size_t i = 0; i < mask.bytes.size(); ++i)
    taint_->plane.Fill(begin + i * bytes, bytes,
                       ptx::TaintOfInput(static_cast<int>(index), mask.bytes[i] != 0));
  return absl::OkStatus();
}

std::vector<ptx::TaintWord> KernelRun::TaintOf(const Argument& argument) const {
  const auto bytes = static_cast<uint64_t>(SizeOf(argument.dtype));
  const uint64_t begin = reinterpret_cast<uint64_t>(argument.memory.data());
  std::vector<ptx::TaintWord> words(argument.memory.size() / bytes);
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = taint_->plane.Joined(begin + i * bytes, bytes);
  return words;
}

absl::Status KernelRun::SetShape(const PtxRunOptions& options) {
  if (!options.grid || !options.block)
    return InvalidArgument(
        "{} is missing; give the blocks of the grid and the threads of a block as X,Y,Z",
        options.grid ? "--block" : "--grid");
  launch_.grid = *options.grid;
  launch_.block = *options.block;
  launch_.dynamic_shared_bytes = options.shared_bytes;
  launch_.cooperative = options.cooperative;
  COPPICE_RETURN_IF_ERROR(CheckExtents("--grid", launch_.grid, kGridMax));
  COPPICE_RETURN_IF_ERROR(CheckBlock(kernel(), launch_.block));
  if (kernel().shared_bytes > kBlockSharedBytesMax)
    return InvalidArgument(
        "{}: kernel {} has {} bytes of static shared memory, but a block has at most {}; declare "
        "less",
        options.file, kernel().code->name, kernel().shared_bytes, kBlockSharedBytesMax);
  if (kernel().shared_bytes + options.shared_bytes > kBlockSharedBytesMax)
    return InvalidArgument(
        "--shared {}: with the {} static bytes of kernel {}, a block has more than {} bytes; give "
        "less",
        options.shared_bytes, kernel().shared_bytes, kernel().code->name, kBlockSharedBytesMax);
  const std::array<unsigned, 3> cluster = ptx::ClusterOf(launch_);
  for (size_t i = 0; i < cluster.size(); ++i)
    if (launch_.grid[i] % cluster[i] != 0)
      return InvalidArgument(
          "--grid: {} is not a multiple of the cluster extent {} of kernel {}; give a multiple",
          launch_.grid[i], cluster[i], kernel().code->name);
  return CheckCooperative(launch_);
}

absl::Status KernelRun::AddArguments(const PtxRunOptions& options) {
  const std::vector<ptx::Place>& parameters = kernel().code->parameters;
  if (options.arguments.size() != parameters.size())
    return InvalidArgument(
        "kernel {} takes {}, not {}; give one --arg for each parameter, in the order that "
        "`coppice ptx check` lists",
        kernel().code->name, Counted(std::ssize(parameters), "argument"), options.arguments.size());
  std::vector<std::string> inputs = {options.file};
  std::vector<std::string> outputs;
  for (size_t i = 0; i < parameters.size(); ++i) {
    Argument& argument = arguments_.emplace_back();
    COPPICE_ASSIGN_OR_RETURN(argument.given, ParseKernelArgument(options.arguments[i]));
    if (argument.given.bytes != parameters[i].bytes)
      return InvalidArgument("{}: the argument has {}, but parameter {} ({}) has {}; {}",
                             options.arguments[i], Counted(argument.given.bytes, "byte"), i,
                             parameters[i].name, Counted(parameters[i].bytes, "byte"),
                             WantedFor(parameters[i]));
    inputs.push_back(argument.given.input);
    outputs.push_back(argument.given.output);
  }
  COPPICE_RETURN_IF_ERROR(CheckOutputs(inputs, outputs));
  parameters_.resize(static_cast<size_t>(kernel().parameter_bytes));
  for (size_t i = 0; i < parameters.size(); ++i) {
    Argument& argument = arguments_[i];
    if (argument.given.is_array()) COPPICE_RETURN_IF_ERROR(AddArray(argument));
    std::memcpy(parameters_.data() + parameters[i].offset, &argument.given.bits,
                static_cast<size_t>(parameters[i].bytes));
  }
  return absl::OkStatus();
}

absl::Status KernelRun::AddArray(Argument& argument) {
  KernelArgument& given = argument.given;
  if (given.input.empty()) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t bytes, NpyBytes(given.dtype, given.dims));
    argument.memory = memory_.Add(bytes, /*writable=*/true);
    argument.dtype = given.dtype;
    argument.dims = given.dims;
    std::memset(argument.memory.data(), kUnwritten, argument.memory.size());
  } else {
    COPPICE_ASSIGN_OR_RETURN(NpyArray array, ReadNpy(given.input));
    argument.memory = memory_.Add(std::ssize(array.bytes), !given.output.empty());
    argument.dtype = array.dtype;
    argument.dims = std::move(array.dims);
    std::memcpy(argument.memory.data(), array.bytes.data(), array.bytes.size());
  }
  given.bits = reinterpret_cast<uint64_t>(argument.memory.data());
  return absl::OkStatus();
}

void KernelRun::Link() {
  const std::span<std::byte> globals = memory_.Add(program_->global_bytes(), /*writable=*/true);
  program_->Link(reinterpret_cast<uint64_t>(globals.data()), globals.data());
}

ptx::Outcome KernelRun::Run(const std::function<void(std::string_view)>& print) const {
  ptx::Launch launch = launch_;
  launch.parameters = parameters_;
  return ptx::Run(launch, {.memory = memory_.ranges(),
                           .seed = seed_,
                           .checks = checks_,
                           .clock_ns = 0,
                           .print = print,
                           .taint = taint_.get()});
}

absl::Status KernelRun::WriteOutputs() const {
  for (const Argument& argument : arguments_) {
    if (argument.given.output.empty()) continue;
    COPPICE_RETURN_IF_ERROR(WriteTextFile(
        argument.given.output, FormatNpy(argument.dtype, argument.dims, argument.memory)));
    if (reached_.empty()) continue;
    std::vector<std::byte> reached;
    for (const ptx::TaintWord word : TaintOf(argument))
      reached.push_back(std::byte{ptx::IsPadding(word)});
    COPPICE_RETURN_IF_ERROR(
        WriteTextFile(fmt::format("{}/{}.npy", reached_, &argument - arguments_.data()),
                      FormatNpy(DType::kBool, argument.dims, reached)));
  }
  return absl::OkStatus();
}

}  // namespace coppice
