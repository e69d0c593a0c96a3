// Writes packages as folders.

#include "tests/package/lint_fixtures.h"

#include <utility>

namespace coppice::package {
namespace {

// Every step reads, writes or launches something of its own kind.
constexpr char kClean[] = R"json({
"schema": "coppice.kernel_package", "schema_version": [1, 0],
"producer": {"name": "by hand", "version": "0"},
"entry": "main",
"modules": {
  "code_80": {"file": "bin/code.ptx", "format": "ptx", "arch": "sm_80"},
  "code_90": {"file": "bin/code.cubin", "format": "cubin", "arch": "sm_90a"},
  "code_fat": {"file": "bin/code.fatbin", "format": "fatbin", "arch": "sm_90a"}},
"kernels": {
  "bounded": {"parameters": [8, 40, 2], "targets": [
    {"module": "code_80", "symbol": "Bounded", "block": [256, 1, 1]},
    {"module": "code_fat", "symbol": "Bounded", "block": [256, 1, 1]}]},
  "clustered": {"parameters": [8], "targets": [
    {"module": "code_90", "symbol": "Clustered", "block": [64, 1, 1], "cluster": [2, 1, 1]}]},
  "many": {"parameters": [8], "targets": [
    {"module": "code_90", "symbol": "ManyRegisters", "block": [512, 1, 1]}]},
  "map": {"parameters": [128, 8, 4], "targets": [
    {"module": "code_90", "symbol": "MapFirst", "block": [32, 1, 1]}]},
  "plain": {"parameters": [8, 8, 4], "targets": [
    {"module": "code_80", "symbol": "Plain", "block": [128, 1, 1], "values": {"BLOCK": 128}},
    {"module": "code_90", "symbol": "Plain", "block": [256, 1, 1], "values": {"BLOCK": 256}}]},
  "scratched": {"parameters": [8], "targets": [
    {"module": "code_80", "symbol": "_Z8TemplateILi3EEvPf", "block": [128, 1, 1],
     "shared_bytes": 1024, "scratch": [{"bytes_per_block": 256, "align": 128}]},
    {"module": "code_90", "symbol": "_Z8TemplateILi3EEvPf", "block": [128, 1, 1],
     "shared_bytes": 1024, "scratch": [{"bytes_per_block": 384, "align": 128}]}]},
  "sized": {"parameters": [8], "targets": [
    {"module": "code_90", "symbol": "Sized", "block": [64, 2, 1]}]}},
"constants": {
  "w": {"dtype": "f32", "shape": [64, 64], "data": {"file": "data/w.safetensors", "tensor": "w"}}},
"programs": {
  "half": {
    "symbols": {"k": {"min": 1, "max": 4194304}}, "inputs": ["a"], "outputs": ["b"],
    "buffers": {"a": {"role": "input", "dtype": "f32", "shape": ["k"]},
                "b": {"role": "output", "dtype": "f32", "shape": ["k"]}},
    "steps": [
      {"op": "memcpy", "to": {"buffer": "b"}, "from": {"buffer": "a"}, "bytes": "4 * k"}]},
  "main": {
    "symbols": {
      "n": {"min": 16, "max": 65536, "buckets": [16, 64, 256, 1024, 65536],
            "claim": {"padding": "any", "equal": "bits"}},
      "rows": {"min": 1, "max": 64, "buckets": "pow2",
               "claim": {"padding": "finite", "equal": {"relative": "1e-05"}}}},
    "scalars": {"mode": {"bind": "key"}},
    "guards": ["n % 16 == 0", "rows * n <= 1048576"],
    "inputs": ["x", "lengths", "cache"], "outputs": ["y", "sums", "first"],
    "buffers": {
      "x": {"role": "input", "dtype": "f32", "shape": ["rows", "n"]},
      "lengths": {"role": "input", "dtype": "i32", "shape": ["rows"]},
      "cache": {"role": "input", "dtype": "f32", "shape": [65536], "static": true,
                "mutated": true},
      "y": {"role": "output", "dtype": "f32", "shape": ["rows", "n"]},
      "sums": {"role": "output", "dtype": "f32", "shape": ["rows"]},
      "first": {"role": "output", "dtype": "f32", "shape": ["n"], "alias": {"buffer": "y"}},
      "t": {"role": "temporary", "bytes": "4 * rows * n"},
      "u": {"role": "temporary", "dtype": "f32", "shape": ["rows", "n"]},
      "weights": {"role": "constant", "constant": "w"},
      "noise": {"role": "seed", "words": 2}},
    "steps": [
      {"op": "memset", "to": {"buffer": "t"}, "value": 0, "width": 4, "count": "rows * n"},
      {"op": "kernel", "kernel": "plain", "grid": ["ceildiv(rows * n, BLOCK)", 1, 1],
       "assumes": ["n % 16 == 0"],
       "args": [{"buffer": "x", "access": "r", "divisible_by": 16},
                {"buffer": "t", "divisible_by": 256},
                {"i32": "rows * n", "divisible_by": 16}]},
      {"op": "memcpy", "to": {"buffer": "y"}, "from": {"buffer": "t"}, "bytes": "4 * rows * n"},
      {"op": "kernel", "kernel": "map", "grid": [1, 1, 1],
       "args": [{"tensormap": {"buffer": "weights", "access": "r", "dtype": "f32",
                               "dims": [64, 64], "strides": [256], "box": [32, 32]}},
                {"buffer": "cache", "access": "w"}, {"i32": "mode"}]},
      {"op": "kernel", "kernel": "clustered", "grid": [2, 1, 1], "if": "mode == 0",
       "args": [{"buffer": "cache"}]},
      {"op": "kernel", "kernel": "bounded", "grid": [1, 1, 1],
       "args": [{"buffer": "cache"}, {"struct": [{"i32": "rows"}, {"f64": "0.5"},
                {"bytes": "0000000000000000000000000000000000000000"}]}, {"i16": "rows"}]},
      {"op": "kernel", "kernel": "scratched", "grid": ["rows", 1, 1], "args": [{"scratch": 0}]},
      {"op": "kernel", "kernel": "sized", "grid": [1, 1, 1],
       "args": [{"buffer": "noise", "access": "r"}]},
      {"op": "kernel", "kernel": "many", "grid": [1, 1, 1], "args": [{"buffer": "cache"}]},
      {"op": "call", "function": "row_sum",
       "inputs": [{"buffer": "t", "dtype": "f32", "shape": ["rows", "n"]},
                  {"buffer": "lengths", "dtype": "i32", "shape": ["rows"]}],
       "outputs": [{"buffer": "sums", "dtype": "f32", "shape": ["rows"]}]},
      {"op": "child", "program": "half", "symbols": {"k": "rows * n"},
       "buffers": {"a": {"buffer": "t"}, "b": {"buffer": "u"}}},
      {"op": "memcpy", "to": {"buffer": "y"}, "from": {"buffer": "u"}, "bytes": "4 * n"}]}}
})json";

