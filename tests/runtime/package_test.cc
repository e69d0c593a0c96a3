// Goal: a package opens if it is what FORMAT.md says, and each other container is refused with an
// error that says where. Method: packages written by the tests' own writer and by Python, and
// copies of them with one thing wrong.

#include "coppice/runtime/package.h"

#include <openssl/evp.h>

#include "tests/package/manifest_cases.h"
#include "tests/package/package_builder.h"
#include "tests/support/test.h"

namespace coppice::package {
namespace {

namespace fs = std::filesystem;

// What opening these bytes says; of a package that opens, what all its bytes say.
absl::Status CheckZip(const std::string& zip) {
  const absl::StatusOr<Package> package = Package::FromMemory(BytesOf(zip), "test.zip", {});
  return package.ok() ? package->Verify() : package.status();
}

absl::Status CheckPath(const std::string& path) {
  const absl::StatusOr<Package> package = Package::Open(path, {});
  return package.ok() ? package->Verify() : package.status();
}

std::string MessageOfZip(const std::string& zip) {
  return MessageOf(CheckZip(zip));
}

using Files = std::vector<std::pair<std::string, std::string>>;

// The files of Twice, in the zip's order.
Files TwiceFiles() {
  return {{"manifest.json", PackageBuilder::Twice().ManifestText()},
          {"bin/twice_80.ptx", "// PTX that nobody looks into.\n"},
          {"bin/twice_90.cubin", std::string("\x7f"
                                             "ELF\0\1",
                                             6)}};
}

TEST(PackageTest, AFolderAndAZipHaveTheSameManifestAndFiles) {
  const TemporaryFolder folder;
  const PackageBuilder builder = PackageBuilder::Twice();
  for (const std::string& path :
       {builder.WriteZip(folder / "twice.zip"), builder.WriteFolder(folder / "twice")}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(path, {}));
    EXPECT_EQ(package.path(), path);
    EXPECT_EQ(package.manifest().programs[0].name, "main");
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::span<const std::byte> bytes,
                                 package.Read("bin/twice_80.ptx"));
    EXPECT_EQ(TextOf(bytes), "// PTX that nobody looks into.\n");
    EXPECT_OK(package.Verify());
  }
}

TEST(PackageTest, TheTextOfItsManifestIsWhatTheFileHolds) {
  const TemporaryFolder folder;
  const PackageBuilder builder = PackageBuilder::Twice();
  for (const std::string& path :
       {builder.WriteZip(folder / "twice.zip"), builder.WriteFolder(folder / "twice")}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(path, {}));
    EXPECT_EQ(package.manifest_text(), builder.ManifestText()) << path;
  }
}

TEST(PackageTest, FilesOfAZipLieInPagesOfTheirOwnAndAreNotCopied) {
  const std::string zip = PackageBuilder::Twice().Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package,
                               Package::FromMemory(BytesOf(zip), "twice.zip", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::span<const std::byte> bytes,
                               package.Read("bin/twice_90.cubin"));
  const auto offset = reinterpret_cast<const char*>(bytes.data()) - zip.data();
  EXPECT_GT(offset, 0);
  EXPECT_LT(offset, static_cast<int64_t>(zip.size()));
  EXPECT_EQ(offset % 4096, 0);
}

TEST(PackageTest, WhatPythonWritesOpens) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package,
                               Package::Open(COPPICE_PACKAGE_FIXTURES "/python.zip", {}));
  EXPECT_OK(package.Verify());
  EXPECT_THAT(package.manifest().producer_name, HasSubstr("Python \u00e9\U0001f600 \x7f \"\\/\b"));
}

