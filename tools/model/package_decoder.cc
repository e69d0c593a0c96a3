// Finds the two programs in the manifest, then gives a step the shape that they take.

#include "tools/model/package_decoder.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/staging.h"

#include "tools/support/random_constant.h"

namespace coppice {
namespace {

using package::Buffer;
using package::Manifest;
using package::Symbol;

constexpr int kCopiedInputs = 3;  // Before the keys and the values.

// The names that a size is spelled with, in "[batch, 512]".
std::string ShapeOf(const Buffer& buffer) {
  std::vector<std::string> sizes;
  for (const package::Amount& amount : buffer.shape)
    sizes.push_back(amount.expression ? amount.expression->text() : std::to_string(amount.value));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

// The symbol that axis `axis` of a buffer is; -1: none.
int SymbolAt(const package::Program& program, const Buffer& buffer, size_t axis) {
  if (axis >= buffer.shape.size() || !buffer.shape[axis].expression) return -1;
  const auto found =
      std::ranges::find(program.symbols, buffer.shape[axis].expression->text(), &Symbol::name);
  return found == program.symbols.end() ? -1 : static_cast<int>(found - program.symbols.begin());
}

// The least extent of the symbol that holds `count`.
int64_t ExtentOf(const Symbol& symbol, int64_t count) {
  return CeilDivide(std::max(count, symbol.min), symbol.multiple_of) * symbol.multiple_of;
}

int32_t FillOf(const Buffer& buffer) {
  return static_cast<int32_t>(FillPattern(buffer.fill, DType::kInt32));
}

// What one program has to look like.
class ProgramCheck {
 public:
  ProgramCheck(const package::Package& package, bool prefill)
      : manifest_(package.manifest()), path_(package.path()), prefill_(prefill) {}

  // Index of the program. Errors: kInvalidArgument what differs.
  absl::StatusOr<int> Find() {
    const char* const name = prefill_ ? "prefill" : "decode";
    const auto found = std::ranges::find(manifest_.programs, name, &package::Program::name);
    place_ = fmt::format("/programs/{}", name);
    if (found == manifest_.programs.end()) return Refuse("is missing");
    program_ = &*found;
    COPPICE_RETURN_IF_ERROR(CheckNames());
    COPPICE_RETURN_IF_ERROR(CheckSymbols());
    const int size = prefill_ ? 2 : 1;
    if (std::ssize(program_->symbols) != size || !program_->scalars.empty())
      return Refuse(
          fmt::format("has a symbol count of {} and a scalar count of {}; they must be {} and 0",
                      program_->symbols.size(), program_->scalars.size(), size));
    return static_cast<int>(found - manifest_.programs.begin());
  }

 private:
  absl::Status Refuse(const std::string& what) const {
    return InvalidArgument("{}: {} {}; give a decoder like the one in samples/torch_decoder.py",
                           path_, place_, what);
  }

  const Buffer& At(int index) const { return program_->buffers[static_cast<size_t>(index)]; }

  std::vector<std::string> NamesOf(const std::vector<int>& buffers) const {
    std::vector<std::string> names;
    names.reserve(buffers.size());
    for (const int index : buffers)
      names.push_back(At(index).name);
    return names;
  }

  absl::Status CheckNames() const {
    const std::vector<std::string> inputs = {"tokens", prefill_ ? "lengths" : "positions", "slots",
                                             "keys", "values"};
    const std::vector<std::string> outputs = {"logits", "next_tokens"};
    if (NamesOf(program_->inputs) != inputs)
      return Refuse(fmt::format("has the inputs {} instead of {}",
                                fmt::join(NamesOf(program_->inputs), ", "),
                                fmt::join(inputs, ", ")));
    if (NamesOf(program_->outputs) != outputs)
      return Refuse(fmt::format("has the outputs {} instead of {}",
                                fmt::join(NamesOf(program_->outputs), ", "),
                                fmt::join(outputs, ", ")));
    return absl::OkStatus();
  }

  // Dtypes and shapes: `batch` is the first axis of all that is no cache.
  absl::Status CheckSymbols() const {
    const int batch = SymbolAt(*program_, At(program_->inputs[0]), 0);
    for (int i = 0; i < kCopiedInputs; ++i) {
      const Buffer& buffer = At(program_->inputs[static_cast<size_t>(i)]);
      const bool rows = prefill_ && i == 0;
      const bool right = buffer.dtype == DType::kInt32 && !buffer.is_static && !buffer.mutated &&
                         batch >= 0 && SymbolAt(*program_, buffer, 0) == batch &&
                         buffer.shape.size() == (rows ? 2 : 1) &&
                         (!rows || SymbolAt(*program_, buffer, 1) >= 0);
      if (!right) return RefuseBuffer(buffer, rows ? "i32 [batch, length]" : "i32 [batch]");
    }
    for (const int index : std::span(program_->inputs).subspan(kCopiedInputs)) {
      const Buffer& buffer = At(index);
      const bool fixed = std::ranges::none_of(buffer.shape, [](const package::Amount& amount) {
        return amount.expression || !amount.value;
      });
      if (buffer.dtype != DType::kFloat32 || !buffer.is_static || !buffer.mutated || !fixed ||
          buffer.shape.size() < 3 || !buffer.strides.empty())
        return RefuseBuffer(buffer, "static, mutated f32 [layers, slots, positions, ...]");
    }
    const Buffer& logits = At(program_->outputs[0]);
    if (logits.dtype != DType::kFloat32 || logits.shape.size() != 2 ||
        SymbolAt(*program_, logits, 0) != batch || logits.shape[1].expression)
      return RefuseBuffer(logits, "f32 [batch, vocabulary]");
    const Buffer& tokens = At(program_->outputs[1]);
    if (tokens.dtype != DType::kInt32 || tokens.shape.size() != 1 ||
        SymbolAt(*program_, tokens, 0) != batch)
      return RefuseBuffer(tokens, "i32 [batch]");
    return absl::OkStatus();
  }

  absl::Status RefuseBuffer(const Buffer& buffer, const char* wanted) const {
    return Refuse(fmt::format("has {} as {} {}{}{}, not as {}", buffer.name, NameOf(buffer.dtype),
                              ShapeOf(buffer), buffer.is_static ? ", static" : "",
                              buffer.mutated ? ", mutated" : "", wanted));
  }

  const Manifest& manifest_;
  const std::string path_;
  const bool prefill_;
  std::string place_;
  const package::Program* program_ = nullptr;
};

const Buffer& InputOf(const package::Program& program, int input) {
  return program.buffers[static_cast<size_t>(program.inputs[static_cast<size_t>(input)])];
}

std::vector<int64_t> SizesOf(const Buffer& buffer) {
  std::vector<int64_t> sizes;
  for (const package::Amount& amount : buffer.shape)
    sizes.push_back(amount.value);
  return sizes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackageDecoder>> PackageDecoder::Create(const Context& context,
                                                                       const std::string& path,
                                                                       ExactReplay exact) {
  COPPICE_ASSIGN_OR_RETURN(package::Package package, package::Package::Open(path, {}));
  COPPICE_RETURN_IF_ERROR(package.Verify());
  std::unique_ptr<PackageDecoder> decoder(new PackageDecoder(context.driver(), exact));
  COPPICE_RETURN_IF_ERROR(decoder->FindPrograms(package));
  COPPICE_ASSIGN_OR_RETURN(decoder->loaded_, package::LoadedPackage::Load(
                                                 context, std::move(package), {.allow_ptx = true}));
  COPPICE_RETURN_IF_ERROR(decoder->DrawConstants());
  return decoder;
}

absl::Status PackageDecoder::FindPrograms(const package::Package& package) {
  int64_t row_slot = 0;  // Of padding.
  for (const bool prefill : {true, false}) {
    Role& role = prefill ? prefill_ : decode_;
    COPPICE_ASSIGN_OR_RETURN(role.program, ProgramCheck(package, prefill).Find());
    const package::Program& program =
        package.manifest().programs[static_cast<size_t>(role.program)];
    role.batch = SymbolAt(program, InputOf(program, 0), 0);
    role.length = prefill ? SymbolAt(program, InputOf(program, 0), 1) : -1;
    for (int i = 0; i < kCopiedInputs; ++i)
      role.fills.push_back(FillOf(InputOf(program, i)));
    for (const int cache : {kCopiedInputs, kCopiedInputs + 1}) {
      const std::vector<int64_t> sizes = SizesOf(InputOf(program, cache));
      if (cache_sizes_.empty()) cache_sizes_ = sizes;
      if (cache_sizes_ != sizes)
        return InvalidArgument(
            "{}: /programs/{}: {} has the shape [{}], but another cache has [{}]; give all caches "
            "the same shape",
            package.path(), program.name, InputOf(program, cache).name, fmt::join(sizes, ", "),
            fmt::join(cache_sizes_, ", "));
    }
    row_slot = role.fills.back();
    if (row_slot < 1 || row_slot >= cache_sizes_[1])
      return InvalidArgument(
          "{}: /programs/{}/buffers/slots/fill is {}, so rows of padding would overwrite a "
          "request; choose a slot in [1, {}] that no request owns",
          package.path(), program.name, row_slot, cache_sizes_[1] - 1);
    const Symbol& batch = program.symbols[static_cast<size_t>(role.batch)];
    sizes_.slots = prefill ? row_slot : std::min({sizes_.slots, row_slot, batch.max});
    sizes_.array_elements = std::max(sizes_.array_elements, ExtentOf(batch, sizes_.slots));
    if (!prefill) {
      sizes_.vocab = program.buffers[static_cast<size_t>(program.outputs[0])].shape[1].value;
      continue;
    }
    const Symbol& length = program.symbols[static_cast<size_t>(role.length)];
    sizes_.max_context = std::min(cache_sizes_[2], length.max);
    sizes_.array_elements = ExtentOf(batch, 1) * ExtentOf(length, sizes_.max_context);
  }
  return absl::OkStatus();
}

absl::Status PackageDecoder::DrawConstants() {
  const package::Package& package = loaded_->package();
  const nlohmann::json manifest =
      nlohmann::json::parse(package.manifest_text(), nullptr, /*allow_exceptions=*/false);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver_));
  for (const package::Constant& constant : package.manifest().constants) {
    if (constant.file >= 0) continue;
    absl::StatusOr<std::vector<float>> values =
        DrawConstant(constant, manifest["constants"][constant.name]);
    if (!values.ok()) return InvalidArgument("{}: {}", package.path(), MessageOf(values.status()));
    const auto bytes = std::as_bytes(std::span(*values));
    COPPICE_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        DeviceMemory::Create(driver_, std::max<int64_t>(std::ssize(bytes), 1)));
    COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemcpyHtoDAsync>(
        memory.address(), static_cast<const void*>(bytes.data()), bytes.size(), stream.handle()));
    COPPICE_RETURN_IF_ERROR(stream.Synchronize());
    constants_[constant.name] = Tensor::Dense(memory.address(), DType::kFloat32, constant.shape);
    memory_.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

std::map<std::string, int64_t> PackageDecoder::targets() const {
  const Manifest& manifest = loaded_->manifest();
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const int target = loaded_->kernel(static_cast<int>(i)).front().fit.target;
    const int index = manifest.kernels[i].targets[static_cast<size_t>(target)].module;
    const package::Module& module = manifest.modules[static_cast<size_t>(index)];
    const char* const format = module.format == package::ImageFormat::kPtx     ? "ptx"
                               : module.format == package::ImageFormat::kCubin ? "cubin"
                                                                               : "fatbin";
    ++counts[fmt::format("{} {}", module.arch, format)];
  }
  return counts;
}

ModelSizes PackageDecoder::sizes() const {
  return sizes_;
}

std::string PackageDecoder::default_policy(bool prefill) const {
  const Symbol& symbol = padded(prefill);
  if (!symbol.claim) return "exact";
  if (symbol.buckets_pow2 || symbol.buckets.empty()) return "pow2";
  return fmt::format("{}", fmt::join(symbol.buckets, ","));
}

absl::StatusOr<ServedProgram> PackageDecoder::Register(Session& session,
                                                       bool prefill,
                                                       const PaddingPolicy& policy,
                                                       double observe_half_life) const {
  PackageProgramOptions options{.exact = exact_, .constants = constants_};
  const Symbol& batch = symbol(prefill, role(prefill).batch);
  // A prompt is a batch of the least size.
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy one, PaddingPolicy::Exact(ExtentOf(batch, 1)));
  if (prefill) options.policies.emplace(batch.name, std::move(one));
  options.policies.emplace(padded(prefill).name, policy);
  options.observe_half_lives.emplace(padded(prefill).name, observe_half_life);
  ServedProgram served{.symbol = prefill ? prefill_.length : decode_.batch,
                       .symbol_name = padded(prefill).name};
  COPPICE_ASSIGN_OR_RETURN(served.program,
                           session.Register(*loaded_, program(prefill).name, std::move(options)));
  const std::optional<PaddingClaim>& claim = padded(prefill).claim;
  if (claim && !policy.is_exact()) served.claimed = claim->equal;
  return served;
}

