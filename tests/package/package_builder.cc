// The writer: zip headers byte by byte, digests by OpenSSL's one-shot function.

#include "tests/package/package_builder.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdlib.h>

#include "fmt/format.h"
#include <openssl/sha.h>

#include "coppice/base/check.h"

namespace coppice::package {
namespace {

namespace fs = std::filesystem;

// `count` bytes of a number, the least first.
std::string Little(uint64_t number, int count) {
  std::string bytes;
  for (; count > 0; --count, number >>= 8)
    bytes += static_cast<char>(number & 255);
  return bytes;
}

uint32_t Crc32(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

}  // namespace

TemporaryFolder::TemporaryFolder()
    : path_((fs::temp_directory_path() / "coppice_test_XXXXXX").string()) {
  COPPICE_CHECK(mkdtemp(path_.data()) != nullptr, "there is room for temporary files");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  COPPICE_CHECK(in.good(), "the file can be read");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void WriteBytes(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  COPPICE_CHECK(out.good(), "the file can be written");
}

std::string Sha256Hex(std::string_view bytes) {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), digest.data());
  std::string text;
  for (const uint8_t byte : digest)
    text += fmt::format("{:02x}", byte);
  return text;
}

std::string CanonicalJson(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true);
}

std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string zip;
  std::string directory;
  for (const auto& [name, bytes] : files) {
    const size_t begin = zip.size();
    const size_t zeros = 4095 - (begin + 30 + name.size() + 4 + 4095) % 4096;
    const std::string common = Little(20, 2) + Little(0, 2) + Little(0, 2) + Little(0, 2) +
                               Little(0x21, 2) + Little(Crc32(bytes), 4) + Little(bytes.size(), 4) +
                               Little(bytes.size(), 4) + Little(name.size(), 2) +
                               Little(zeros + 4, 2);
    const std::string extra = Little(0xD935, 2) + Little(zeros, 2) + std::string(zeros, '\0');
    zip += "PK\x03\x04" + common + name + extra + bytes;
    directory += "PK\x01\x02" + Little(0x0314, 2) + common + Little(0, 2) + Little(0, 2) +
                 Little(0, 2) + Little(0600U << 16, 4) + Little(begin, 4) + name + extra;
  }
  const size_t begin = zip.size();
  return zip + directory + "PK\x05\x06" + Little(0, 4) + Little(files.size(), 2) +
         Little(files.size(), 2) + Little(directory.size(), 4) + Little(begin, 4) + Little(0, 2);
}

nlohmann::json EmptyManifest() {
  return {{"schema", "coppice.kernel_package"},
          {"schema_version", {1, 0}},
          {"producer", {{"name", "a test"}, {"version", "0"}}},
          {"integrity", {{"manifest_sha256", nullptr}}},
          {"entry", "main"},
          {"files", nlohmann::json::object()},
          {"modules", nlohmann::json::object()},
          {"kernels", nlohmann::json::object()},
          {"constants", nlohmann::json::object()},
          {"programs", nlohmann::json::object()}};
}

nlohmann::json TwiceManifest() {
  nlohmann::json manifest = EmptyManifest();
  manifest["kernels"] = nlohmann::json::parse(R"json({
    "twice": {"parameters": [8, 8, 4, 8, 8], "targets": [
      {"module": "twice_80", "symbol": "twice", "block": [128, 1, 1], "values": {"BLOCK": 1024}},
      {"module": "twice_90", "symbol": "twice", "block": [128, 1, 1], "values": {"BLOCK": 1024}}]}
  })json");
  manifest["programs"] = nlohmann::json::parse(R"json({
    "main": {
      "symbols": {"n": {"min": 1, "max": 1048576, "buckets": "pow2",
                        "claim": {"padding": "any", "equal": "bits"}}},
      "inputs": ["x"], "outputs": ["y"],
      "buffers": {"x": {"role": "input", "dtype": "f32", "shape": ["n"]},
                  "y": {"role": "output", "dtype": "f32", "shape": ["n"]}},
      "steps": [{"op": "kernel", "kernel": "twice", "grid": ["ceildiv(n, BLOCK)", 1, 1],
                 "args": [{"buffer": "x", "access": "r"}, {"buffer": "y", "access": "w"},
                          {"i32": "n"}, {"null": true}, {"null": true}]}]}
  })json");
  return manifest;
}

