// Tables of programs as a manifest and its kernels.

#include "tests/sim/traffic_package.h"

#include "nlohmann/json.hpp"

#include "coppice/base/check.h"

#include "tests/package/package_builder.h"
#include "tests/sim/traffic_kernels.h"

namespace coppice {
namespace {

using nlohmann::json;
using StepKind = TrafficStep::Kind;
using Length = TrafficProgram::Length;

// MixWord of two registers and a third, which are left as they are, in PTX.
std::string MixText(const std::string& x, const std::string& y, const std::string& salt) {
  return "  mul.lo.u64 %h, " + x + ", 0x9E3779B97F4A7C15;\n" +  //
         "  xor.b64 %t, " + y + R"(, 0x85EBCA77C2B2AE63;
  mad.lo.u64 %h, %t, 0xC2B2AE3D27D4EB4F, %h;
  mad.lo.u64 %h, )" +
         salt + R"(, 0x165667B19E3779F9, %h;
  shr.u64 %t, %h, 30;
  xor.b64 %h, %h, %t;
  mul.lo.u64 %h, %h, 0xBF58476D1CE4E5B9;
  shr.u64 %t, %h, 27;
  xor.b64 %h, %h, %t;
  mul.lo.u64 %h, %h, 0x94D049BB133111EB;
  shr.u64 %t, %h, 31;
  xor.b64 %h, %h, %t;
)";
}

// Thread %i of the grid leaves if it is not below `count`.
constexpr char kTrafficOpening[] = R"({
  .reg .pred %p;
  .reg .b32 %r<4>;
  .reg .b64 %i, %j, %k, %n, %at, %word, %x, %y, %z, %salt, %h, %t;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 64, %r2;
  cvt.u64.u32 %i, %r3;
  ld.param.u64 %n, [count];
  setp.ge.u64 %p, %i, %n;
  @%p ret;
)";
static_assert(kTrafficThreads == 64);

// Element `index` of the tensor whose address is in `parameter`.
std::string LoadText(const char* parameter, const char* index, const char* to, int64_t bytes) {
  return fmt::format(
      "  ld.param.u64 %at, [{}];\n  mad.lo.u64 %at, {}, {}, %at;\n  ld.global.u{} {}, [%at];\n",
      parameter, index, bytes, 8 * bytes, to);
}

std::string StoreText(const char* from, int64_t bytes) {
  return fmt::format(
      "  ld.param.u64 %at, [z];\n  mad.lo.u64 %at, %i, {}, %at;\n  st.global.u{} [%at], {};\n"
      "  ret;\n}}\n",
      bytes, 8 * bytes, from);
}

// Bytes of each element that a step's kernel reads and writes, which its name says.
struct Widths {
  int64_t x = 0;
  int64_t y = 0;
  int64_t z = 0;
};

// NAME(x, y, z, live, salt, key, keyed, count, y_count), of which y, live and salt may be null:
// z[i] = MixWord(x[i], y[i % y_count], salt), if i is below the i64 at `live`. What is salted is
// the word at `salt` or, if `keyed` is 1, `key`.
constexpr int kMixParameters = 9;
std::string MixKernel(const std::string& name, const Widths& widths) {
  return ".visible .entry " + name +
         "(.param .u64 x, .param .u64 y, .param .u64 z, .param .u64 live, .param .u64 salt,\n"
         ".param .u64 key, .param .u64 keyed, .param .u64 count, .param .u64 y_count)\n" +
         kTrafficOpening + R"(  ld.param.u64 %at, [live];
  setp.eq.u64 %p, %at, 0;
  @%p bra ALL;
  ld.global.u64 %n, [%at];
  setp.ge.s64 %p, %i, %n;
  @%p ret;
ALL:
  mov.u64 %salt, 0;
  mov.u64 %y, 0;
  ld.param.u64 %word, [key];
  ld.param.u64 %at, [salt];
  setp.eq.u64 %p, %at, 0;
  @%p bra KEY;
  ld.global.u64 %word, [%at];
  bra FOLD;
KEY:
  ld.param.u64 %n, [keyed];
  setp.eq.u64 %p, %n, 0;
  @%p bra MIX;
FOLD:
)" + MixText("%salt", "%word", "%y") +
         "  mov.u64 %salt, %h;\nMIX:\n" + LoadText("x", "%i", "%x", widths.x) +
         R"(  ld.param.u64 %at, [y];
  setp.eq.u64 %p, %at, 0;
  @%p bra DONE;
  ld.param.u64 %n, [y_count];
  rem.u64 %j, %i, %n;
)" + LoadText("y", "%j", "%y", widths.y) +
         "DONE:\n" + MixText("%x", "%y", "%salt") + StoreText("%h", widths.z);
}

