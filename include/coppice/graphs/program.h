// A program: what a front end compiled, described well enough to be recorded once per bucket.
//
// The callable is host code that launches kernels on the stream it is given; it knows nothing of
// graphs. The spec says which sizes are dynamic, where inputs come from, how padding is filled, and
// what the program claims about padding.
//
//   ProgramSpec spec{.name = "scale", .claim = Claim::kMasked};
//   const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(4096));
//   spec.inputs = {{.name = "x", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
//   spec.outputs = {{.name = "y", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
//
// A replay does not run the callable: whatever it reads on the host is frozen when it is recorded.
// What may differ between calls must be an input, a symbol or a scalar of the spec. A callable must
// not call its session, nor read a lease of it or let go of it: the lane's lock is held (checked).
//
// A stretch that cannot be captured (host code that decides, a library that synchronises) goes into
// CallContext::Break: the program is then recorded as several graphs with that code between them.
//
// Units: sizes and extents in elements, allocations in bytes. Threads: specs are plain values; a
// callable runs on the thread that called the session, one run per lane at a time.

#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/expression.h"
#include "coppice/base/fill.h"
#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/generator.h"
#include "coppice/graphs/guards.h"
#include "coppice/padding/joint_policy.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/driver.h"

namespace coppice {

inline constexpr int kSymbolsMax = 8;   // Dynamic sizes of a program.
inline constexpr int kExtentsMax = 24;  // Sizes computed from others.
inline constexpr int kScalarsMax = 16;  // Host scalars of a program.
inline constexpr int kRaggedMax = 2;    // Sets of sequences, such as queries and keys.

// A size in a spec: a constant, a symbol, or an expression of symbols and scalars; or the rows of
// ragged sequences, which a program may see as two axes: see RaggedSpec.
struct Dim {
  int64_t size = 0;  // Used if symbol < 0; >= 0.
  // An index into ProgramSpec::symbols; from kSymbolsMax on into `extents`, and behind those into
  // `ragged`.
  int symbol = -1;

  static Dim Fixed(int64_t size) { return {.size = size, .symbol = -1}; }
  static Dim Symbol(int index) { return {.size = 0, .symbol = index}; }
  static Dim Extent(int index) { return {.size = 0, .symbol = kSymbolsMax + index}; }
  static Dim Ragged(int index) { return {.size = 0, .symbol = kSymbolsMax + kExtentsMax + index}; }
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Dims = absl::InlinedVector<Dim, kRankMax>;

// Each enumerator has a word, which traces, JSON and Python write:
// NameOf(SymbolKind::kMaybeDynamic) is "maybe_dynamic".

// What a call larger than the largest bucket does.
enum class OverMaximum : uint8_t {
  kEager,  // It runs without a graph.
  kError,  // It fails.
};
const char* NameOf(OverMaximum over_maximum);

// How a symbol's extents become buckets.
enum class SymbolKind : uint8_t {
  // Static until a call brings a second extent, then maybe dynamic. What was warmed does not count.
  kAuto,
  kDynamic,       // By its policy. Without a claim that allows padding the spec is invalid.
  kMaybeDynamic,  // By its policy where the claim allows padding, else every extent by itself.
  kStatic,        // Never padded: every extent is part of the key as it is.
};
const char* NameOf(SymbolKind kind);

// A dynamic size, bound to every (input, axis) whose Dim names it: that ties those axes, and all of
// them must agree in a call. Axes that share no symbol are never tied, be they equal or not. A
// symbol that is given or bound to a scalar needs no axis; one that names it must agree, too.
struct SymbolSpec {
  std::string name;      // What axes and expressions call it.
  PaddingPolicy policy;  // `exact` puts every extent into the key as it is; see JointSpec.
  SymbolKind kind = SymbolKind::kAuto;             // How its extents become buckets.
  OverMaximum over_maximum = OverMaximum::kEager;  // What a call over the largest bucket does.
  int64_t min = 0;  // The least extent of a call or a bucket, checked as a guard.
  int64_t max = std::numeric_limits<int64_t>::max();  // The largest one.
  int64_t multiple_of = 1;                            // What each of them is a multiple of.
  bool exclude_01 = false;  // Extents 0 and 1 are keys of their own: nothing is padded from them.
  bool given = false;       // Its extent comes with the call. See Call::extents.
  // The device may decide its extent. See Call::counts. A claim must allow padding, and the kind
  // not be kStatic. The host cannot check what it does not know: no bound but `max`, no guard may
  // read it, and no expression that is an axis of a copied input.
  bool counted = false;
  // Index of the scalar whose value is its extent, or -1. The bucket is part of the key in the
  // scalar's place, so the callable sees 0 for the scalar, and the bucket as the symbol's extent.
  int scalar = -1;
  // What the program claims about its padding; none: what it claims as a whole.
  std::optional<PaddingClaim> claim{};
  // Calls after which a call counts half as much in what Session::Rebucket learns from; infinite:
  // none is forgotten; 0: nobody counts them.
  double observe_half_life = 0;
};

// Two symbols whose extents become buckets together, such as a batch and a length: a bucket of the
// policy is that of both, and a size that it refuses, or has no bucket for, runs eagerly, or is an
// error if either symbol's `over_maximum` says so and it is beyond the limit or the rule.
//
//   const auto [batch, length] =
//       spec.AddJoint("batch", "length", *JointPolicy::Parse("1x512,4x128", {4, 512}));
//
// Neither symbol has a ladder of its own: its `policy` is `exact`, up to its side of the limit. It
// is dynamic or maybe dynamic, in one joint policy, has a claim, is not counted, and sets neither
// `exclude_01` nor `observe_half_life`. The policy stays as it was registered.
struct JointSpec {
  int a = 0;  // Indices into ProgramSpec::symbols: of the extents that a bucket names first,
  int b = 1;  // and second.
  JointPolicy policy;