PackageBuilder BuilderOf(nlohmann::json manifest, const std::map<std::string, std::string>& files) {
  manifest["files"] = nlohmann::json::object();
  manifest["integrity"] = {{"manifest_sha256", nullptr}};
  PackageBuilder builder(std::move(manifest));
  for (const auto& [name, bytes] : files)
    builder.AddFile(name, bytes);
  return builder;
}

}  // namespace

std::string ReadFixture(const std::string& name) {
  return ReadBytes(std::string(COPPICE_PACKAGE_FIXTURES) + "/" + name);
}

LintedFolder::LintedFolder(nlohmann::json manifest, const std::map<std::string, std::string>& files)
    : path_(BuilderOf(std::move(manifest), files).WriteFolder(folder_ / "package")) {}

std::string LintedZip(nlohmann::json manifest, const std::map<std::string, std::string>& files) {
  return BuilderOf(std::move(manifest), files).Zip();
}

nlohmann::json CleanManifest() {
  return nlohmann::json::parse(kClean);
}

std::map<std::string, std::string> CleanFiles() {
  const std::string fatbin = ReadFixture("cubins.fatbin");
  const size_t ptx = fatbin.find(".version");  // Of sm_80, up to a NUL, as the driver has it.
  return {{"bin/code.ptx", fatbin.substr(ptx, fatbin.find('\0', ptx) - ptx)},
          {"bin/code.cubin", ReadFixture("cubins_sm_90a.cubin")},
          {"bin/code.fatbin", fatbin},
          {"data/w.safetensors",
           SafetensorsOf({{.name = "w", .shape = {64, 64}, .bytes = std::string(16384, '\0')}})}};
}

}  // namespace coppice::package
