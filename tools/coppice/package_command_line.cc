// Declares every option of these parts once, with its check and its help.

#include "tools/coppice/package_command_line.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr const char* kPackageNotes =
    "A package is a folder or a zip file of kernels that a front end compiled, and of programs\n"
    "that launch them. Each subcommand has a --help of its own. lint and inspect load nothing,\n"
    "run nothing, and need no driver.\n"
    "\n"
    "Examples:\n"
    "  coppice package lint decoder.zip          one line per finding, with what to do\n"
    "  coppice package inspect decoder.zip       programs, buckets, kernels, files\n"
    "  coppice package run decoder.zip --poison  checks every access, at the sizes of the hints\n"
    "\n"
    "Exit codes: 0 success, and lint found nothing but notes; 1 lint found an error or a\n"
    "warning; 2 a wrong option, or a package that cannot be read; 4 the output cannot be\n"
    "written; 6 host memory ran out.";

constexpr const char* kValueNotes =
    "Give one --input per copied input and per scalar, and one --static per static input.\n"
    "Values:\n"
    "  x=@x.npy              an array in a file, as numpy.save writes it\n"
    "  n=5   n=5,33,64       a scalar; several numbers: one for each set\n"
    "  x=random:7            random numbers from the seed 7: floats in [-1, 1), integers 0 or 1\n"
    "  x=random:7:0:512      random numbers in another range: [0, 512)\n"
    "  x=random:7:1:n+1      a range that ends at an expression of sizes: lengths from 1 to n\n"
    "  x=zeros\n"
    "Files hold bf16 bits as u16, f8 bits as u8, and c64 as f32 with a last axis of size 2.\n"
    "If an input is not given, its floats are random in [-1, 1), and its integers and bools\n"
    "are the fill that the package declares. A static input that the program mutates begins as\n"
    "zeros if it is not given; other static inputs must be given. Sizes, in elements, come from\n"
    "files and scalars, then from --extent, then from the package's hints.\n"
    "\n"
    "Constants without data come from --constants, a safetensors file. If the file lacks\n"
    "a constant, SplitMix64 draws its values from the constant's x-random in the manifest:\n"
    "{\"seed\": N, \"mean\": \"0\", \"deviation\": \"1\"}.\n";

constexpr const char* kRunNotes =
    "One session runs one or more sets of sizes, in order. There is one set per --inputs\n"
    "folder, or one per number in a list such as n=5,33. Outputs go to DIR/NAME.npy, or to\n"
    "DIR/1/NAME.npy, DIR/2/... if there are several sets. Mutated inputs are written there, too.\n"
    "Mutated static inputs are written to DIR, as the last call left them.\n"
    "\n"
    "A symbol with a claim is padded to the buckets of --policy or of the package. Without\n"
    "either, it is padded to powers of two up to its maximum, if the maximum is at most 65536\n"
    "and the package does not ask for multiples of a number. coppice.load has the same rule.\n"
    "\n"
    "On the emulator every access is checked. --verify compares each call with a run at its own\n"
    "size without graphs, within the tolerance that the package claims. --poison does that again\n"
    "with NaNs, a pattern and noise in the padding, as far as the claims allow.\n"
    "\n"
    "Examples:\n"
    "  coppice package run twice.zip --input x=@x.npy --output-dir out\n"
    "  coppice package run twice.zip --input x=random:1 --extent n=5,33,1000 --poison\n"
    "  coppice package run decoder.zip --program decode --inputs step1 --inputs step2 \\\n"
    "      --static keys=@keys.npy --constants weights.safetensors --policy batch=1,2,4,8\n"
    "\n"
    "Exit codes: 0 success; 1 a call differs from its reference; 2 a wrong option, or a package\n"
    "or a file that cannot be used; 3 the device failed, or a kernel did something illegal; 4\n"
    "an output cannot be written; 5 a signal stopped it; 6 host memory ran out.";

constexpr const char* kClaimNotes =
    "Tries these claims for each symbol, in this order: any (any bits), row_independent (any\n"
    "bits in floats only; tried only if inputs of other types are padded, too), finite (finite\n"
    "values), fill (the declared fill). The program runs at a size without padding, and then\n"
    "padded to a larger size with the NaNs, pattern and noise that the claim allows. Live\n"
    "outputs are compared bit for bit, and within --tolerance. A claim that gives equal bits is\n"
    "preferred to one that allows more in the padding but needs the tolerance. Inputs that are\n"
    "not given are random; give integers the range that the program takes, such as\n"
    "tokens=random:1:0:512 or lengths=random:1:1:length+1. A finite number of runs can refute a\n"
    "claim, but cannot prove one.\n"
    "\n"
    "--explain says by which kernel, line and thread padding reaches an element that is no "
    "padding,\n"
    "even if its value is the same. If padding reaches no such element of an output, the output\n"
    "cannot depend on it at these sizes. It needs the emulator.\n"
    "\n"
    "--write stores the claims in the manifest, and removes the signature of a zip. Together with\n"
    "--explain the command also says how far padding got in up to 8 buckets: evidence for a "
    "claim\n"
    "that padding may hold anything.\n"
    "\n"
    "Examples:\n"
    "  coppice package claim twice.zip\n"
    "  coppice package claim decoder.zip --input tokens=random:1:0:512 --pairs 50 --write\n"
    "\n"
    "Exit codes: 0 success; 1 a claim of the package does not hold; others as for run.";

