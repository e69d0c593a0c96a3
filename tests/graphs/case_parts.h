// The files of a case, to be changed and put together again, for tests.
//
// Threads: one at a time.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "coppice/graphs/case_file.h"

#include "tests/package/package_builder.h"

namespace coppice {

struct CaseParts {
  explicit CaseParts(const Case& value) {
    const std::string zip = *FormatCase(value);
    // The manifest comes first, and its text is in the zip as it is.
    const size_t begin = zip.find("{\"bindings\"");
    size_t depth = 0;
    size_t end = begin;
    bool quoted = false;
    do {
      const char c = zip[end++];
      if (c == '\\') ++end;
      if (c == '"') quoted = !quoted;
      if (!quoted && c == '{') ++depth;
      if (!quoted && c == '}') --depth;
    } while (depth > 0);
    manifest = nlohmann::json::parse(zip.substr(begin, end - begin));
    std::vector<package::TensorToWrite> list;
    for (const auto& [name, tensor] : value.tensors)
      list.push_back({name, tensor.dtype, tensor.dims, tensor.bytes});
    tensors = package::SafetensorsOf(list);
    package_zip = value.package;
  }

  std::string Zip() const {
    std::vector<std::pair<std::string, std::string>> files = {
        {"manifest.json", package::CanonicalJson(manifest)}};
    if (!package_zip.empty()) files.emplace_back("package.zip", package_zip);
    files.emplace_back("tensors.safetensors", tensors);
    return package::ZipOf(files);
  }

  absl::StatusOr<Case> Read() const {
    const std::string zip = Zip();
    return ParseCase(package::BytesOf(zip), "x.coppice-case");
  }

  nlohmann::json manifest;
  std::string tensors;
  std::string package_zip;  // Empty: there is none.
};

}  // namespace coppice