// NAME(x, z, count, n): z[i] is the sum of the row of n elements that x[i] is in.
constexpr int kSumParameters = 4;
std::string SumKernel(const std::string& name, const Widths& widths) {
  return ".visible .entry " + name +
         "(.param .u64 x, .param .u64 z, .param .u64 count, .param .u64 n)\n" + kTrafficOpening +
         R"(  ld.param.u64 %n, [n];
  rem.u64 %j, %i, %n;
  sub.u64 %j, %i, %j;
  add.u64 %k, %j, %n;
  mov.u64 %z, 0;
NEXT:
)" + LoadText("x", "%j", "%x", widths.x) +
         R"(  add.u64 %z, %z, %x;
  add.u64 %j, %j, 1;
  setp.lt.u64 %p, %j, %k;
  @%p bra NEXT;
)" + StoreText("%z", widths.z);
}

const char* WordOf(TrafficBuffer buffer) {
  constexpr const char* kNames[] = {"", "x", "w", "bound", "y", "z", "t0", "t1", "t2"};
  return kNames[static_cast<size_t>(buffer)];
}

bool IsTemporary(TrafficBuffer buffer) {
  return buffer >= TrafficBuffer::kTemp0;
}

// Programs have symbols in the order of their names, and so do calls.
constexpr const char* kSymbols[] = {"n", "o"};

const char* WordOf(Length length) {
  constexpr const char* kTexts[] = {"n", "2*n", "n + o", "max(n - o, 0)", "ceildiv(n, 2)"};
  return kTexts[static_cast<size_t>(length)];
}

// The manifest of one program, and the kernels that it asks for.
class ProgramWriter {
 public:
  ProgramWriter(const TrafficProgram& program, json& kernels, std::string& ptx)
      : program_(program), kernels_(kernels), ptx_(ptx) {}

  json Write(bool exclude_01) {
    const json symbol = {{"exclude_01", exclude_01}};
    json made = {{"symbols", {{"n", symbol}}},
                 {"inputs", {"x"}},
                 {"outputs", {"y"}},
                 {"buffers", json::object()},
                 {"steps", json::array()}};
    if (program_.scalar != TrafficProgram::Scalar::kNone)
      made["scalars"]["salt"]["bind"] = is_keyed() ? "key" : "parameter";
    if (program_.second == TrafficProgram::Second::kScalar) {
      made["scalars"]["second"]["bind"] = "key";
      made["symbols"]["o"] = symbol;
      made["symbols"]["o"]["from"]["scalar"] = "second";
    }
    json& buffers = made["buffers"];
    const auto add = [&](TrafficBuffer buffer, const char* role) -> json& {
      json& added = buffers[WordOf(buffer)] = TensorOf(buffer);
      added["role"] = role;
      return added;
    };
    for (const TrafficBuffer buffer : {TrafficBuffer::kIn0, TrafficBuffer::kIn1}) {
      if (buffer == TrafficBuffer::kIn1 && program_.inputs == 1) continue;
      json& input = add(buffer, "input");
      input["mutated"] = program_.mutates_input;
      input["fill"] = program_.fill.kind == FillKind::kUndefined ? "undefined" : "zero";
    }
    if (program_.inputs > 1) made["inputs"].push_back("w");
    if (program_.binds()) {
      json& bound = add(TrafficBuffer::kStatic, "input");
      bound["static"] = true;
      bound["mutated"] = program_.statics == TrafficProgram::Static::kMutated;
      made["inputs"].push_back("bound");
    }
    add(TrafficBuffer::kOut0, "output");
    if (program_.outputs > 1) {
      add(TrafficBuffer::kOut1, "output");
      made["outputs"].push_back("z");
    }
    for (const TrafficStep& step : program_.steps) {
      if (IsTemporary(step.z)) add(step.z, "temporary");
      if (step.kind == StepKind::kAlias)
        buffers[WordOf(step.z)]["alias"]["buffer"] = WordOf(step.x);
      if (step.kind == StepKind::kMix) made["steps"].push_back(MixOf(step));
      if (step.kind == StepKind::kSum) made["steps"].push_back(SumOf(step));
    }
    return made;
  }