  // The extents of the two, of one per symbol.
  JointSize SizeIn(std::span<const int64_t> extents) const {
    return {extents[static_cast<size_t>(a)], extents[static_cast<size_t>(b)]};
  }
};

// What says which rows are whose.
enum class RaggedBy : uint8_t {
  kLengths,  // The rows of each sequence.
  kOffsets,  // Where each begins, and where the last one ends.
};
const char* NameOf(RaggedBy by);

// Sequences of different lengths whose rows a caller has in one packed tensor, one sequence behind
// the other, such as the tokens of a batch of prompts. Which rows are whose, a copied input says:
//
//   values   a0 a1 a2 | c0 | d0 d1     [total, ...]     lengths  3 0 1 2     [count]
//                                                    or offsets  0 3 3 4 6   [count + 1]
//   packed     a0 a1 a2 c0 d0 d1 .  .                Dim::Ragged is one axis: `total` in its bucket
//   rectangle  a0 a1 a2 .                            or two, with a `length`: `count` and `length`
//              .  .  .  .                            in theirs; what no sequence has is the input's
//              c0 .  .  .                            fill
//              d0 d1 .  .
//
//   const int seq = spec.AddRagged({.count = batch, .total = tokens, .length = longest,
//                                   .lengths = 0});
//   spec.inputs = {{.name = "lengths", .dtype = DType::kInt32, .dims = {Dim::Symbol(batch)}},
//                  {.name = "x", .dims = {Dim::Ragged(seq), Dim::Fixed(64)}}};
//   spec.outputs = {{.name = "y", .dims = {Dim::Ragged(seq), Dim::Fixed(64)}}};
//
// A tensor with such a dim has it first, is row-major, and neither static nor mutated. The one
// launch that stages a call reads the lengths where they are, so that they may be known to the
// device alone; it scatters rows into the rectangle, and writes what CallContext::offsets shows:
// where each sequence of the bucket begins and the last one ends, the slots beyond the real ones
// empty. The word of `total` in the parameter block is that end, be it less than the packed tensor
// has rows. An output that is a rectangle is packed by the last kernel of the run, rows that no
// sequence has as zeros.
//
// The device holds what it reads to what there is: a length below 0 counts as 0, and rows beyond
// the packed tensor's, beyond 2^31 - 1 by lengths of 32 bits, or beyond `length` in a rectangle,
// are left out. It may find fewer rows than the packed tensor has, and in a rectangle every
// sequence but the longest is padded, also where an extent is its bucket: `total` has a claim, and
// so have `count` and `length` then. Give `total` one bucket where nothing of the program but
// packed outputs depends on it.
struct RaggedSpec {
  // Index of the symbol that is the number of sequences, which offsets say as well as an axis. No
  // symbol of a set is counted. Two sets may share a total if they share count and lengths, too.
  int count = -1;
  int total = -1;  // Index of the symbol that is the rows of all, as the packed axis has them.
  // Index of the symbol that is the rows of the longest, or more; -1: packed, no rectangle. A call
  // gives it.
  int length = -1;
  // Index of the input that says which rows are whose: i32 or i64, copied, of one axis. It has the
  // dims {count} and the fill zero; by offsets, an extent that is the count and 1, and repeats the
  // last.
  int lengths = -1;
  RaggedBy by = RaggedBy::kLengths;  // What that input has.

