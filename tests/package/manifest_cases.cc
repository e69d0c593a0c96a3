// Reads the fixtures.

#include "tests/package/manifest_cases.h"

namespace coppice::package {

nlohmann::json FullManifest() {
  return nlohmann::json::parse(ReadBytes(COPPICE_PACKAGE_FIXTURES "/manifest.json"));
}

nlohmann::json ManifestCases() {
  return nlohmann::json::parse(ReadBytes(COPPICE_PACKAGE_FIXTURES "/cases.json"));
}

PackageBuilder FullPackage() {
  PackageBuilder builder(FullManifest());
  builder.AddFile("bin/mix_80.ptx", "// PTX of sm_80\n");
  builder.AddFile("bin/mix_90.cubin", "a cubin");
  builder.AddFile(
      "data/weights.safetensors",
      SafetensorsOf({{.name = "layer.w", .shape = {2, 3}, .bytes = std::string(24, 'w')}}));
  return builder;
}

}  // namespace coppice::package