 private:
  bool is_keyed() const { return program_.scalar == TrafficProgram::Scalar::kKey; }
  bool is_resident() const { return program_.scalar == TrafficProgram::Scalar::kResident; }

  Length LengthOf(TrafficBuffer buffer) const {
    return buffer == TrafficBuffer::kIn1    ? program_.other
           : buffer == TrafficBuffer::kOut1 ? program_.output_1
                                            : Length::kN;
  }

  json TensorOf(TrafficBuffer buffer) const {
    json tensor = {{"dtype", NameOf(program_.DTypeOf(buffer))}};
    json& shape = tensor["shape"] = json::array();
    if (buffer == TrafficBuffer::kStatic) {
      shape.push_back(kStaticElements);
      return tensor;
    }
    const int own = program_.rows > 1 ? 2 : 1;
    for (int axis = own; axis < program_.rank; ++axis)
      shape.push_back(1);
    if (program_.rows > 1) shape.push_back(program_.rows);
    shape.push_back(WordOf(LengthOf(buffer)));
    if (program_.row_stride > 0) {
      tensor["strides"] = json::array();
      for (size_t axis = 1; axis < shape.size(); ++axis)
        tensor["strides"].push_back(program_.row_stride);
      tensor["strides"].push_back(1);
    }
    return tensor;
  }

  // Elements from the first to behind the last, with what lies between rows.
  std::string CountOf(TrafficBuffer buffer) const {
    if (buffer == TrafficBuffer::kStatic) return std::to_string(kStaticElements);
    const std::string length = WordOf(LengthOf(buffer));
    if (program_.row_stride == 0) return fmt::format("{} * ({})", program_.rows, length);
    return fmt::format("select({0} == 0, 0, {1} + {0})", length,
                       (program_.rows - 1) * program_.row_stride);
  }

  Widths WidthsOf(const TrafficStep& step) const {
    const auto bytes = [&](TrafficBuffer buffer) { return SizeOf(program_.DTypeOf(buffer)); };
    return {.x = bytes(step.x),
            .y = step.y == TrafficBuffer::kNone ? 1 : bytes(step.y),
            .z = bytes(step.z)};
  }

  json StepOf(const std::string& kernel, const TrafficStep& step, const json& args) const {
    return {{"op", "kernel"},
            {"kernel", kernel},
            {"grid", {fmt::format("ceildiv({}, {})", CountOf(step.z), kTrafficThreads), 1, 1}},
            {"args", args}};
  }

  static json ArgumentOf(TrafficBuffer buffer, const char* access) {
    if (buffer == TrafficBuffer::kNone) return {{"null", true}};
    return {{"buffer", WordOf(buffer)}, {"access", access}};
  }