  bool is_rectangle() const { return length >= 0; }
};

// What the program promises about the elements beyond the real extents of the symbols that claim
// nothing by themselves. Live outputs are equal bit for bit.
enum class Claim : uint8_t {
  kExact,  // Nothing: they are never padded. Their policies must be `exact`.
  // Padded rows compute something, but never reach a live row. PaddingContents::kRowIndependent.
  kRowIndependent,
  // Kernels read the real extents from the parameter block and skip the padding.
  // PaddingContents::kAny.
  kMasked,
};
const char* NameOf(Claim claim);

// How an input gets to its kernels.
enum class InputRole : uint8_t {
  kCopy,    // Arrives with every call; staged to a fixed address, padded on the way. One that is an
            // output of the lane's path is read where it lies, if it lies as staging would put it.
  kStatic,  // Bound once (weights, KV cache); its address is part of the key. All dims fixed.
};
const char* NameOf(InputRole role);

// A tensor that a program reads.
struct InputSpec {
  std::string name;               // What messages and traces call it.
  DType dtype = DType::kFloat32;  // Of its elements.
  Dims dims{};                    // Its sizes, one per axis.
  // What the program sees, in elements at the extents of the run; empty: row-major without gaps. A
  // static tensor has them when it is bound; a copied one gets them when it is staged, whatever the
  // caller's are, so that no two elements may share a byte.
  Dims strides{};
  InputRole role = InputRole::kCopy;  // How it gets to the kernels.
  // What it holds beyond its real extents. Staging writes it, also where a claim allows other
  // contents. An output of the lane's path holds there what its producer left, so one with padding,
  // or whose extent the device decides, is read in place only if it is not mutated and any bits may
  // lie there: its fill is undefined, or every symbol of the axes that are padded in this call
  // claims kAny, or kMasked by its program; it is staged else.
  Fill fill{};
  // The program writes to it. What it wrote to a staged input is copied back to the caller's
  // tensor, in which no two elements may share a byte, and from whose first to whose last nothing
  // else of the call may lie, but for its counts; a static input is written where it lies. Elements
  // of neither may share bytes.
  bool mutated = false;
  // Bytes, a power of two: a static input whose address is no multiple is copied by every call.
  int64_t alignment = 16;
};

// Where an output lies.
enum class OutputRole : uint8_t {
  kPool,    // In the lane's window; read through the lease.
  kStatic,  // At an address bound once, behind the static inputs. All dims fixed.
};
const char* NameOf(OutputRole role);

// A size that the device decides: how many of an output's elements along `axis` mean something is
// what the program writes to output `output`, one i32 or i64. The output's dims are its capacity.
// One that is static tells of the last call that wrote it.
struct Count {
  int output = -1;  // Index of the output that counts; -1: none, all elements mean something.
  int axis = 0;     // Which axis is counted.

