// Goal: what a cubin says of its kernels is what NVIDIA's tools print of it, in both ELF styles,
// and no damage of it crashes the reader or makes it slow. Method: fixtures/cubins.tsv, which
// make_cubins.py writes from the output of cuobjdump and ptxas; every truncation, every byte of the
// headers and notes changed, and random changes anywhere.

#include "runtime/package/cubin.h"

#include "coppice/base/tsv.h"

#include "runtime/device_image.h"
#include "tests/package/lint_fixtures.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::package {
namespace {

using testing::AnyOf;
using testing::IsNull;
using testing::NotNull;

constexpr const char* kCubins[] = {"cubins_sm_75.cubin", "cubins_sm_90a.cubin",
                                   "cubins_sm_100f.cubin", "softmax_sm_80.cubin"};

std::string TextOf(const std::array<uint32_t, 3>& three) {
  if (three == std::array<uint32_t, 3>{}) return "";
  return std::to_string(three[0]) + "," + std::to_string(three[1]) + "," + std::to_string(three[2]);
}

std::string TextOf(const std::vector<CubinParameter>& parameters) {
  std::string text;
  for (const CubinParameter& each : parameters)
    text +=
        (text.empty() ? "" : " ") + std::to_string(each.offset) + ":" + std::to_string(each.bytes);
  return text;
}

TEST(CubinTest, KernelsAreWhatNvidiasToolsPrint) {
  const std::string table = ReadFixture("cubins.tsv");
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const std::vector<TsvRow> rows,
      ParseTsv(table, "cubins.tsv",
               "file\tcapability\tkernel\tparameters\tregisters\tshared\tmax_threads\t"
               "required_threads\tcluster"));
  std::map<std::string, size_t> kernels;  // By file.
  for (const TsvRow& row : rows) {
    SCOPED_TRACE(row.line);
    const std::string image = ReadFixture(std::string(row.fields[0]));
    COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin cubin, ReadCubin(BytesOf(image)));
    EXPECT_EQ(std::to_string(cubin.capability), row.fields[1]);
    const CubinKernel* const kernel = cubin.Find(std::string(row.fields[2]));
    ASSERT_THAT(kernel, NotNull());
    EXPECT_EQ(TextOf(kernel->parameters), row.fields[3]);
    EXPECT_EQ(std::to_string(kernel->registers), row.fields[4]);
    EXPECT_EQ(std::to_string(kernel->shared_bytes), row.fields[5]);
    EXPECT_EQ(TextOf(kernel->max_threads), row.fields[6]);
    EXPECT_EQ(TextOf(kernel->required_threads), row.fields[7]);
    EXPECT_EQ(TextOf(kernel->cluster), row.fields[8]);
    kernels[std::string(row.fields[0])] += 1;
    EXPECT_LE(kernels[std::string(row.fields[0])], cubin.kernels.size());
  }
  for (const char* name : kCubins) {
    const std::string image = ReadFixture(name);
    COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin cubin, ReadCubin(BytesOf(image)));
    EXPECT_EQ(cubin.kernels.size(), kernels[name]) << name;
  }
}

TEST(CubinTest, FirstParameterNeedNotLieAtTheStart) {
  const std::string image = ReadFixture("cubins_sm_90a.cubin");
  COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin cubin, ReadCubin(BytesOf(image)));
  const CubinKernel* const kernel = cubin.Find("MapFirst");
  ASSERT_THAT(kernel, NotNull());
  EXPECT_EQ(kernel->parameters.front(), (CubinParameter{.offset = 48, .bytes = 128}));
  EXPECT_EQ(kernel->parameter_bytes, 188);
}

TEST(CubinTest, BothStylesOfTheHeaderHaveTheirArchitecture) {
  const std::string older = ReadFixture("softmax_sm_80.cubin");
  const std::string newer = ReadFixture("cubins_sm_100f.cubin");
  EXPECT_NE(older[8], newer[8]);  // The version of the ABI.
  COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin of_older, ReadCubin(BytesOf(older)));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin of_newer, ReadCubin(BytesOf(newer)));
  EXPECT_EQ(of_older.capability, 80);
  EXPECT_EQ(of_newer.capability, 100);
}

TEST(CubinTest, KernelsAreSortedAndFoundByName) {
  const std::string image = ReadFixture("cubins_sm_75.cubin");
  COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin cubin, ReadCubin(BytesOf(image)));
  EXPECT_TRUE(
      std::is_sorted(cubin.kernels.begin(), cubin.kernels.end(),
                     [](const CubinKernel& a, const CubinKernel& b) { return a.name < b.name; }));
  for (const CubinKernel& kernel : cubin.kernels)
    EXPECT_EQ(cubin.Find(kernel.name), &kernel);
  EXPECT_THAT(cubin.Find("Plai"), IsNull());
  EXPECT_THAT(cubin.Find(""), IsNull());
}

TEST(CubinTest, OtherImagesAreRefused) {
  EXPECT_THAT(ReadCubin({}), StatusIs(kWrongArgument));
  for (const std::string& image :
       {ReadFixture("cubins.fatbin"), CleanFiles()["bin/code.ptx"], ReadFixture("cubins.tsv")})
    EXPECT_THAT(ReadCubin(BytesOf(image)), StatusIs(kWrongArgument)) << image.substr(0, 40);
}

