// Declares every option of these parts once, with its check and its help.

#include "tools/coppice/package_command_line.h"

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr const char* kPackageNotes =
    "A package is a folder or a zip file of kernels that a front end compiled, and of programs "
    "that\n"
    "launch them. Each subcommand has a --help of its own. lint and inspect load and run nothing "
    "of it,\n"
    "and ask no driver.\n"
    "\n"
    "Examples:\n"
    "  coppice package lint decoder.zip               one line per finding, with what to do\n"
    "  coppice package inspect decoder.zip            programs, buckets, kernels, files\n"
    "  coppice package run decoder.zip --poison       every access checked, at the sizes of the "
    "hints\n"
    "\n"
    "Exit codes: 0 success, and lint found nothing but notes; 1 lint found an error or a warning; "
    "2 a\n"
    "wrong option, or a package that cannot be read; 4 the output cannot be written; 6 host memory "
    "ran\n"
    "out.";

constexpr const char* kValueNotes =
    "Values, one --input per copied input and per scalar, one --static per static input:\n"
    "  x=@x.npy              an array in a file, as numpy.save writes it\n"
    "  n=5   n=5,33,64       a scalar; several: one for each set\n"
    "  x=random:7            drawn from a seed: floats in [-1, 1), integers 0 or 1\n"
    "  x=random:7:0:512      drawn from another range\n"
    "  x=random:7:1:n+1      the same, up to an expression of sizes: lengths of rows\n"
    "  x=zeros\n"
    "Files hold bf16 as the u16 of their bits, f8 as u8, and c64 as f32 with a last axis of 2.\n"
    "An input that is not given is drawn from [-1, 1) if it has floats; integers and bools are "
    "the\n"
    "fill that the package declares of them. A static input that the program mutates begins as\n"
    "zeros if it is not given, others have to be. Sizes, in elements, follow from files and "
    "scalars,\n"
    "then --extent, then the package's hints.\n"
    "\n"
    "Constants without data come from --constants, a safetensors file. One that it has not is "
    "drawn\n"
    "as its x-random in the manifest says: {\"seed\": N, \"mean\": \"0\", \"deviation\": \"1\"}, "
    "by SplitMix64.\n";

constexpr const char* kRunNotes =
    "Sets are the sizes of one session, in order: as many as --inputs folders are given, or as "
    "one\n"
    "name has numbers. Outputs go to DIR/NAME.npy, or DIR/1/NAME.npy, DIR/2/... of several sets; "
    "a\n"
    "mutated input is written there too, and a mutated static input, as the last call left it, to\n"
    "DIR.\n"
    "\n"
    "A symbol with a claim is padded: to the buckets of --policy or of the package, else to powers "
    "of\n"
    "two up to its maximum, if that is at most 65536 and the symbol is no multiple, as "
    "coppice.load "
    "does.\n"
    "\n"
    "On the emulator every access is checked. --verify compares each call with a run of its own "
    "size\n"
    "without graphs, as equal as the package claims; --poison does that again with NaNs, a "
    "pattern\n"
    "and noise in the padding, as far as the claims allow.\n"
    "\n"
    "Examples:\n"
    "  coppice package run twice.zip --input x=@x.npy --output-dir out\n"
    "  coppice package run twice.zip --input x=random:1 --extent n=5,33,1000 --poison\n"
    "  coppice package run decoder.zip --program decode --inputs step1 --inputs step2 \\\n"
    "      --static keys=@keys.npy --constants weights.safetensors --policy batch=1,2,4,8\n"
    "\n"
    "Exit codes: 0 success; 1 a call differs from its reference; 2 a wrong option, or a package "
    "or\n"
    "a file that does not fit; 3 the device failed, or a kernel did what it may not; 4 an output\n"
    "cannot be written; 5 a signal stopped it; 6 host memory ran out.";

constexpr const char* kClaimNotes =
    "Of each symbol, in order: any bits, any bits in floats alone (row_independent; where others "
    "are\n"
    "padded, too), finite values, the fill. The program runs at a size by itself, and padded to a\n"
    "larger one with NaNs, a pattern and noise of that kind; live outputs are compared bit for "
    "bit,\n"
    "and within --tolerance. Equal bits go before padding that may hold more within a tolerance\n"
    "only. Inputs that are not given are drawn; give integers the range that "
    "the\n"
    "program takes, as tokens=random:1:0:512 or lengths=random:1:1:length+1. A finite number of "
    "runs\n"
    "refutes claims and proves none.\n"
    "\n"
    "--write puts what is found into the manifest, and leaves a zip without its signature.\n"
    "\n"
    "Examples:\n"
    "  coppice package claim twice.zip\n"
    "  coppice package claim decoder.zip --input tokens=random:1:0:512 --pairs 50 --write\n"
    "\n"
    "Exit codes: 0 success; 1 the package claims what does not hold; others as of run.";