std::string SafetensorsOf(const std::vector<TensorToWrite>& tensors) {
  static const std::map<DType, std::string> kNames = {
      {DType::kFloat32, "F32"},   {DType::kFloat16, "F16"},        {DType::kBFloat16, "BF16"},
      {DType::kFloat64, "F64"},   {DType::kFloat8E4M3, "F8_E4M3"}, {DType::kFloat8E5M2, "F8_E5M2"},
      {DType::kComplex64, "C64"}, {DType::kBool, "BOOL"},          {DType::kInt8, "I8"},
      {DType::kInt16, "I16"},     {DType::kInt32, "I32"},          {DType::kInt64, "I64"},
      {DType::kUInt8, "U8"},      {DType::kUInt16, "U16"},         {DType::kUInt32, "U32"},
      {DType::kUInt64, "U64"}};
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const TensorToWrite& tensor : tensors) {
    header[tensor.name] = {{"dtype", kNames.at(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return Little(text.size(), 8) + text + data;
}

PackageBuilder PackageBuilder::Twice() {
  PackageBuilder builder(TwiceManifest());
  builder.AddModule("twice_80", "ptx", "sm_80", "// PTX that nobody looks into.\n");
  builder.AddModule("twice_90", "cubin", "sm_90a",
                    std::string("\x7f"
                                "ELF\0\1",
                                6));
  return builder;
}

PackageBuilder& PackageBuilder::AddFile(const std::string& name, std::string bytes) {
  manifest["files"][name] = {{"bytes", bytes.size()}, {"sha256", Sha256Hex(bytes)}};
  files_[name] = std::move(bytes);
  return *this;
}

PackageBuilder& PackageBuilder::AddModule(const std::string& name,
                                          const std::string& format,
                                          const std::string& arch,
                                          std::string image) {
  const std::string file = fmt::format("bin/{}.{}", name, format);
  manifest["modules"][name] = {{"file", file}, {"format", format}, {"arch", arch}};
  return AddFile(file, std::move(image));
}

PackageBuilder& PackageBuilder::AddConstants(const std::string& name,
                                             const std::vector<TensorToWrite>& tensors) {
  const std::string file = fmt::format("data/{}.safetensors", name);
  for (const TensorToWrite& tensor : tensors)
    manifest["constants"][tensor.name] = {{"dtype", NameOf(tensor.dtype)},
                                          {"shape", tensor.shape},
                                          {"data", {{"file", file}, {"tensor", tensor.name}}}};
  return AddFile(file, SafetensorsOf(tensors));
}

PackageBuilder& PackageBuilder::Sign(std::string signature) {
  signature_ = std::move(signature);
  return *this;
}

std::string PackageBuilder::ManifestText() const {
  nlohmann::json sealed = manifest;
  if (!sealed.is_object() || !sealed.contains("integrity") || !sealed["integrity"].is_object() ||
      !sealed["integrity"].contains("manifest_sha256"))
    return CanonicalJson(sealed);  // A test of this very field.
  sealed["integrity"]["manifest_sha256"] = nullptr;
  sealed["integrity"]["manifest_sha256"] = Sha256Hex(CanonicalJson(sealed));
  return CanonicalJson(sealed);
}

std::string PackageBuilder::Zip() const {
  std::vector<std::pair<std::string, std::string>> files = {{"manifest.json", ManifestText()}};
  if (!signature_.empty()) files.emplace_back("manifest.sig", signature_);
  files.insert(files.end(), files_.begin(), files_.end());
  return ZipOf(files);
}

std::string PackageBuilder::WriteZip(const std::string& path) const {
  WriteBytes(path, Zip());
  return path;
}

std::string PackageBuilder::WriteFolder(const std::string& path) const {
  WriteBytes(path + "/manifest.json", ManifestText());
  if (!signature_.empty()) WriteBytes(path + "/manifest.sig", signature_);
  for (const auto& [name, bytes] : files_)
    WriteBytes(path + "/" + name, bytes);
  return path;
}

}  // namespace coppice::package