  // Whether a tensor of this dtype can be one.
  static constexpr bool Takes(DType dtype) {
    return dtype == DType::kInt32 || dtype == DType::kInt64;
  }
};

// A tensor that a program writes.
struct OutputSpec {
  std::string name;               // What messages and traces call it.
  DType dtype = DType::kFloat32;  // Of its elements.
  Dims dims{};                    // Its sizes, one per axis.
  // In elements, at the extents of the run; empty: row-major without gaps. No two elements may
  // share a byte.
  Dims strides{};
  OutputRole role = OutputRole::kPool;  // Where it lies.
  Count count{};  // How many elements mean something, which is read if somebody asks. See
                  // ReadScope::ReadSized.
};

// A host scalar. One that is not device-resident is baked into the kernels' arguments and so is
// part of the key, unless a symbol is bound to it; a device-resident one is read by kernels from
// the parameter block.
struct ScalarSpec {
  std::string name;              // What expressions, messages and traces call it.
  bool device_resident = false;  // Kernels read it from the parameter block.
};

// Whether a program's graphs must earn their keep; see SessionOptions::gate.
enum class GateMode : uint8_t {
  kSession,      // As the session's options say.
  kOff,          // What is recorded is replayed.
  kOn,           // Live calls are timed both ways, and each bucket keeps the faster one.
  kAlwaysEager,  // Never recorded, never replayed.
};
const char* NameOf(GateMode mode);

// A program. Lists are initialised, like dims and fill above, so that no compiler warns where a
// spec leaves them out.
struct ProgramSpec {
  std::string name;                   // What Session::Find, messages and traces call it.
  Claim claim = Claim::kExact;        // What it claims about symbols without a claim of their own.
  std::vector<SymbolSpec> symbols{};  // Its dynamic sizes. At most kSymbolsMax.
  std::vector<JointSpec> joint{};     // Symbols that are padded two and two.
  std::vector<RaggedSpec> ragged{};   // Packed sequences, for Dim::Ragged. At most kRaggedMax.
  std::vector<InputSpec> inputs{};    // In the order in which the callable asks for them.
  std::vector<OutputSpec> outputs{};  // Likewise.
  std::vector<ScalarSpec> scalars{};  // Host scalars. At most kScalarsMax.
  // Promises to launch on the context's stream alone. Warm-up and eager runs then reuse the bytes
  // of a temporary as soon as it is freed; otherwise, because a forked stream may still be using
  // them, only after the run. A recording that shows a fork breaks the promise and is refused.
  bool one_stream = false;
  // Promises that two threads may run the callable at once, which recording in the background
  // needs.
  bool thread_safe = false;
  // Tells programs of one name apart, e.g. by adapter or draft length. See Session::Find.
  std::string variant{};
  // Conditions on symbols (real extents) and scalars under which the program is right, in the
  // language of base/expression.h. A call that fails one is refused. Buckets are not checked: that
  // a program may run at them is what its claims say.
  std::vector<std::string> guards{};
  // Sizes computed from symbols and scalars of the key, in the same language: "2*n", "n + m",
  // "ceildiv(n, 16)"; what Dim::Extent names. An input's axis must have exactly the value at the
  // real extents, and an output's shows it; it is padded to the value at the buckets. A call where
  // an expression is negative or has no value is refused; one where it has none at the buckets, a
  // smaller one there, or one that makes a tensor larger than any device, is run eagerly.
  std::vector<std::string> extents{};
  // By how much one call advances its generator's offset, rounded up to a multiple of 4; 0: the
  // program has no random state. See RandomWord.
  int64_t random_numbers_per_call = 0;
  Generator* generator = nullptr;  // Whose random state it has; null: the session's. Outlives it.
  GateMode gate = GateMode::kSession;  // Whether its graphs must earn their keep.

  // Appends a symbol of this kind and returns its index.
  int AddSymbol(std::string symbol_name,
                PaddingPolicy policy,
                SymbolKind kind = SymbolKind::kDynamic) {
    symbols.push_back({.name = std::move(symbol_name), .policy = std::move(policy), .kind = kind});
    return static_cast<int>(symbols.size()) - 1;
  }

  // Appends two dynamic symbols as JointSpec wants them, and their policy. Returns their indices.
  std::pair<int, int> AddJoint(std::string a_name, std::string b_name, JointPolicy policy);