TEST(PackageTest, OnlyNamesOfTheManifestAreRead) {
  const std::string zip = PackageBuilder::Twice().Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package,
                               Package::FromMemory(BytesOf(zip), "twice.zip", {}));
  EXPECT_THAT(package.Read("bin/other"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(package.Read("manifest.json"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(package.Read("../twice.zip"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(PackageTest, EveryTruncationIsRefused) {
  const std::string zip = PackageBuilder::Twice().Zip();
  for (size_t size = 0; size < zip.size(); ++size) {
    // Its own allocation, so that a sanitizer sees reading behind it.
    const std::string cut(zip.data(), size);
    ASSERT_THAT(CheckZip(cut), StatusIs(kWrongArgument)) << size;
  }
}

TEST(PackageTest, EveryFlippedBitIsRefused) {
  std::string zip = PackageBuilder::Twice().Zip();
  ASSERT_OK(CheckZip(zip));
  for (size_t bit = 0; bit < 8 * zip.size(); ++bit) {
    zip[bit / 8] = static_cast<char>(zip[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = CheckZip(zip);
    ASSERT_FALSE(status.ok()) << bit;
    ASSERT_THAT(MessageOf(status), ::testing::StartsWith("test.zip")) << bit;
    zip[bit / 8] = static_cast<char>(zip[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(PackageTest, BytesBehindTheEndAreRefused) {
  const std::string zip = PackageBuilder::Twice().Zip();
  EXPECT_THAT(CheckZip(zip + '\0'), StatusIs(kWrongArgument));
  EXPECT_THAT(CheckZip(zip + zip), StatusIs(kWrongArgument));
}

TEST(PackageTest, FilesOutOfOrderAreRefused) {
  Files files = TwiceFiles();
  EXPECT_OK(CheckZip(ZipOf(files)));
  std::swap(files[1], files[2]);
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("out of order"));
  std::swap(files[0], files[1]);
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("manifest.json must come first"));
}

TEST(PackageTest, AFileThatIsThereTwiceIsRefused) {
  Files files = TwiceFiles();
  files.insert(files.begin() + 1, files[1]);
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("twice"));
}

TEST(PackageTest, FilesThatTheManifestDoesNotNameAreRefused) {
  Files files = TwiceFiles();
  files.emplace_back("bin/zzz", "");
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("bin/zzz is not in /files"));
  files = TwiceFiles();
  files.pop_back();
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("bin/twice_90.cubin is in /files"));
}

TEST(PackageTest, OddNamesAreRefused) {
  for (const std::string name : {"", "/etc/passwd", "bin/../x", "bin//x", "bin/", "./x", "..",
                                 "bin/a b", "bin/\xc3\xa9", "bin\\x"}) {
    Files files = TwiceFiles();
    files[1].first = name;
    EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("not a valid file name")) << name;
  }
  Files files = TwiceFiles();
  files[1].first = std::string(256, 'a');
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("not a valid file name"));
}

TEST(PackageTest, AFileOfAnotherLengthIsRefusedWhenItOpens) {
  Files files = TwiceFiles();
  files[1].second += "x";
  EXPECT_THAT(Package::FromMemory(BytesOf(ZipOf(files)), "twice.zip", {}),
              StatusIs(kWrongArgument));
}

TEST(PackageTest, AFileOfAnotherDigestIsRefusedWhenItIsRead) {
  Files files = TwiceFiles();
  files[1].second[5] = 'Q';
  const std::string zip = ZipOf(files);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package,
                               Package::FromMemory(BytesOf(zip), "twice.zip", {}));
  EXPECT_OK(package.Read("bin/twice_90.cubin"));
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(package.Read("bin/twice_80.ptx"),
                StatusIs(kWrongArgument, HasSubstr("twice.zip: bin/twice_80.ptx: ")));
  }
  EXPECT_THAT(package.Verify(), StatusIs(kWrongArgument));
}

TEST(PackageTest, TheManifestIsCanonical) {
  const std::string canonical = PackageBuilder::Twice().ManifestText();
  Files files = TwiceFiles();
  for (const std::string& text : {canonical + "\n", " " + canonical, "\xef\xbb\xbf" + canonical,
                                  nlohmann::json::parse(canonical).dump(1), std::string("{}"),
                                  std::string("[]"), std::string("3"), std::string()}) {
    files[0].second = text;
    EXPECT_THAT(CheckZip(ZipOf(files)), StatusIs(kWrongArgument)) << text.substr(0, 40);
  }
}

TEST(PackageTest, TheManifestsDigestIsCheckedBeforeAnythingElseInIt) {
  Files files = TwiceFiles();
  nlohmann::json manifest = nlohmann::json::parse(files[0].second);
  manifest["schema_version"] = {9, 9};
  files[0].second = CanonicalJson(manifest);
  EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("/integrity/manifest_sha256"));
  for (const nlohmann::json& digest : {nlohmann::json(nullptr), nlohmann::json("00"),
                                       nlohmann::json(7), nlohmann::json(std::string(64, '0'))}) {
    manifest["integrity"]["manifest_sha256"] = digest;
    files[0].second = CanonicalJson(manifest);
    EXPECT_THAT(MessageOfZip(ZipOf(files)), HasSubstr("/integrity/manifest_sha256")) << digest;
  }
}

TEST(PackageTest, ALongManifestIsRefused) {
  const std::string zip = PackageBuilder::Twice().Zip();
  OpenOptions options{.manifest_bytes_max = 100};
  EXPECT_THAT(Package::FromMemory(BytesOf(zip), "twice.zip", options), StatusIs(kWrongArgument));
  options.manifest_bytes_max = static_cast<int64_t>(PackageBuilder::Twice().ManifestText().size());
  EXPECT_OK(Package::FromMemory(BytesOf(zip), "twice.zip", options));
}

TEST(PackageTest, AFolderHasNoLinksAndNoOtherFiles) {
  const TemporaryFolder folder;
  const std::string path = PackageBuilder::Twice().WriteFolder(folder / "twice");
  ASSERT_OK(CheckPath(path));
  WriteBytes(path + "/bin/more", "");
  EXPECT_THAT(CheckPath(path), StatusIs(kWrongArgument));
  fs::remove(path + "/bin/more");
  WriteBytes(path + "/odd name", "");
  EXPECT_THAT(CheckPath(path), StatusIs(kWrongArgument));
  fs::remove(path + "/odd name");
  fs::rename(path + "/bin/twice_80.ptx", folder / "elsewhere");
  EXPECT_THAT(CheckPath(path), StatusIs(kWrongArgument));
  fs::create_symlink(folder / "elsewhere", path + "/bin/twice_80.ptx");
  EXPECT_THAT(MessageOf(CheckPath(path)), HasSubstr("a link"));
  fs::remove(path + "/bin/twice_80.ptx");
  fs::rename(path + "/bin", folder / "images");
  fs::create_directory_symlink(folder / "images", path + "/bin");
  EXPECT_THAT(MessageOf(CheckPath(path)), HasSubstr("a link"));
}

TEST(PackageTest, AFolderThatChangesAfterItOpenedIsRefusedWhenItIsRead) {
  const TemporaryFolder folder;
  const std::string path = PackageBuilder::Twice().WriteFolder(folder / "twice");
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(path, {}));
  WriteBytes(path + "/bin/twice_80.ptx", "shorter");
  EXPECT_THAT(package.Read("bin/twice_80.ptx"), StatusIs(kWrongArgument));
  fs::remove(path + "/bin/twice_90.cubin");
  EXPECT_THAT(package.Read("bin/twice_90.cubin"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(PackageTest, WhatIsNoPackageIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(CheckPath(folder / "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(MessageOf(CheckPath(folder.path())), HasSubstr("manifest.json"));
  WriteBytes(folder / "text", "some text that is long enough to hold an end record");
  EXPECT_THAT(CheckPath(folder / "text"), StatusIs(kWrongArgument));
  EXPECT_THAT(CheckPath("/dev/null"), StatusIs(kWrongArgument));
}

// A key pair, by which the tests sign.
class Signer {
 public:
  Signer() : key_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")) {}
  ~Signer() { EVP_PKEY_free(key_); }
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;

  PublicKey public_key() const {
    PublicKey key{};
    size_t size = key.size();
    EVP_PKEY_get_raw_public_key(key_, key.data(), &size);
    return key;
  }

  std::string Sign(const std::string& message) const {
    std::string signature(64, '\0');
    size_t size = signature.size();
    EVP_MD_CTX* const context = EVP_MD_CTX_new();
    EVP_DigestSignInit(context, nullptr, nullptr, nullptr, key_);
    EVP_DigestSign(context, reinterpret_cast<uint8_t*>(signature.data()), &size,
                   reinterpret_cast<const uint8_t*>(message.data()), message.size());
    EVP_MD_CTX_free(context);
    return signature;
  }

 private:
  EVP_PKEY* key_;
};

TEST(PackageTest, OneOfTheTrustedKeysSignedTheManifest) {
  const Signer signer;
  const Signer other;
  PackageBuilder builder = PackageBuilder::Twice();
  builder.Sign(signer.Sign(builder.ManifestText()));
  const std::string zip = builder.Zip();
  const auto open = [&](const std::string& bytes, std::vector<PublicKey> keys) {
    return Package::FromMemory(BytesOf(bytes), "twice.zip", {.trusted_keys = std::move(keys)})
        .status();
  };
  constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;
  EXPECT_OK(open(zip, {}));
  EXPECT_OK(open(zip, {signer.public_key()}));
  EXPECT_OK(open(zip, {other.public_key(), signer.public_key()}));
  EXPECT_THAT(open(zip, {other.public_key()}), StatusIs(kDenied));
  EXPECT_THAT(open(PackageBuilder::Twice().Zip(), {signer.public_key()}), StatusIs(kDenied));
  builder.manifest["producer"]["version"] = "1";
  EXPECT_THAT(open(builder.Zip(), {signer.public_key()}), StatusIs(kDenied));
  builder.Sign(std::string(63, 's'));
  EXPECT_THAT(open(builder.Zip(), {}), StatusIs(kWrongArgument));
}

TEST(PackageTest, VerifyFindsConstantsThatAreNotInTheirFile) {
  const auto verify = [](const char* tensor, const nlohmann::json& shape, const char* dtype) {
    PackageBuilder builder = FullPackage();
    builder.manifest["constants"]["w"]["data"]["tensor"] = tensor;
    builder.manifest["constants"]["w"]["shape"] = shape;
    builder.manifest["constants"]["w"]["dtype"] = dtype;
    return CheckZip(builder.Zip());
  };
  EXPECT_OK(verify("layer.w", {2, 3}, "f32"));
  EXPECT_THAT(verify("layer.v", {2, 3}, "f32"), StatusIs(kWrongArgument));
  EXPECT_THAT(verify("layer.w", {3, 2}, "f32"), StatusIs(kWrongArgument));
  EXPECT_THAT(verify("layer.w", {2, 3}, "i32"), StatusIs(kWrongArgument));
}

TEST(PackageTest, ManyThreadsReadOnePackage) {
  const TemporaryFolder folder;
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const Package package,
      Package::Open(PackageBuilder::Twice().WriteFolder(folder / "twice"), {}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      EXPECT_OK(package.Read("bin/twice_80.ptx"));
      EXPECT_OK(package.Verify());
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST(PackTest, MakesTheBytesThatAnotherWriterMakes) {
  const TemporaryFolder folder;
  const PackageBuilder builder = FullPackage();
  ASSERT_OK(Pack(builder.WriteFolder(folder / "full"), folder / "full.zip"));
  EXPECT_EQ(ReadBytes(folder / "full.zip"), builder.Zip());
}

TEST(PackTest, MakesTheBytesThatPythonMakes) {
  const TemporaryFolder folder;
  const std::string python = COPPICE_PACKAGE_FIXTURES "/python.zip";
  COPPICE_ASSERT_OK_AND_ASSIGN(const Package package, Package::Open(python, {}));
  const std::string zip = ReadBytes(python);
  const size_t begin = zip.find("{\"constants\"");
  WriteBytes(folder / "p/manifest.json", zip.substr(begin, zip.find("PK\x03\x04", begin) - begin));
  for (const File& file : package.manifest().files) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::span<const std::byte> bytes, package.Read(file.name));
    WriteBytes(folder / ("p/" + file.name), TextOf(bytes));
  }
  ASSERT_OK(Pack(folder / "p", folder / "p.zip"));
  EXPECT_EQ(ReadBytes(folder / "p.zip"), zip);
}

TEST(PackTest, TakesAManifestOfAnyLayoutWithoutDigests) {
  const TemporaryFolder folder;
  const PackageBuilder builder = PackageBuilder::Twice();
  const std::string path = builder.WriteFolder(folder / "twice");
  nlohmann::json manifest = builder.manifest;
  manifest.erase("files");
  manifest.erase("integrity");
  WriteBytes(path + "/manifest.json", "\n" + manifest.dump(4) + "\n");
  ASSERT_OK(Pack(path, folder / "twice.zip"));
  EXPECT_EQ(ReadBytes(folder / "twice.zip"), builder.Zip());
}

TEST(PackTest, LeavesNothingBehindWhereTheResultWouldNotOpen) {
  const TemporaryFolder folder;
  PackageBuilder builder = PackageBuilder::Twice();
  builder.manifest["entry"] = "none";
  const std::string path = builder.WriteFolder(folder / "twice");
  WriteBytes(folder / "twice.zip", "what was there");
  EXPECT_THAT(Pack(path, folder / "twice.zip"), StatusIs(kWrongArgument));
  EXPECT_EQ(ReadBytes(folder / "twice.zip"), "what was there");
  EXPECT_FALSE(fs::exists(folder / "twice.zip.partial"));
}

TEST(PackTest, RefusesNamesThatAreTwiceInTheManifest) {
  const TemporaryFolder folder;
  WriteBytes(folder / "p/manifest.json", R"({"entry": "main", "entry": "other"})");
  EXPECT_THAT(Pack(folder / "p", folder / "p.zip"),
              StatusIs(kWrongArgument, HasSubstr("\"entry\" occurs twice")));
}

TEST(PackTest, KeepsASignatureOfTheSameManifestAndRefusesAnother) {
  const TemporaryFolder folder;
  PackageBuilder builder = PackageBuilder::Twice();
  builder.Sign(std::string(64, 's'));
  const std::string path = builder.WriteFolder(folder / "twice");
  ASSERT_OK(Pack(path, folder / "twice.zip"));
  EXPECT_EQ(ReadBytes(folder / "twice.zip"), builder.Zip());
  WriteBytes(path + "/manifest.json", builder.ManifestText() + "\n");
  EXPECT_THAT(Pack(path, folder / "twice.zip"), StatusIs(kWrongArgument));
}

TEST(PackTest, RefusesAFolderThatIsNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(Pack(folder / "none", folder / "x.zip"), StatusIs(absl::StatusCode::kNotFound));
  const std::string zip = PackageBuilder::Twice().WriteZip(folder / "twice.zip");
  EXPECT_THAT(Pack(zip, folder / "x.zip"), StatusIs(kWrongArgument));
  EXPECT_THAT(Pack(PackageBuilder::Twice().WriteFolder(folder / "t"), folder / "none/x.zip"),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace coppice::package