constexpr const char* kBuildNotes =
    "The manifest is that of a package without files and modules; a target of a kernel says what "
    "all\n"
    "architectures share: symbol (default: the kernel's name), block, shared_bytes, values. Bytes "
    "of\n"
    "parameters are read from the PTX where the manifest has none. Declare kernels extern \"C\".\n"
    "\n"
    "Example:\n"
    "  coppice package build kernels.cu manifest.json --arch 80,90a -o twice.zip\n"
    "\n"
    "Exit codes: 0 success; 1 the linter finds an error in what was written; 2 a source that does\n"
    "not compile, or a manifest that does not fit; 4 the package cannot be written.";

constexpr const char* kSignNotes =
    "The signature is of the manifest, which has a digest of every file; it takes the place of "
    "one\n"
    "that is there.\n"
    "\n"
    "Example:\n"
    "  openssl genpkey -algorithm ed25519 -out private.pem\n"
    "  openssl pkey -in private.pem -pubout -out public.pem\n"
    "  coppice package sign decoder.zip --key private.pem\n"
    "  coppice package run decoder.zip --trusted-key public.pem\n"
    "\n"
    "Exit codes: 0 success; 2 a package or a key that cannot be read; 4 the package cannot be "
    "written.";

constexpr const char* kPackNotes =
    "What an archiver unpacked, or a script wrote, becomes one file whose bytes follow from those "
    "of the\n"
    "folder; the manifest may have any layout, and gets the digests of the files as they are. A "
    "folder\n"
    "can also be used as it is.\n"
    "\n"
    "Example:\n"
    "  unzip changed.zip -d folder && coppice package pack folder -o decoder.zip\n"
    "\n"
    "Exit codes: 0 success; 2 a folder that is no package; 4 the zip cannot be written.";

constexpr const char* kPackageBenchNotes =
    "  open      the container and the manifest     verify    every digest\n"
    "  load      modules and kernels                register  a session, the program, its statics\n"
    "  plan      all buckets, before memory is mapped\n"
    "  record    each bucket ahead of calls, the largest first: its requests, plan and graph\n"
    "  first_call  of each bucket, without that: staging, recording and one launch\n"
    "  replay    calls of the smallest bucket\n"
    "What recording 100 nodes costs is the median over buckets and sessions of the stage record,\n"
    "less the time inside the driver.\n"
    "Times are medians in microseconds. Inputs that are not given are as of run. Instructions are\n"
    "counted where the processor lets it, those of the driver among them. On the emulator the\n"
    "driver's share is the emulator's.\n";

constexpr int64_t kCallsMax = 1'000'000;

absl::StatusOr<uint64_t> ParsePackageSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  return InvalidArgument("'{}' is no seed; give a whole number from 0 to 2^64 - 1", text);
}

void AddTrustedKeys(Command& command, std::vector<std::string>& keys) {
  command.AddRepeated("--trusted-key", keys, "KEY.pem",
                      "Refuse a package that no such Ed25519 key has signed");
}

void AddPackageLooks(Command& command, PackageOptions& options) {
  command.SetFooter(kPackageNotes);
  for (const auto& [name, help] :
       {std::pair("lint", "Find what is wrong with it; exit 1 if more than notes is"),
        std::pair("inspect", "Show programs, buckets, kernels and files")}) {
    Command& subcommand = command.AddSubcommand(name, help);
    subcommand.AddText("package", options.path, "PACKAGE", "A folder or a zip file",
                       Command::Presence::kRequired);
    AddTrustedKeys(subcommand, options.trusted_keys);
    subcommand.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
  }
}