constexpr const char* kBuildNotes =
    "The manifest is a package manifest without the keys `files` and `modules`. A target of\n"
    "a kernel says what all architectures share: symbol (default: the kernel's name), block,\n"
    "shared_bytes, values. Sizes of parameters are read from the PTX if the manifest does not\n"
    "give them. Declare kernels extern \"C\".\n"
    "\n"
    "Example:\n"
    "  coppice package build kernels.cu manifest.json --arch 80,90a -o twice.zip\n"
    "\n"
    "Exit codes: 0 success; 1 the linter finds an error in what was written; 2 a source that\n"
    "does not compile, or a manifest that does not match it; 4 the package cannot be written.";

constexpr const char* kSignNotes =
    "Signs the manifest, which has a digest of every file. The signature replaces an existing\n"
    "one.\n"
    "\n"
    "Example:\n"
    "  openssl genpkey -algorithm ed25519 -out private.pem\n"
    "  openssl pkey -in private.pem -pubout -out public.pem\n"
    "  coppice package sign decoder.zip --key private.pem\n"
    "  coppice package run decoder.zip --trusted-key public.pem\n"
    "\n"
    "Exit codes: 0 success; 2 a package or a key that cannot be read; 4 the package cannot be\n"
    "written.";

constexpr const char* kPackNotes =
    "Makes one file from a folder that an archiver unpacked or a script wrote. Equal folders\n"
    "give equal bytes. The manifest may be formatted in any way, and its digests are computed\n"
    "anew from the files. A folder can also be used without packing it.\n"
    "\n"
    "Example:\n"
    "  unzip changed.zip -d folder && coppice package pack folder -o decoder.zip\n"
    "\n"
    "Exit codes: 0 success; 2 a folder that is not a package; 4 the zip cannot be written.";

constexpr const char* kPackageBenchNotes =
    "Stages that are timed:\n"
    "  open        read the container and the manifest\n"
    "  verify      check every digest\n"
    "  load        load modules and kernels\n"
    "  register    make a session, the program and its static inputs\n"
    "  plan        plan all buckets, before memory is mapped\n"
    "  record      record each bucket before any call, largest first: allocations, plan and graph\n"
    "  first_call  the first call of a bucket, not recorded before: staging, recording, launch\n"
    "  replay      calls of the smallest bucket\n"
    "  host        one of 1,000 replays, with a driver that neither launches nor sets nodes\n"
    "  host_exact_same   the same at the exact sizes that the executable has\n"
    "  host_exact_other  the same, alternating between the sizes of two buckets; each call sets "
    "nodes\n"
    "The last line gives the time to record 100 nodes: the median of the stage `record` over\n"
    "buckets and sessions, without the time inside the driver. Times are medians in\n"
    "microseconds. Inputs that are not given are chosen as for run. Instructions, including\n"
    "the driver's, are counted if the processor allows it. On the emulator, the time in the\n"
    "driver is the emulator's own.\n";

constexpr int64_t kCallsMax = 1'000'000;

void AddTrustedKeys(Command& command, std::vector<std::string>& keys) {
  command.AddRepeated("--trusted-key", keys, "KEY.pem",
                      "Accept only a package that one of these Ed25519 keys has signed");
}