absl::StatusOr<KvCache> PackageDecoder::CreateCache() const {
  return KvCache::Create(driver_, cache_sizes_);
}

std::vector<Tensor> PackageDecoder::StaticInputs(const KvCache& cache) const {
  return {cache.keys(), cache.values()};
}

std::vector<StepArray> PackageDecoder::ArraysOf(const StepInputs& inputs) const {
  const Role& role = this->role(inputs.prefill);
  const int64_t rows =
      ExtentOf(symbol(inputs.prefill, role.batch), static_cast<int64_t>(inputs.slots.size()));
  const auto length = static_cast<int64_t>(inputs.tokens.size());
  std::vector<StepArray> arrays(kCopiedInputs);
  arrays[0] = {.dims = {rows}, .values = inputs.tokens};
  arrays[1] = {.dims = {rows}, .values = inputs.positions};
  arrays[2] = {.dims = {rows}, .values = inputs.slots};
  if (inputs.prefill) {
    arrays[0].dims.push_back(ExtentOf(symbol(true, role.length), length));
    arrays[1].values = {static_cast<int32_t>(length)};
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    int64_t elements = 1;
    for (const int64_t size : arrays[i].dims)
      elements *= size;
    arrays[i].values.resize(static_cast<size_t>(elements), role.fills[i]);
  }
  return arrays;
}

std::vector<int64_t> PackageDecoder::BucketOf(bool prefill, int64_t extent) const {
  const Role& role = this->role(prefill);
  if (!prefill) return {extent};
  std::vector<int64_t> bucket(2);
  bucket[static_cast<size_t>(role.batch)] = ExtentOf(symbol(prefill, role.batch), 1);
  bucket[static_cast<size_t>(role.length)] = extent;
  return bucket;
}

}  // namespace coppice