  // Appends sequences that callers pack. Returns their index, for Dim::Ragged.
  int AddRagged(const RaggedSpec& sequences) {
    ragged.push_back(sequences);
    return static_cast<int>(ragged.size()) - 1;
  }

  // What a symbol is in, if its extents become buckets together with another's; else null.
  const JointSpec* JointOf(int symbol) const;

  // The size that `expression` computes, appended to `extents` unless it is there.
  Dim AddExtent(std::string expression);

  // Turns the fixed axes of copied inputs that `text` names ("x:0,kv*:1") into symbols of this
  // policy and kind, one per entry, appended in order: an entry ties the axes it names. Outputs
  // keep their dims. Rename a symbol before a guard or a bound speaks of it. Errors:
  // kInvalidArgument  malformed text; an entry that names no axis or a symbol already.
  absl::Status AddDynamicAxes(const std::string& text,
                              const PaddingPolicy& policy,
                              SymbolKind kind = SymbolKind::kAuto);

  // What guards and expressions call the values that they read: symbols, then scalars. Allocates.
  std::vector<std::string> value_names() const;

  // Words of the parameter block; see ExtentWord.
  int parameter_words() const;
};

// Checks a spec: the limits above, symbols that exist and that an axis of a copied input, a scalar
// or the call gives their extents, names present and unique within their list, sizes that are not
// negative and whose bytes at the largest buckets an int64 holds, strides that are not negative and
// keep apart there what is written (each call checks what has expressions), fixed static inputs and
// outputs, counts that are outputs of one i32 or i64, counted symbols as SymbolSpec wants them,
// joint policies as JointSpec and sequences as RaggedSpec wants them, buckets within their symbol's
// bounds, guards and expressions that parse, expressions that read no scalars but those of the key,
// a claim for each symbol that its policy pads, tolerances that are finite and not negative,
// half-lives that are not negative, and fills that the claims allow. Errors: kInvalidArgument
// naming the program and the field.
absl::Status ValidateSpec(const ProgramSpec& spec);

// What holds of a symbol that is padded: its own claim, or what its program's says of it; nothing
// if it must not be padded. Requires, here and below: a symbol of `spec` (checked).
std::optional<PaddingClaim> ClaimOf(const ProgramSpec& spec, int symbol);

// Whether the extents of a symbol are ever padded: its claim, kind and policy allow it, be that
// policy a joint one.
bool MayPad(const ProgramSpec& spec, int symbol);

// What an input's padding may hold along the axes of a symbol that is padded: kAny, kFinite or
// kFill, as its dtype says of kRowIndependent.
PaddingContents ContentsOf(const ProgramSpec& spec, const InputSpec& input, int symbol);

// How equal live outputs are if every symbol that may be is padded: tolerances add up.
Equality EqualityOf(const ProgramSpec& spec);

// The guards of a spec: those of its symbols' bounds, then its own, over the names of its symbols
// and scalars, in that order. Errors: kInvalidArgument as ValidateSpec.
absl::StatusOr<GuardProgram> CompileGuards(const ProgramSpec& spec);

// The expressions of `spec.extents`, over the same names. Errors: kInvalidArgument as ValidateSpec.
absl::StatusOr<std::vector<Expression>> CompileExtents(const ProgramSpec& spec);

// The parameter block is an array of int64 words in device memory: the real extent of each symbol
// in spec order, whoever decided it, then each device-resident scalar in spec order, then the
// random state: the seed and the offset of the call's generator before it. These return the word
// index of one of them; the offset follows the seed.
int ExtentWord(const ProgramSpec& spec, int symbol);  // Requires: a symbol of `spec` (checked).
int ScalarWord(const ProgramSpec& spec, int scalar);  // Requires: device-resident (checked).
int RandomWord(const ProgramSpec& spec);              // Requires: a random state (checked).

// Why a program is being run.
enum class Phase : uint8_t {
  kWarmUp,  // At the bucket, without a graph; allocations are noted.
  kRecord,  // At the bucket, under stream capture: nothing executes.
  kEager,   // At the call's own extents, without a graph.
};

// Host code between two graphs of a program; see CallContext::Break. May enqueue work on the stream
// and wait for it.
using EagerStep = absl::AnyInvocable<absl::Status(CuStream stream)>;

// What a callable sees of one run. Valid only inside the callable.
class CallContext {
 public:
  virtual ~CallContext() = default;