void AddPackageLooks(Command& command, PackageOptions& options) {
  command.SetFooter(kPackageNotes);
  for (const auto& [name, help] :
       {std::pair("lint", "Find errors in a package; exit 1 if there is an error or a warning"),
        std::pair("inspect", "Show the programs, buckets, kernels and files of a package")}) {
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
  command.AddRepeated(
      "--inputs", options.sets.folders, "DIR",
      "Folder with NAME.npy for each input that --input does not give; one folder per set of\n"
      "sizes");
  command.AddRepeated("--extent", options.sets.extents, "NAME=N",
                      "Size of a symbol, or several sizes separated by commas, one for each set");
  command.AddRepeated("--static", options.statics, "NAME=VALUE", "A static input");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Values of constants whose data is not in the package");
  command.AddRepeated(
      "--policy", options.policies, "NAME=POLICY",
      "Buckets of a symbol in place of the package's: pow2:64; linear:16:64; 1,2,4; exact;\n"
      "vllm:64; or POLICY.json. The last number is the largest bucket");
  command.AddRepeated(
      "--claim", options.claims, "NAME=CLAIM",
      "Claim of a symbol in place of the package's: any, row_independent, finite or fill, each\n"
      "also with a tolerance, such as finite:1e-5 or finite:1e-5:1e-4; or exact: the symbol is\n"
      "never padded");
  command.AddCount("--calls", options.calls, kCallsMax, "Calls of each set, default 2");
  AddTrustedKeys(command, options.trusted_keys);
  command.AddText("--output-dir", options.output_dir, "DIR", "Write outputs here");
  command.AddText("--case", options.case_path, "FILE",
                  "Write the inputs of the calls here, for `coppice replay`, even after a fault");
  command.AddFlag("--verify", options.verify, "Compare each call with a run without graphs");
  command.AddFlag("--poison", options.poison, "Also compare runs with poison in the padding");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddParsed(
      "--checks", &ParseKernelChecks, options.checks,
      "Checks of kernels on the emulator: all (the default), none, or some of races,\n"
      "harmless_races (which `all` does not include), uninitialized and undeclared");
  command.AddParsed("--seed", &ParseSeed, options.seed,
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
      "random:SEED, random:SEED:LOW:HIGH or zeros, as in `coppice package run`; for a scalar, a\n"
      "number");
  command.AddRepeated("--static", options.statics, "NAME=VALUE",
                      "A static input, as in `coppice package run`");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Values of constants whose data is not in the package");
  command.AddCount("--pairs", options.pairs, 10'000, "Pairs of sizes per symbol, default 20");
  command.AddCount("--size-max", options.size_max, 1 << 20,
                   "Largest size drawn, in elements, default 64");
  command.AddParsed("--tolerance", &ParseTolerance, options.tolerance,
                    "ABSOLUTE or ABSOLUTE:RELATIVE, default 1e-05");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddParsed("--seed", &ParseSeed, options.seed,
                    "Seed of sizes, inputs and the emulator, default 1");
  command.AddFlag("--explain", options.explain,
                  "Also follow the padding of three calls per symbol through their kernels");
  command.AddFlag("--write", options.write, "Write the claims into the package");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

void AddPackageBuild(Command& command, PackageBuildOptions& options) {
  command.SetFooter(kBuildNotes);
  command.AddText("source", options.source, "KERNELS.cu", "CUDA C++", Command::Presence::kRequired);
  command.AddText("manifest", options.manifest, "MANIFEST.json", "A manifest, formatted in any way",
                  Command::Presence::kRequired);
  command.AddText("-o,--output", options.output, "PACKAGE.zip", "Write the package here",
                  Command::Presence::kRequired);
  command.AddParsed(
      "--arch", &ParseArchitectures, options.architectures,
      "Default 80,90a. A number below 90 gives PTX, and 90 or above gives a cubin; 86:cubin or\n"
      "90:ptx sets the format");
  command.AddText("--nvcc", options.nvcc, "PATH", "Default: nvcc from PATH");
  command.AddRepeated("--flag", options.flags, "FLAG",
                      "Passed on to nvcc, such as --flag=-lineinfo");
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
  command.AddText("folder", options.folder, "FOLDER", "A folder with manifest.json in it",
                  Command::Presence::kRequired);
  command.AddText("-o,--output", options.output, "PACKAGE.zip", "Write the package here",
                  Command::Presence::kRequired);
}

void AddPackageBench(Command& command, PackageBenchOptions& options) {
  command.SetFooter(std::string(kPackageBenchNotes) + "\n" + kExitCodes);
  command.AddText("package", options.package, "PACKAGE", "A folder or a zip file",
                  Command::Presence::kRequired);
  command.AddText("--program", options.program, "NAME", "Default: the package's entry");
  command.AddRepeated("--input", options.inputs, "NAME=VALUE",
                      "As in `coppice package run`, but without files");
  command.AddRepeated("--static", options.statics, "NAME=VALUE",
                      "A static input, as in `coppice package run`");
  command.AddText("--constants", options.constants, "FILE.safetensors",
                  "Values of constants whose data is not in the package");
  command.AddRepeated("--policy", options.policies, "NAME=POLICY",
                      "Buckets of a symbol, as in `coppice package run`");
  command.AddCount("--repetitions", options.repetitions, 100'000,
                   "Samples of open, verify, load, register and replay, default 11");
  command.AddCount("--buckets", options.buckets_max, 1024,
                   "Largest number of buckets to record, default 64");
  command.AddParsed("--device", &ParseDeviceChoice, options.device, "auto, host or cuda");
  command.AddFlag("--json", options.json, "Print JSON and nothing else on standard output");
}

}  // namespace

void AddPackage(Command& command, PackageCommandOptions& options) {
  AddPackageLooks(command, options.look);
  AddPackageRun(command.AddSubcommand("run", "Run a program on arrays in files, and check it"),
                options.run);
  AddPackageClaim(command.AddSubcommand("claim", "Find out which padding a program tolerates"),
                  options.claim);
  AddPackageBuild(command.AddSubcommand("build", "Make a package from CUDA source and a manifest"),
                  options.build);
  AddPackageSign(command.AddSubcommand("sign", "Sign a package with an Ed25519 key"), options.sign);
  AddPackagePack(command.AddSubcommand("pack", "Make one zip file from a folder"), options.pack);
  AddPackageBench(
      command.AddSubcommand("bench", "Measure how long a package takes to open, record and replay"),
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