// What is read has the bounds that its callers rely on, whatever the image.
void ExpectSane(const std::string& image) {
  const auto cubin = ReadCubin(BytesOf(image));
  if (!cubin.ok()) {
    EXPECT_THAT(cubin,
                StatusIs(kWrongArgument, AnyOf(HasSubstr("; compile"), HasSubstr("; pass"))));
    return;
  }
  size_t names = 0;
  for (const CubinKernel& kernel : cubin->kernels) {
    names += kernel.name.size();
    int32_t end = 0;
    for (const CubinParameter& parameter : kernel.parameters) {
      EXPECT_GE(parameter.offset, end);
      end = parameter.offset + parameter.bytes;
    }
    EXPECT_EQ(kernel.parameter_bytes, end);
    EXPECT_GE(kernel.shared_bytes, 0);
    EXPECT_LE(kernel.registers, 255);
  }
  EXPECT_LE(names, image.size());
}

TEST(CubinTest, EveryTruncationIsRefused) {
  for (const char* name : {"cubins_sm_90a.cubin", "softmax_sm_80.cubin"}) {
    const std::string image = ReadFixture(name);
    for (size_t size = 0; size < image.size(); size += TestShare()) {
      const std::string cut = image.substr(0, size);
      ASSERT_THAT(ReadCubin(BytesOf(cut)), StatusIs(kWrongArgument)) << name << " " << size;
    }
  }
}

TEST(CubinTest, EveryFlippedBitIsReadOrRefused) {
  std::string image = ReadFixture("softmax_sm_80.cubin");
  for (size_t bit = 0; bit < image.size() * 8; bit += TestShare()) {
    image[bit / 8] = static_cast<char>(image[bit / 8] ^ (1 << bit % 8));
    ExpectSane(image);
    image[bit / 8] = static_cast<char>(image[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(CubinTest, ChangedImagesAreReadOrRefused) {
  std::mt19937_64 random(TestSeed());
  const int64_t cases = 20'000 / TestShare();
  std::vector<std::string> images;
  for (const char* name : kCubins)
    images.push_back(ReadFixture(name));
  for (int64_t i = 0; i < cases; ++i) {
    std::string image = images[random() % images.size()];
    const uint64_t changes = 1 + random() % 8;
    for (uint64_t change = 0; change < changes; ++change) {
      // Most often in a header, of the file or of a section, where numbers are places.
      size_t at = random() % image.size();
      if (random() % 2 == 0) at = random() % 64;
      if (random() % 2 == 0)
        at = image.size() - 1 - random() % std::min<size_t>(image.size(), 4096);
      const char values[] = {0, 1, '\x7F', '\xFF', static_cast<char>(random())};
      image[at] = values[random() % std::size(values)];
    }
    ExpectSane(image);
  }
}

TEST(CubinTest, NotesThatOverlapAreRefusedBeforeTheyTakeTime) {
  // Every section becomes the notes of one kernel, all of the file.
  std::string image = ReadFixture("cubins_sm_75.cubin");
  uint64_t start = 0;
  uint16_t count = 0;
  std::copy_n(image.data() + 40, 8, reinterpret_cast<char*>(&start));
  std::copy_n(image.data() + 60, 2, reinterpret_cast<char*>(&count));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Cubin cubin, ReadCubin(BytesOf(image)));
  ASSERT_THAT(cubin.kernels, Not(IsEmpty()));
  std::vector<size_t> notes;
  for (uint16_t i = 0; i < count; ++i) {
    uint32_t type = 0;
    std::copy_n(image.data() + start + 64 * i + 4, 4, reinterpret_cast<char*>(&type));
    if (type == 0x70000000) notes.push_back(start + 64 * i);
  }
  ASSERT_THAT(notes, SizeIs(testing::Gt(2)));
  const uint64_t all = image.size();
  const uint64_t none = 0;
  for (const size_t header : notes) {
    std::copy_n(reinterpret_cast<const char*>(&none), 8, image.data() + header + 24);
    std::copy_n(reinterpret_cast<const char*>(&all), 8, image.data() + header + 32);
  }
  EXPECT_THAT(ReadCubin(BytesOf(image)), StatusIs(kWrongArgument));
}

// The entries of a fatbin, which package targets and the emulator share.
TEST(FatbinEntriesTest, HaveCubinsAndPtxWithTheirArchitectures) {
  const std::string image = ReadFixture("cubins.fatbin");
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto entries, internal::FatbinEntries(BytesOf(image)));
  ASSERT_THAT(entries, SizeIs(2));
  for (const internal::FatbinEntry& entry : entries) {
    EXPECT_FALSE(entry.compressed);
    const bool is_cubin = entry.kind == internal::DeviceImageKind::kCubin;
    EXPECT_EQ(entry.capability, is_cubin ? 90 : 80);
    const std::string bytes(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
    if (is_cubin)
      EXPECT_OK(ReadCubin(entry.bytes));
    else
      EXPECT_THAT(bytes, HasSubstr(".target sm_80"));
  }
}

TEST(FatbinEntriesTest, CompressedOnesSayIt) {
  const std::string image = ReadFixture("compressed.fatbin");
  COPPICE_ASSERT_OK_AND_ASSIGN(const auto entries, internal::FatbinEntries(BytesOf(image)));
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_TRUE(entries[0].compressed && entries[1].compressed);
}

TEST(FatbinEntriesTest, TruncationsAreRefusedOrHaveFewerEntries) {
  const std::string image = ReadFixture("compressed.fatbin");
  for (size_t size = 16; size < image.size(); ++size) {
    const std::string cut = image.substr(0, size);
    const auto entries = internal::FatbinEntries(BytesOf(cut));
    EXPECT_TRUE(!entries.ok() || entries->size() < 2) << size;
  }
}

}  // namespace
}  // namespace coppice::package
