// Goal: the model is what the manifest says, and a manifest that breaks a rule of FORMAT.md is
// refused at its place. Method: one manifest that has everything, read field by field; and patches
// of it, each with the pointer and the words of its error, from a file.

#include "coppice/runtime/manifest.h"

#include "coppice/runtime/package.h"

#include "tests/package/manifest_cases.h"
#include "tests/support/test.h"

namespace coppice::package {
namespace {

// The zip of a package, and the package.
class Opened {
 public:
  explicit Opened(const PackageBuilder& builder)
      : zip_(builder.Zip()), package_(Package::FromMemory(BytesOf(zip_), "full.zip", {})) {}

  const absl::StatusOr<Package>& package() const { return package_; }
  const Manifest& manifest() const { return package_->manifest(); }

 private:
  std::string zip_;
  absl::StatusOr<Package> package_;
};

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(opened_.package()); }

  const Manifest& manifest() const { return opened_.manifest(); }
  const Program& main() const { return manifest().programs[1]; }
  template <typename Action>
  const Action& StepOf(size_t index) const {
    return std::get<Action>(main().steps[index].action);
  }
  template <typename Kind>
  const Kind& ArgumentOf(size_t index) const {
    return std::get<Kind>(StepOf<KernelStep>(1).args[index]);
  }
  int BufferOf(const std::string& name) const {
    for (size_t i = 0; i < main().buffers.size(); ++i) {
      if (main().buffers[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
  const Buffer& Named(const std::string& name) const {
    return main().buffers[static_cast<size_t>(BufferOf(name))];
  }

  const Opened opened_{FullPackage()};
};

// The values of amounts at fixed, m, n: 3, 4, 10.
std::vector<int64_t> At(const std::vector<Amount>& amounts) {
  std::vector<int64_t> values;
  for (const Amount& amount : amounts) {
    const Computed computed = amount.At(std::vector<int64_t>{4, 10, 3, 0});
    EXPECT_TRUE(computed.ok());
    values.push_back(computed.value);
  }
  return values;
}

TEST_F(ManifestTest, NamesItselfAndItsEntry) {
  EXPECT_EQ(manifest().producer_name, "a test");
  EXPECT_EQ(manifest().producer_version, "1.2");
  EXPECT_THAT(manifest().sha256, SizeIs(64));
  EXPECT_EQ(manifest().entry, 1);
  EXPECT_EQ(main().name, "main");
}

TEST_F(ManifestTest, ItsDigestIsOfTheTextWithNullInItsPlace) {
  nlohmann::json text = nlohmann::json::parse(FullPackage().ManifestText());
  EXPECT_EQ(text["integrity"]["manifest_sha256"], manifest().sha256);
  text["integrity"]["manifest_sha256"] = nullptr;
  EXPECT_EQ(Sha256Hex(CanonicalJson(text)), manifest().sha256);
}

TEST_F(ManifestTest, HasFilesAndModulesInTheOrderOfTheirNames) {
  ASSERT_THAT(manifest().files, SizeIs(3));
  EXPECT_EQ(manifest().files[0].name, "bin/mix_80.ptx");
  EXPECT_EQ(manifest().files[0].bytes, 16);
  EXPECT_EQ(manifest().files[0].sha256, Sha256Hex("// PTX of sm_80\n"));
  ASSERT_THAT(manifest().modules, SizeIs(2));
  EXPECT_EQ(manifest().modules[0].name, "mix_80");
  EXPECT_EQ(manifest().modules[0].format, ImageFormat::kPtx);
  EXPECT_EQ(manifest().modules[1].file, 1);
  EXPECT_EQ(manifest().modules[1].format, ImageFormat::kCubin);
  EXPECT_EQ(manifest().modules[1].arch, "sm_90a");
}

TEST_F(ManifestTest, HasKernelsWithTheirTargets) {
  ASSERT_THAT(manifest().kernels, SizeIs(2));
  const Kernel& mix = manifest().kernels[0];
  EXPECT_EQ(mix.name, "mix");
  EXPECT_THAT(mix.parameter_bytes, ElementsAre(8, 8, 4, 2, 4, 8, 8, 8, 3, 16, 128));
  EXPECT_THAT(mix.value_names, ElementsAre("BLOCK", "LOW"));
  EXPECT_EQ(mix.source.front_end, "triton");
  EXPECT_EQ(mix.source.name, "mix_kernel");
  EXPECT_EQ(mix.source.file, "mix.py");
  EXPECT_EQ(mix.source.line, 12);
  ASSERT_THAT(mix.targets, SizeIs(2));
  const Target& wide = mix.targets[1];
  EXPECT_EQ(wide.module, 1);
  EXPECT_EQ(wide.symbol, "mix");
  EXPECT_THAT(wide.block, ElementsAre(64, 2, 1));
  EXPECT_EQ(wide.shared_bytes, 65536);
  EXPECT_THAT(wide.cluster, ElementsAre(2, 1, 1));
  EXPECT_TRUE(wide.cooperative);
  EXPECT_TRUE(wide.programmatic);
  EXPECT_THAT(wide.values, ElementsAre(64, -2));
  EXPECT_EQ(wide.variant, "wide");
}

TEST_F(ManifestTest, ATargetHasDefaults) {
  const Target& plain = manifest().kernels[1].targets[0];
  EXPECT_EQ(plain.shared_bytes, 0);
  EXPECT_THAT(plain.cluster, ElementsAre(1, 1, 1));
  EXPECT_FALSE(plain.cooperative);
  EXPECT_FALSE(plain.programmatic);
  EXPECT_THAT(plain.scratch, IsEmpty());
  EXPECT_EQ(plain.variant, "");
  EXPECT_EQ(manifest().kernels[1].source.line, 0);
}

TEST_F(ManifestTest, HasScratchOfTargets) {
  ASSERT_THAT(manifest().kernels[0].targets[0].scratch, SizeIs(1));
  EXPECT_EQ(manifest().kernels[0].targets[0].scratch[0].bytes_per_block, 64);
  EXPECT_EQ(manifest().kernels[0].targets[0].scratch[0].align, 128);
}

TEST_F(ManifestTest, HasConstantsWithStrides) {
  ASSERT_THAT(manifest().constants, SizeIs(2));
  const Constant& given = manifest().constants[0];
  EXPECT_EQ(given.dtype, DType::kBFloat16);
  EXPECT_THAT(given.strides, ElementsAre(1, 4));
  EXPECT_EQ(given.file, -1);
  const Constant& w = manifest().constants[1];
  EXPECT_THAT(w.shape, ElementsAre(2, 3));
  EXPECT_THAT(w.strides, ElementsAre(3, 1));
  EXPECT_EQ(w.file, 2);
  EXPECT_EQ(w.tensor, "layer.w");
}

TEST_F(ManifestTest, HasSymbols) {
  ASSERT_THAT(main().symbols, SizeIs(2));
  const Symbol& m = main().symbols[0];
  EXPECT_EQ(m.name, "m");
  EXPECT_EQ(m.scalar, 1);
  EXPECT_EQ(m.min, 2);
  EXPECT_EQ(m.max, 64);
  EXPECT_EQ(m.multiple_of, 2);
  EXPECT_FALSE(m.exclude_01);
  EXPECT_THAT(m.buckets, ElementsAre(2, 8, 64));
  EXPECT_FALSE(m.buckets_pow2);
  EXPECT_EQ(m.claim->padding, PaddingContents::kFill);
  EXPECT_FALSE(m.claim->equal.bits);
  EXPECT_EQ(m.claim->equal.absolute, 1e-5);
  EXPECT_EQ(m.claim->equal.relative, 0.5);
  const Symbol& n = main().symbols[1];
  EXPECT_EQ(n.scalar, -1);
  EXPECT_TRUE(n.exclude_01);
  EXPECT_EQ(n.hint, 7);
  EXPECT_TRUE(n.buckets_pow2);
  EXPECT_EQ(n.claim->padding, PaddingContents::kFinite);
  EXPECT_TRUE(n.claim->equal.bits);
}

TEST_F(ManifestTest, ASymbolHasDefaults) {
  const Symbol& k = manifest().programs[0].symbols[0];
  EXPECT_EQ(k.min, 0);
  EXPECT_EQ(k.max, INT64_MAX);
  EXPECT_EQ(k.multiple_of, 1);
  EXPECT_EQ(k.hint, -1);
  EXPECT_FALSE(k.claim);
  EXPECT_THAT(k.buckets, IsEmpty());
}

TEST_F(ManifestTest, ExpressionsReadSymbolsThenScalars) {
  EXPECT_THAT(main().names(), ElementsAre("m", "n", "fixed", "rows"));
  EXPECT_FALSE(main().scalars[0].parameter);
  EXPECT_TRUE(main().scalars[1].parameter);
  EXPECT_THAT(main().guards, ElementsAre("n % 16 == 0 or n == 1", "rows >= 0"));
}

TEST_F(ManifestTest, InputsAndOutputsHaveTheOrderOfTheManifest) {
  EXPECT_THAT(main().inputs, ElementsAre(BufferOf("x"), BufferOf("cache")));
  EXPECT_THAT(main().outputs, ElementsAre(BufferOf("y"), BufferOf("state")));
}

TEST_F(ManifestTest, HasInputs) {
  const Buffer& cache = Named("cache");
  EXPECT_EQ(cache.role, Role::kInput);
  EXPECT_EQ(cache.dtype, DType::kFloat16);
  EXPECT_THAT(At(cache.shape), ElementsAre(64, 8));
  EXPECT_EQ(cache.align, 128);
  EXPECT_TRUE(cache.mutated);
  EXPECT_TRUE(cache.is_static);
  EXPECT_EQ(cache.fill, Fill::Undefined());
  const Buffer& x = Named("x");
  EXPECT_THAT(At(x.shape), ElementsAre(10, 8));
  EXPECT_THAT(At(x.strides), ElementsAre(8, 1));
  EXPECT_EQ(x.align, 16);
  EXPECT_FALSE(x.mutated);
  EXPECT_EQ(x.fill, Fill::Zero());
  const Buffer& a = manifest().programs[0].buffers[0];
  EXPECT_EQ(a.fill, Fill::Value(-1.5));
}

TEST_F(ManifestTest, HasOutputsAndAliases) {
  EXPECT_THAT(At(Named("y").shape), ElementsAre(10, 32));
  EXPECT_FALSE(Named("y").alias);
  EXPECT_EQ(Named("state").alias->buffer, BufferOf("cache"));
  EXPECT_EQ(Named("state").alias->offset.value, 0);
}

TEST_F(ManifestTest, HasTemporariesConstantsAndSeeds) {
  EXPECT_THAT(At(Named("t").shape), ElementsAre(10, 8));
  EXPECT_EQ(Named("raw").dtype, DType::kUInt8);
  EXPECT_THAT(At(Named("raw").shape), ElementsAre(512));
  EXPECT_EQ(Named("given").role, Role::kConstant);
  EXPECT_EQ(Named("given").constant, 0);
  EXPECT_THAT(At(Named("given").shape), ElementsAre(4, 8));
  EXPECT_EQ(Named("draws").role, Role::kSeed);
  EXPECT_EQ(Named("draws").dtype, DType::kUInt64);
  EXPECT_THAT(At(Named("draws").shape), ElementsAre(2));
}

TEST_F(ManifestTest, AGridReadsTheValuesOfItsKernel) {
  const KernelStep& step = StepOf<KernelStep>(1);
  const std::vector<int64_t> values = {4, 10, 3, 0, 128, -1};
  EXPECT_EQ(step.grid[0].At(values).value, 1);
  EXPECT_EQ(step.grid[1].At(values).value, 5);
  EXPECT_EQ(step.grid[2].At(values).value, 1);
  EXPECT_EQ(main().steps[1].condition->text(), "n > 1");
  EXPECT_FALSE(main().steps[0].condition);
}

TEST_F(ManifestTest, HasArgumentsOfEachKind) {
  EXPECT_EQ(ArgumentOf<BufferArgument>(0).operand.buffer, BufferOf("x"));
  EXPECT_EQ(ArgumentOf<BufferArgument>(0)
                .operand.offset.At(std::vector<int64_t>{4, 10, 3, 0, 1, 1})
                .value,
            160);
  EXPECT_EQ(ArgumentOf<BufferArgument>(0).access, Access::kRead);
  EXPECT_EQ(ArgumentOf<BufferArgument>(1).access, Access::kWrite);
  EXPECT_EQ(ArgumentOf<IntegerArgument>(2).bytes, 4);
  EXPECT_TRUE(ArgumentOf<IntegerArgument>(2).is_signed);
  EXPECT_EQ(TextOf(ArgumentOf<BytesArgument>(3).bytes), std::string("\x00\x3f", 2));
  EXPECT_EQ(TextOf(ArgumentOf<BytesArgument>(4).bytes), std::string("\x00\x00\xc0\x7f", 4));
  EXPECT_EQ(TextOf(ArgumentOf<BytesArgument>(5).bytes), std::string(8, '\0'));
  EXPECT_EQ(ArgumentOf<ScratchArgument>(6).index, 0);
  EXPECT_EQ(ArgumentOf<RealArgument>(7).symbol, 1);
  EXPECT_EQ(ArgumentOf<RealArgument>(7).scalar, -1);
  EXPECT_EQ(TextOf(ArgumentOf<BytesArgument>(8).bytes), std::string("\x00\xff\x7f", 3));
}

TEST_F(ManifestTest, AStructIsPaddedAsInC) {
  struct Inner {
    int16_t first;
    bool second;
  };
  struct Outer {
    uint8_t first;
    Inner second;
    double third;
  };
  const Argument& argument = StepOf<KernelStep>(1).args[9];
  EXPECT_EQ(LayoutOf(argument).bytes, sizeof(Outer));
  EXPECT_EQ(LayoutOf(argument).align, alignof(Outer));
  const auto& outer = std::get<StructArgument>(argument);
  ASSERT_THAT(outer.members, SizeIs(3));
  EXPECT_EQ(LayoutOf(outer.members[1]).bytes, sizeof(Inner));
  EXPECT_EQ(LayoutOf(outer.members[1]).align, alignof(Inner));
  EXPECT_FALSE(std::get<IntegerArgument>(outer.members[0]).is_signed);
}

TEST_F(ManifestTest, HasDescriptors) {
  const auto& map = ArgumentOf<TensorMapArgument>(10);
  EXPECT_EQ(map.operand.buffer, BufferOf("w"));
  EXPECT_EQ(map.access, Access::kRead);
  EXPECT_THAT(map.dims, SizeIs(2));
  EXPECT_EQ(map.strides[0].value, 16);
  EXPECT_THAT(map.box, ElementsAre(4, 64));
  EXPECT_THAT(map.element_strides, ElementsAre(1, 1));
  EXPECT_EQ(map.interleave, 0);
  EXPECT_EQ(map.swizzle, 3);
  EXPECT_EQ(map.l2_promotion, 0);
  EXPECT_EQ(map.oob_fill, 1);
  EXPECT_EQ(LayoutOf(map).bytes, 128);
}

TEST_F(ManifestTest, HasMemsetsAndMemcpys) {
  const auto& memset = StepOf<MemsetStep>(0);
  EXPECT_EQ(memset.to.buffer, BufferOf("raw"));
  EXPECT_EQ(memset.value, 255);
  EXPECT_EQ(memset.width, 1);
  EXPECT_THAT(At({memset.count}), ElementsAre(320));
  const auto& memcpy = StepOf<MemcpyStep>(3);
  EXPECT_EQ(memcpy.to.buffer, BufferOf("cache"));
  EXPECT_EQ(memcpy.from.buffer, BufferOf("draws"));
  EXPECT_EQ(memcpy.bytes.value, 16);
}

TEST_F(ManifestTest, HasCalls) {
  const auto& call = StepOf<CallStep>(2);
  EXPECT_EQ(call.function, "gemm");
  ASSERT_THAT(call.inputs, SizeIs(2));
  EXPECT_EQ(call.inputs[1].operand.buffer, BufferOf("given"));
  EXPECT_EQ(call.inputs[1].dtype, DType::kBFloat16);
  EXPECT_THAT(At(call.inputs[1].strides), ElementsAre(1, 4));
  ASSERT_THAT(call.outputs, SizeIs(1));
  EXPECT_THAT(At(call.outputs[0].shape), ElementsAre(10, 4));
  EXPECT_EQ(std::get<int64_t>(call.options.at("algorithm")), 3);
  EXPECT_EQ(std::get<std::string>(call.options.at("epilogue")), "none");
}

TEST_F(ManifestTest, HasChildren) {
  const auto& child = StepOf<ChildStep>(4);
  EXPECT_EQ(child.program, 0);
  EXPECT_THAT(At(child.symbols), ElementsAre(10));
  ASSERT_THAT(child.inputs, SizeIs(1));
  EXPECT_EQ(child.inputs[0].buffer, BufferOf("t"));
  ASSERT_THAT(child.outputs, SizeIs(1));
  EXPECT_EQ(child.outputs[0].buffer, BufferOf("y"));
  EXPECT_THAT(At({child.outputs[0].offset}), ElementsAre(320));
}

// The bits of a fraction, as an argument of a kernel with one parameter.
std::string BitsOf(const std::string& type, const std::string& fraction, int bytes) {
  PackageBuilder builder = FullPackage();
  builder.manifest["kernels"]["plain"]["parameters"] = {bytes};
  builder.manifest["programs"]["main"]["steps"][5]["args"] = {{{type, fraction}}};
  const Opened opened(builder);
  EXPECT_OK(opened.package());
  if (!opened.package().ok()) return "";
  const Step& step = opened.manifest().programs[1].steps[5];
  return TextOf(std::get<BytesArgument>(std::get<KernelStep>(step.action).args[0]).bytes);
}

template <typename Bits>
std::string LittleEndian(Bits bits) {
  return std::string(reinterpret_cast<const char*>(&bits), sizeof(bits));
}

TEST(FractionTest, F64AndF32AreWhatTheCompilerMakesOfTheSameText) {
  EXPECT_EQ(BitsOf("f64", "0.1", 8), LittleEndian(0.1));
  EXPECT_EQ(BitsOf("f64", "5e-324", 8), LittleEndian(5e-324));
  EXPECT_EQ(BitsOf("f64", "-1.7976931348623157e+308", 8), LittleEndian(-1.7976931348623157e+308));
  EXPECT_EQ(BitsOf("f32", "0.1", 4), LittleEndian(0.1F));
  EXPECT_EQ(BitsOf("f32", "-0.0", 4), LittleEndian(-0.0F));
  EXPECT_EQ(BitsOf("f32", "1.5e-45", 4), LittleEndian(1.5e-45F));
  EXPECT_EQ(BitsOf("f32", "3.4028234e+38", 4), LittleEndian(3.4028234e+38F));
}

TEST(FractionTest, NarrowOnesAreRoundedToTheNearestTiesToEven) {
  EXPECT_EQ(BitsOf("f16", "1.00048828125", 2), LittleEndian(uint16_t{0x3c00}));  // A tie.
  EXPECT_EQ(BitsOf("f16", "1.00146484375", 2), LittleEndian(uint16_t{0x3c02}));  // A tie.
  EXPECT_EQ(BitsOf("f16", "65504", 2), LittleEndian(uint16_t{0x7bff}));
  EXPECT_EQ(BitsOf("f16", "65519.99", 2), LittleEndian(uint16_t{0x7bff}));
  EXPECT_EQ(BitsOf("f16", "6e-08", 2), LittleEndian(uint16_t{0x0001}));  // Subnormal.
  EXPECT_EQ(BitsOf("f16", "6.1e-05", 2), LittleEndian(uint16_t{0x03ff}));
  EXPECT_EQ(BitsOf("f16", "2e-08", 2), LittleEndian(uint16_t{0x0000}));
  EXPECT_EQ(BitsOf("f16", "-inf", 2), LittleEndian(uint16_t{0xfc00}));
  EXPECT_EQ(BitsOf("bf16", "3.140625", 2), LittleEndian(uint16_t{0x4049}));
  EXPECT_EQ(BitsOf("bf16", "1e-40", 2), LittleEndian(uint16_t{0x0001}));
  EXPECT_EQ(BitsOf("bf16", "nan", 2), LittleEndian(uint16_t{0x7fc0}));
}

// A case of the file: its name, and the package of its patch.
PackageBuilder PackageOf(const nlohmann::json& one) {
  PackageBuilder builder = FullPackage();
  builder.manifest = builder.manifest.patch(one["patch"]);
  return builder;
}

TEST(ManifestCasesTest, GoodManifestsAreRead) {
  const nlohmann::json cases = ManifestCases();
  ASSERT_GE(cases["good"].size(), 10U);
  for (const nlohmann::json& one : cases["good"])
    EXPECT_OK(Opened(PackageOf(one)).package()) << one["name"];
}

TEST(ManifestCasesTest, ErrorsSayWhereAndWhat) {
  const nlohmann::json cases = ManifestCases();
  ASSERT_GE(cases["bad"].size(), 100U);
  for (const nlohmann::json& one : cases["bad"]) {
    const Opened opened(PackageOf(one));
    ASSERT_THAT(opened.package(), StatusIs(kWrongArgument)) << one["name"];
    const std::string message = MessageOf(opened.package().status());
    EXPECT_THAT(message, HasSubstr("full.zip: manifest.json: " + std::string(one["at"])))
        << one["name"];
    EXPECT_THAT(message, HasSubstr(std::string(one["says"]))) << one["name"];
  }
}

// Programs p00, p01, ..., each of which runs the next one twice; the last is `inner`.
PackageBuilder DoublingPackage(int programs) {
  PackageBuilder builder = FullPackage();
  for (int i = 0; i < programs; ++i) {
    const nlohmann::json child = {
        {"op", "child"},
        {"program", i + 1 < programs ? fmt::format("p{:02}", i + 1) : std::string("inner")},
        {"symbols", {{"k", "k"}}},
        {"buffers", {{"a", {{"buffer", "a"}}}, {"b", {{"buffer", "b"}}}}}};
    nlohmann::json& program = builder.manifest["programs"][fmt::format("p{:02}", i)];
    program = builder.manifest["programs"]["inner"];
    program["steps"] = {child, child};
  }
  return builder;
}

TEST(ManifestCasesTest, OneRunOfAProgramHasAtMostAMillionSteps) {
  EXPECT_OK(Opened(DoublingPackage(18)).package()) << "3 * 2^18 - 2 steps";
  const Opened opened(DoublingPackage(19));
  ASSERT_THAT(opened.package(), StatusIs(kWrongArgument));
  EXPECT_THAT(MessageOf(opened.package().status()),
              HasSubstr("/programs/p00/steps: the program runs 1572862 steps"));
}

TEST(ManifestCasesTest, AnotherMajorVersionIsNotReadAtAll) {
  PackageBuilder builder = FullPackage();
  builder.manifest["schema_version"] = {2, 0};
  builder.manifest["programs"] = 3;
  EXPECT_THAT(Opened(builder).package(), StatusIs(absl::StatusCode::kUnimplemented));
}

TEST(ManifestCasesTest, AnUnknownRequirementIsRefused) {
  PackageBuilder builder = FullPackage();
  builder.manifest["requires"] = {"telepathy"};
  const Opened opened(builder);
  EXPECT_THAT(opened.package(), StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_THAT(MessageOf(opened.package().status()), HasSubstr("telepathy"));
}

}  // namespace
}  // namespace coppice::package