  json MixOf(const TrafficStep& step) {
    const Widths widths = WidthsOf(step);
    const std::string name = fmt::format("Mix{}{}{}", widths.x, widths.y, widths.z);
    if (!kernels_.contains(name)) ptx_ += MixKernel(name, widths);
    AddKernel(name, kMixParameters);
    const bool in_place = step.z == step.x || step.z == step.y;
    const auto real = [](bool is_there, const char* what) -> json {
      if (!is_there) return {{"null", true}};
      return {{"real", what}};
    };
    const json count = CountOf(step.z);
    const json y_count =
        step.y == TrafficBuffer::kNone ? "1" : fmt::format("max({}, 1)", CountOf(step.y));
    return StepOf(name, step,
                  {ArgumentOf(step.x, "r"),
                   ArgumentOf(step.y, "r"),
                   ArgumentOf(step.z, in_place ? "rw" : "w"),
                   real(program_.claim == PaddingContents::kAny, "n"),
                   real(is_resident(), "salt"),
                   {{"i64", is_keyed() ? json("salt") : json(0)}},
                   {{"i64", is_keyed() ? 1 : 0}},
                   {{"i64", count}},
                   {{"i64", y_count}}});
  }

  json SumOf(const TrafficStep& step) {
    const Widths widths = WidthsOf(step);
    const std::string name = fmt::format("Sum{}{}", widths.x, widths.z);
    if (!kernels_.contains(name)) ptx_ += SumKernel(name, widths);
    AddKernel(name, kSumParameters);
    return StepOf(name, step,
                  {ArgumentOf(step.x, "r"),
                   ArgumentOf(step.z, "w"),
                   {{"i64", CountOf(step.z)}},
                   {{"i64", "max(n, 1)"}}});
  }

  void AddKernel(const std::string& name, int parameters) {
    kernels_[name] = {
        {"parameters", std::vector<int>(static_cast<size_t>(parameters), 8)},
        {"targets",
         {{{"module", "traffic"}, {"symbol", name}, {"block", {kTrafficThreads, 1, 1}}}}}};
  }

  const TrafficProgram& program_;
  json& kernels_;
  std::string& ptx_;
};

}  // namespace

bool FitsPackage(const TrafficProgram& program) {
  using Static = TrafficProgram::Static;
  using Second = TrafficProgram::Second;
  const bool said = program.one_stream && !program.random && !program.counted && !program.counts &&
                    program.statics != Static::kOutput && program.second != Second::kGiven;
  return said && std::ranges::all_of(program.steps, [](const TrafficStep& step) {
           return step.kind == StepKind::kMix || step.kind == StepKind::kSum ||
                  step.kind == StepKind::kFree || step.kind == StepKind::kAlias;
         });
}

TrafficPackage::TrafficPackage(const Context& context,
                               std::span<const TrafficProgram> programs,
                               const TrafficSymbol& symbol) {
  package::PackageBuilder builder;
  builder.manifest["kernels"] = json::object();
  std::string ptx = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (const TrafficProgram& program : programs) {
    if (!FitsPackage(program)) continue;
    builder.manifest["entry"] = program.name;
    builder.manifest["programs"][program.name] =
        ProgramWriter(program, builder.manifest["kernels"], ptx).Write(symbol.exclude_01);
  }
  builder.AddModule("traffic", "ptx", "sm_80", ptx);
  zip_ = builder.Zip();
  absl::StatusOr<package::Package> opened =
      package::Package::FromMemory(package::BytesOf(zip_), "traffic.zip", {});
  COPPICE_CHECK(opened.ok(), "no package");
  absl::StatusOr<std::unique_ptr<const package::LoadedPackage>> loaded =
      package::LoadedPackage::Load(context, *std::move(opened), {});
  COPPICE_CHECK(loaded.ok(), "no kernels");
  loaded_ = *std::move(loaded);
}

absl::StatusOr<const Program*> TrafficPackage::Register(Session& session,
                                                        const TrafficProgram& program,
                                                        ExactReplay exact) const {
  const ProgramSpec spec = SpecOf(program, {});
  PackageProgramOptions options{.exact = exact};
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    const char* const name = kSymbols[i];
    options.policies.emplace(name, spec.symbols[i].policy);
    options.observe_half_lives[name] = spec.symbols[i].observe_half_life;
    options.claims[name] = ClaimOf(spec, static_cast<int>(i));
  }
  return session.Register(*loaded_, program.name, options);
}

}  // namespace coppice