void AddPackageRun(Command& command, PackageRunOptions& options) {
  command.SetFooter(std::string(kValueNotes) + "\n" + kRunNotes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddText("--program", options.program, "NAME", "Default: the package's entry");
  command.AddRepeated("--input", options.sets.inputs, "NAME=VALUE", "An input or a scalar");
  command.AddRepeated("--inputs", options.sets.folders, "DIR",
                      "NAME.npy for each input that --input does not give; one folder per set");
  command.AddRepeated("--extent", options.sets.extents, "NAME=N",
                      "Size of a symbol; several, with commas between: one for each set");
  command.AddRepeated("--static", options.statics, "NAME=VALUE", "A static input");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Constants that the package has no data of");
  command.AddRepeated("--policy", options.policies, "NAME=POLICY",
                      "Buckets of a symbol in place of the package's: pow2:64, linear:16:64, "
                      "1,2,4,\nexact, vllm:64 or POLICY.json; the last number is the largest");
  command.AddRepeated("--claim", options.claims, "NAME=CLAIM",
                      "What the padding of a symbol may hold in place of what the package claims:\n"
                      "any, row_independent, finite or fill, with a tolerance as finite:1e-5 or\n"
                      "finite:1e-5:1e-4; exact: it is never padded");
  command.AddCount("--calls", options.calls, kCallsMax, "Calls of each set, default 2");
  AddTrustedKeys(command, options.trusted_keys);
  command.AddText("--output-dir", options.output_dir, "DIR", "Write outputs here");
  command.AddFlag("--verify", options.verify, "Compare each call with a run without graphs");
  command.AddFlag("--poison", options.poison, "Compare runs with poison in the padding as well");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddParsed("--checks", &ParseKernelChecks, options.checks,
                    "Of kernels on the emulator: all (the default), none, or some of races,\n"
                    "uninitialized and undeclared");
  command.AddParsed("--seed", &ParsePackageSeed, options.seed,
                    "Seed of the order in which the emulator runs work, default 1");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddPackageClaim(Command& command, PackageClaimOptions& options) {
  command.SetFooter(kClaimNotes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddText("--program", options.program, "NAME", "Default: the package's entry");
  command.AddRepeated(
      "--input", options.inputs, "NAME=VALUE",
      "random:SEED, random:SEED:LOW:HIGH or zeros, as of run; of a scalar, a\nnumber");
  command.AddRepeated("--static", options.statics, "NAME=VALUE", "A static input, as of run");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Constants that the package has no data of");
  command.AddCount("--pairs", options.pairs, 10'000, "Pairs of sizes per symbol, default 20");
  command.AddCount("--size-max", options.size_max, 1 << 20,
                   "Largest size drawn, in elements, default 64");
  command.AddParsed("--tolerance", &ParseTolerance, options.tolerance,
                    "ABSOLUTE or ABSOLUTE:RELATIVE, default 1e-05");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddParsed("--seed", &ParsePackageSeed, options.seed,
                    "Seed of sizes, inputs and the emulator, default 1");
  command.AddFlag("--write", options.write, "Write what is found into the package");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddPackageBuild(Command& command, PackageBuildOptions& options) {
  command.SetFooter(kBuildNotes);
  command.AddText("source", options.source, "KERNELS.cu", "CUDA C++", Command::Presence::kRequired);
  command.AddText("manifest", options.manifest, "MANIFEST.json", "Of any layout",
                  Command::Presence::kRequired);
  command.AddText("-o,--output", options.output, "PACKAGE.zip", "Write the package here",
                  Command::Presence::kRequired);
  command.AddParsed("--arch", &ParseArchitectures, options.architectures,
                    "Default 80,90a: 80 is PTX, 90a a cubin, 86:cubin and 90:ptx as they say");
  command.AddText("--nvcc", options.nvcc, "PATH", "Default: nvcc of the PATH");
  command.AddRepeated("--flag", options.flags, "FLAG", "For nvcc too, as --flag=-lineinfo");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddPackageSign(Command& command, PackageSignOptions& options) {
  command.SetFooter(kSignNotes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddText("--key", options.key, "KEY.pem", "An Ed25519 private key without a password",
                  Command::Presence::kRequired);
}

void AddPackagePack(Command& command, PackagePackOptions& options) {
  command.SetFooter(kPackNotes);
  command.AddText("folder", options.folder, "FOLDER", "With manifest.json in it",
                  Command::Presence::kRequired);
  command.AddText("-o,--output", options.output, "PACKAGE.zip", "Write the package here",
                  Command::Presence::kRequired);
}

void AddPackageBench(Command& command, PackageBenchOptions& options) {
  command.SetFooter(std::string(kPackageBenchNotes) + "\n" + kExitCodes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddText("--program", options.program, "NAME", "Default: the package's entry");
  command.AddRepeated("--input", options.inputs, "NAME=VALUE", "As of run, without files");
  command.AddRepeated("--static", options.statics, "NAME=VALUE", "A static input, as of run");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Constants that the package has no data of");
  command.AddRepeated("--policy", options.policies, "NAME=POLICY",
                      "Buckets of a symbol, as of run");
  command.AddCount("--repetitions", options.repetitions, 100'000,
                   "Samples of open, verify, load, register and replay, default 11");
  command.AddCount("--buckets", options.buckets_max, 1024, "Buckets to record at most, default 64");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace

void AddPackage(Command& command, PackageCommandOptions& options) {
  AddPackageLooks(command, options.look);
  AddPackageRun(command.AddSubcommand("run", "Run a program on arrays in files, checked"),
                options.run);
  AddPackageClaim(command.AddSubcommand("claim", "Find what padding a program stands"),
                  options.claim);
  AddPackageBuild(command.AddSubcommand("build", "Make a package of CUDA source and a manifest"),
                  options.build);
  AddPackageSign(command.AddSubcommand("sign", "Sign it with an Ed25519 key"), options.sign);
  AddPackagePack(command.AddSubcommand("pack", "Make one zip file of a folder"), options.pack);
  AddPackageBench(command.AddSubcommand("bench", "What opening, recording and replaying it costs"),
                  options.bench);
}

ExitCode RunPackage(const Command& command,
                    const PackageCommandOptions& options,
                    const Console& console) {
  if (command.Given("run")) return PackageRun(options.run, console);
  if (command.Given("claim")) return PackageClaim(options.claim, console);
  if (command.Given("build")) return PackageBuild(options.build, console);
  if (command.Given("sign")) return PackageSign(options.sign, console);
  if (command.Given("pack")) return PackagePack(options.pack, console);
  if (command.Given("bench")) return PackageBench(options.bench, console);
  if (command.Given("lint")) return PackageLint(options.look, console);
  return PackageInspect(options.look, console);
}

}  // namespace coppice