  Phase phase() const { return phase_; }
  CuStream stream() const {
    return stream_;
  }  // Launch here, or on streams forked from and joined to it.
  const Driver& driver() const { return *driver_; }

  int64_t extent(int symbol) const { return extents_[static_cast<size_t>(symbol)]; }  // Padded.
  int64_t extent(const Dim& dim) const {
    return dim.symbol < 0 ? dim.size : extent(dim.symbol);
  }  // Padded, of any dim.
  const Tensor& input(int index) const {
    return inputs_[static_cast<size_t>(index)];
  }  // Padded if copied, with the spec's strides.
  int64_t scalar(int index) const {
    return scalars_[static_cast<size_t>(index)];
  }  // Key scalars; 0 for device-resident ones and those that a symbol is bound to.
  DeviceAddress parameters() const { return parameters_; }  // The parameter block.
  const Tensor& offsets(int ragged) const {
    return offsets_[static_cast<size_t>(ragged)];
  }  // Of sequences, padded: a dtype as their lengths have, the extent of `count` and 1.
  // For libraries; 0 if there is none. The lane's, or an inclusion's own.
  DeviceAddress workspace() const { return workspace_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Memory for temporaries, aligned to kBufferAlignment, contents undefined. A run must make the
  // same requests in the same order in every phase at equal extents. Whatever is not freed lives to
  // the end of the run. The label is for people: traces, maps and drawings call the bytes so; that
  // of the warm-up counts. Errors: kInvalidArgument bytes < 1; kResourceExhausted; kAborted the
  // request departs from what the warm-up asked for.
  virtual absl::StatusOr<DeviceAddress> Allocate(int64_t bytes, std::string_view label) = 0;
  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes) { return Allocate(bytes, {}); }

  // Ends the life of a temporary: later kernels on the stream may reuse its bytes. Or says that the
  // run reads a copied input no more: if the call donates it, and it is read in place, its bytes
  // are reused too; else nothing happens, so that a program may say so in every run. Errors:
  // kInvalidArgument if `address` is not that of a live temporary of this run or of a copied
  //                          input not freed yet; kAborted as above.
  virtual absl::Status Free(DeviceAddress address) = 0;

  // The memory of output `index`, with the spec's strides at the padded extents; of one whose rows
  // are ragged in a rectangle, that rectangle. Each output must be asked for, or made an alias,
  // exactly once. Errors: as Allocate.
  virtual absl::StatusOr<Tensor> AllocateOutput(int index) = 0;

  // Makes output `index` the bytes at `address`: those of an input, of an output asked for before,
  // or memory outside the session that lives as long as it, such as a constant. An alias of a
  // staged input is copied when the run ends, because the next call stages there again. Errors:
  // kInvalidArgument  the bytes lie in the session's memory but in none of those; or a
  //                           static output, or one that is packed from a rectangle.
  virtual absl::Status AliasOutput(int index, DeviceAddress address) = 0;

  // Ends the graph recorded so far, and begins another after `step`, which is never captured: an
  // eager run executes it at once, a recording keeps it, and every replay executes it on the call's
  // stream between the two graphs. Temporaries keep their bytes across it. What it captures by
  // reference must outlive the session. Requires: every forked stream is joined.
  virtual absl::Status Break(EagerStep step) = 0;

 protected:
  Phase phase_ = Phase::kEager;
  CuStream stream_ = nullptr;
  const Driver* driver_ = nullptr;
  std::vector<int64_t> extents_;
  std::vector<Tensor> inputs_;
  std::vector<int64_t> scalars_;
  DeviceAddress parameters_ = 0;
  std::vector<Tensor> offsets_;
  DeviceAddress workspace_ = 0;
  int64_t workspace_bytes_ = 0;
};

using Callable = absl::AnyInvocable<absl::Status(CallContext&)>;

}  // namespace coppice
