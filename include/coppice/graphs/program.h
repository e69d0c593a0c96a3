// A program: what a front end compiled, described so that it can be recorded once per bucket.
//
// The callable is host code that launches kernels on a given stream; it knows nothing about graphs.
// The spec says which sizes are dynamic, where inputs come from, how padding is filled, and what
// the program claims about padding.
//
//   ProgramSpec spec{.name = "scale", .claim = PaddingContents::kAny};
//   const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(4096));
//   spec.inputs = {{.name = "x", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
//   spec.outputs = {{.name = "y", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
//
// A replay does not run the callable: values that it reads on the host are frozen when it is
// recorded. What may differ between calls must be an input, a symbol or a scalar of the spec. A
// callable must not call its session or use its leases, because the lane's lock is held (checked).
//
// Code that cannot be captured (host code that decides, a library that synchronises) goes into
// CallContext::Break. The program is then recorded as several graphs with that code between them.
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
#include "coppice/graphs/exact_replay.h"
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

// A size in a spec: a constant, a symbol, an expression of symbols and scalars, or the rows of
// ragged sequences. A program may see such rows as two axes: see RaggedSpec.
struct Dim {
  enum class Kind : uint8_t { kFixed, kSymbol, kExtent, kRagged };

  Kind kind = Kind::kFixed;
  int index = 0;     // Into ProgramSpec::symbols, extents or ragged, by the kind.
  int64_t size = 0;  // The size if it is fixed; >= 0.

  constexpr bool is_fixed() const { return kind == Kind::kFixed; }

  static Dim Fixed(int64_t size) { return {.size = size}; }
  static Dim Symbol(int index) { return {.kind = Kind::kSymbol, .index = index}; }
  static Dim Extent(int index) { return {.kind = Kind::kExtent, .index = index}; }
  static Dim Ragged(int index) { return {.kind = Kind::kRagged, .index = index}; }
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Dims = absl::InlinedVector<Dim, kRankMax>;

// NameOf gives the word for an enumerator that traces, JSON and Python use:
// NameOf(SymbolKind::kMaybeDynamic) is "maybe_dynamic".

// What happens to a call that is larger than the largest bucket.
enum class OverMaximum : uint8_t {
  kEager,  // It runs without a graph.
  kError,  // It fails.
};
const char* NameOf(OverMaximum over_maximum);

// How a symbol's extents become buckets.
enum class SymbolKind : uint8_t {
  // Static until a call brings a second extent, then maybe dynamic. Warming does not count.
  kAuto,
  kDynamic,       // Padded as its policy says. A claim must allow padding, or the spec is invalid.
  kMaybeDynamic,  // Padded by its policy if a claim allows it; else every extent is its own bucket.
  kStatic,        // Never padded: every extent is part of the key as it is.
};
const char* NameOf(SymbolKind kind);

// A dynamic size, bound to every (input, axis) whose Dim names it. All these axes must have the
// same size in a call. Axes that share no symbol are independent, even if their sizes are equal. A
// symbol that is given, or bound to a scalar, needs no axis; if it has axes, their sizes must
// agree.
struct SymbolSpec {
  std::string name;      // Its name in axes and expressions.
  PaddingPolicy policy;  // `exact` puts every extent into the key as it is; see also JointSpec.
  SymbolKind kind = SymbolKind::kAuto;             // How its extents become buckets.
  OverMaximum over_maximum = OverMaximum::kEager;  // What a call over the largest bucket does.
  int64_t min = 0;  // The least extent of a call or a bucket, checked as a guard.
  int64_t max = std::numeric_limits<int64_t>::max();  // The largest extent of either.
  int64_t multiple_of = 1;  // Every extent and bucket is a multiple of this.
  bool exclude_01 = false;  // Extents 0 and 1 are never padded; each has its own key.
  bool given = false;       // Its extent comes with the call. See Call::extents.
  // The device may decide its extent. See Call::counts. A claim must allow padding, and the kind
  // must not be kStatic. The host does not know it, so its only bound is `max`, and neither a guard
  // nor an expression that is an axis of a copied input may read it.
  bool counted = false;
  // Index of the scalar whose value is its extent, or -1. The bucket replaces the scalar in the
  // key, so the callable sees 0 for the scalar, and the bucket as the symbol's extent.
  int scalar = -1;
  // The program's claim about its padding; none: the claim of the whole program.
  std::optional<PaddingClaim> claim{};
  // Number of calls after which a call counts half as much when SessionPolicies::Rebucket learns;
  // infinite: no call is forgotten; 0: calls are not counted.
  double observe_half_life = 0;
};

// Two symbols whose extents become buckets together, such as a batch and a length. A size that the
// policy refuses, or has no bucket for, runs eagerly. It is an error if it exceeds the limit or the
// rule, and `over_maximum` of either symbol says so.
//
//   const auto [batch, length] =
//       spec.AddJoint("batch", "length", *JointPolicy::Parse("1x512,4x128", {4, 512}));
//
// Neither symbol has its own ladder: its `policy` is `exact`, up to its part of the limit. Each
// symbol is dynamic or maybe dynamic, is in only one joint policy, has a claim, is not counted, and
// sets neither `exclude_01` nor `observe_half_life`. The policy never changes after registration.
struct JointSpec {
  int a = 0;  // Index into ProgramSpec::symbols of the extent that a bucket names first,
  int b = 1;  // and of the second.
  JointPolicy policy;

  // The two extents, from a list with one extent per symbol.
  JointSize SizeIn(std::span<const int64_t> extents) const {
    return {extents[static_cast<size_t>(a)], extents[static_cast<size_t>(b)]};
  }
};

// How the input of lengths says which rows belong to which sequence.
enum class RaggedBy : uint8_t {
  kLengths,  // The number of rows of each sequence.
  kOffsets,  // Where each sequence begins, and where the last one ends.
};
const char* NameOf(RaggedBy by);

// Sequences of different lengths whose rows a caller packs into one tensor, one after the other,
// such as the tokens of a batch of prompts. A copied input says which rows belong to which
// sequence:
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
// In a tensor with such a dim, the dim comes first; the tensor is row-major, and neither static nor
// mutated. The launch that stages a call reads the lengths in device memory, so the host need not
// know them. It scatters rows into the rectangle, and writes the offsets that CallContext::offsets
// returns: where each sequence of the bucket begins, and where the last one ends. Slots beyond the
// real sequences are empty. The word of `total` in the parameter block is that end, even if the
// packed tensor has more rows. The run's last kernel packs an output that is a rectangle. Rows that
// belong to no sequence become zeros.
//
// The device clamps what it reads: a length below 0 counts as 0, and rows beyond the packed tensor,
// beyond 2^31 - 1 with lengths of 32 bits, or beyond `length` in a rectangle, are left out. `total`
// needs a claim, because the device may find fewer rows than the packed tensor has. With a
// rectangle, `count` and `length` also need a claim, because all but the longest sequence are
// padded. If only packed outputs depend on `total`, give it one bucket.
struct RaggedSpec {
  // Index of the symbol that is the number of sequences. An axis or the offsets give it. No symbol
  // of a set may be counted. Two sets may share a total only if they also share count and lengths.
  int count = -1;
  int total = -1;  // Index of the symbol that is the size of the packed axis.
  // Index of the symbol for the length of the longest sequence; -1: packed, no rectangle. Each call
  // gives this length, or a larger number.
  int length = -1;
  // Index of the input of lengths or offsets: i32 or i64, copied, with one axis. Lengths have the
  // dims {count} and the fill zero. Offsets have one element more, an extent of count + 1, and a
  // fill that repeats the last.
  int lengths = -1;
  RaggedBy by = RaggedBy::kLengths;  // What that input holds.

  bool is_rectangle() const { return length >= 0; }
};

// How an input reaches the kernels.
enum class InputRole : uint8_t {
  kCopy,    // Comes with every call, and is staged: copied to a fixed address and padded. If it
            // is an output of the lane's path, and has the layout of a staged input, it is read in
            // place.
  kStatic,  // Bound once (weights, KV cache); its address is part of the key. All dims fixed.
};
const char* NameOf(InputRole role);

// A tensor that a program reads.
struct InputSpec {
  std::string name;               // Its name in messages and traces.
  DType dtype = DType::kFloat32;  // The dtype of its elements.
  Dims dims{};                    // Its sizes, one per axis.
  // The strides that the program sees, in elements at the extents of the run; empty: row-major
  // without gaps. A static tensor must have these strides when it is bound. A copied tensor gets
  // them when it is staged, whatever strides the caller's tensor has, so no two elements may share
  // a byte.
  Dims strides{};
  InputRole role = InputRole::kCopy;  // How it reaches the kernels.
  // Its contents beyond its real extents. Staging writes the fill, even if a claim allows other
  // contents. If the input is an output of the lane's path, its padding holds what the program that
  // made it left there. If such an input has padding, or the device decides its extent, it is read
  // in place only if it is not mutated and its padding may hold any bits: its fill is undefined, or
  // every symbol of the axes that are padded in this call claims kAny. Otherwise it is staged.
  Fill fill{};
  // The program writes to it. A static input is written in place. A staged input is copied back to
  // the caller's tensor after the run. No other tensor of the call, except its counts, may lie
  // between the first and the last byte of that tensor. No two elements may share a byte.
  bool mutated = false;
  // Bytes, a power of two. If the address of a static input is not a multiple of it, every call
  // copies the input.
  int64_t alignment = 16;
};

// Where an output lies.
enum class OutputRole : uint8_t {
  kPool,    // In the lane's window, read through the lease.
  kStatic,  // At an address that is bound once, after the static inputs. All dims fixed.
};
const char* NameOf(OutputRole role);

// A size that the device decides: the program writes the number of valid elements of this output
// along `axis` to the output `output`, one i32 or i64. The dims of this output are its capacity. A
// static count is the one that the last call wrote.
struct Count {
  int output = -1;  // Index of the output that holds the count; -1: none, all elements are valid.
  int axis = 0;     // The axis that is counted.

  // Whether a tensor of this dtype can hold a count.
  static constexpr bool Takes(DType dtype) {
    return dtype == DType::kInt32 || dtype == DType::kInt64;
  }
};

// A tensor that a program writes.
struct OutputSpec {
  std::string name;               // Its name in messages and traces.
  DType dtype = DType::kFloat32;  // The dtype of its elements.
  Dims dims{};                    // Its sizes, one per axis.
  // Its strides, in elements at the extents of the run; empty: row-major without gaps. No two
  // elements may share a byte.
  Dims strides{};
  OutputRole role = OutputRole::kPool;  // Where it lies.
  Count count{};                        // How many elements are valid. See ReadScope::ReadSized.
};

// A host scalar. If it is device-resident, kernels read it from the parameter block. Otherwise it
// is baked into the kernels' arguments and so is part of the key, unless a symbol is bound to it.
struct ScalarSpec {
  std::string name;              // Its name in expressions, messages and traces.
  bool device_resident = false;  // Kernels read it from the parameter block.
};

// Whether a program's graphs are kept only if they are faster; see SessionOptions::gate.
enum class GateMode : uint8_t {
  kSession,      // As SessionOptions::gate says.
  kOff,          // Every recorded graph is replayed.
  kOn,           // Live calls are timed both ways, and each bucket keeps the faster one.
  kAlwaysEager,  // Never recorded, never replayed.
};
const char* NameOf(GateMode mode);

// A program. Lists have initialisers, like dims and fill above, so that no compiler warns if a spec
// leaves them out.
struct ProgramSpec {
  std::string name;  // Its name in Session::Find, messages and traces.
  // What the padding of symbols without their own claim may hold, where live outputs are equal bit
  // for bit; none: these symbols are never padded, and their policies must be `exact`.
  std::optional<PaddingContents> claim{};
  std::vector<SymbolSpec> symbols{};  // Its dynamic sizes. At most kSymbolsMax.
  std::vector<JointSpec> joint{};     // Pairs of symbols that are padded together.
  std::vector<RaggedSpec> ragged{};   // Packed sequences, for Dim::Ragged. At most kRaggedMax.
  std::vector<InputSpec> inputs{};    // In the order in which the callable uses their indices.
  std::vector<OutputSpec> outputs{};  // Likewise.
  std::vector<ScalarSpec> scalars{};  // Host scalars. At most kScalarsMax.
  // Promises to launch only on the context's stream. Warm-up and eager runs then reuse the bytes of
  // a temporary as soon as it is freed; otherwise only after the run, because a forked stream may
  // still use them. A recording that forks is refused.
  bool one_stream = false;
  // Promises that two threads may run the callable at once, as background recording requires.
  bool thread_safe = false;
  // Distinguishes programs of the same name, e.g. by adapter or draft length. See Session::Find.
  std::string variant{};
  // Conditions on symbols (real extents) and scalars under which the program is correct, in the
  // language of base/expression.h. A call is refused if a guard fails. Guards are not checked at
  // buckets, because the claims say that the program may run there.
  std::vector<std::string> guards{};
  // Sizes computed from symbols and scalars of the key, in the same language: "2*n", "n + m",
  // "ceildiv(n, 16)". Dim::Extent names them. At the real extents, an input's axis must have
  // exactly the value of the expression, and an output's axis gets this value. Both axes are padded
  // to the value at the buckets. A call is refused if an expression is negative or has no value. It
  // runs eagerly if the value at the buckets does not exist, is smaller, or makes a tensor larger
  // than any device.
  std::vector<std::string> extents{};
  // How far one call advances the offset of its generator, rounded up to a multiple of 4; 0: the
  // program has no random state. See RandomWord.
  int64_t random_numbers_per_call = 0;
  Generator* generator = nullptr;      // Must outlive the session; null: the session's generator.
  GateMode gate = GateMode::kSession;  // Whether its graphs are kept only if they are faster.
  // Whether replays compute at the sizes of their call. Only for programs of packages, without
  // counted or ragged sizes.
  ExactReplay exact = ExactReplay::kNever;

  // Appends a symbol of this kind and returns its index.
  int AddSymbol(std::string symbol_name,
                PaddingPolicy policy,
                SymbolKind kind = SymbolKind::kDynamic) {
    symbols.push_back({.name = std::move(symbol_name), .policy = std::move(policy), .kind = kind});
    return static_cast<int>(symbols.size()) - 1;
  }

  // Appends two dynamic symbols as JointSpec requires, and their policy. Returns their indices.
  std::pair<int, int> AddJoint(std::string a_name, std::string b_name, JointPolicy policy);

  // Appends sequences that callers pack. Returns their index, for Dim::Ragged.
  int AddRagged(const RaggedSpec& sequences) {
    ragged.push_back(sequences);
    return static_cast<int>(ragged.size()) - 1;
  }

  // The joint policy that a symbol is in; null if it is in none.
  const JointSpec* JointOf(int symbol) const;

  // The size that `expression` computes. Appends it to `extents` unless it is there.
  Dim AddExtent(std::string expression);

  // Turns the fixed axes of copied inputs that `text` names ("x:0,kv*:1") into symbols with this
  // policy and kind. Each entry appends one symbol, which all its axes share. Outputs keep their
  // dims. Rename a symbol before a guard or a bound names it. Errors: kInvalidArgument the text is
  // malformed, or an entry names no axis or one that is a symbol already.
  absl::Status AddDynamicAxes(const std::string& text,
                              const PaddingPolicy& policy,
                              SymbolKind kind = SymbolKind::kAuto);

  // The names that guards and expressions may use: symbols, then scalars. Allocates.
  std::vector<std::string> value_names() const;

  // Words of the parameter block; see ExtentWord.
  int parameter_words() const;
};

// Checks a spec: it keeps the limits above; names exist and are unique in their list; symbols
// exist, and an axis of a copied input, a scalar or the call gives each its extent; buckets are
// within the bounds of their symbol; sizes are not negative, and their bytes at the largest buckets
// fit an int64; strides are not negative, and written elements do not overlap there (each call
// checks strides with expressions); static inputs and outputs are fixed; counts are outputs of one
// i32 or i64; counted symbols, joint policies and sequences are as their structs require; guards
// and expressions parse, and expressions read only scalars of the key; claims cover each symbol
// that its policy pads, and allow the fills; tolerances are finite; tolerances and half-lives are
// not negative. Errors: kInvalidArgument naming the program and the field.
absl::Status ValidateSpec(const ProgramSpec& spec);

// The claim that holds for a padded symbol: its own, or that of its program; nothing if it must not
// be padded. Requires, here and below: a symbol of `spec` (checked).
std::optional<PaddingClaim> ClaimOf(const ProgramSpec& spec, int symbol);

// Whether the extents of a symbol are ever padded: its claim, its kind and its policy (its own or a
// joint one) allow it.
bool MayPad(const ProgramSpec& spec, int symbol);

// What an input's padding may hold along the axes of a padded symbol: kAny, kFinite or kFill.
// kRowIndependent becomes kAny or kFill by the input's dtype.
PaddingContents ContentsOf(const ProgramSpec& spec, const InputSpec& input, int symbol);

// How equal live outputs are if all symbols that may be padded are padded: tolerances add up.
Equality EqualityOf(const ProgramSpec& spec);

// The guards of a spec: those from the bounds of its symbols, then its own. Their values are the
// symbols, then the scalars. Errors: kInvalidArgument as ValidateSpec.
absl::StatusOr<GuardProgram> CompileGuards(const ProgramSpec& spec);

// The expressions of `spec.extents`, over the same values. Errors: the same.
absl::StatusOr<std::vector<Expression>> CompileExtents(const ProgramSpec& spec);

// The parameter block is an array of int64 words in device memory: the real extent of each symbol
// (also one that the device decided), each device-resident scalar, both in spec order, then the
// random state, which is the generator's seed and its offset before the call. These functions
// return the index of a word; RandomWord is that of the seed, and the offset follows it.
int ExtentWord(const ProgramSpec& spec, int symbol);  // Requires: a symbol of `spec` (checked).
int ScalarWord(const ProgramSpec& spec, int scalar);  // Requires: device-resident (checked).
int RandomWord(const ProgramSpec& spec);              // Requires: a random state (checked).

// The purpose of a run of a program.
enum class Phase : uint8_t {
  kWarmUp,  // At the bucket, without a graph; allocations are noted.
  kRecord,  // At the bucket, under stream capture: nothing executes.
  kEager,   // At the call's own extents, without a graph.
};

// Host code between two graphs; see CallContext::Break. May enqueue work on the stream and wait.
using EagerStep = absl::AnyInvocable<absl::Status(CuStream stream)>;

// One run, as a callable sees it. Valid only inside the callable.
class CallContext {
 public:
  virtual ~CallContext() = default;

  Phase phase() const { return phase_; }
  CuStream stream() const {
    return stream_;
  }  // Launch here, or on streams that fork from it and join it.
  const Driver& driver() const { return *driver_; }

  int64_t extent(int symbol) const { return extents_[static_cast<size_t>(symbol)]; }  // Padded.
  int64_t extent(const Dim& dim) const {
    return dim.is_fixed() ? dim.size
                          : extent(dim.index + (dim.kind == Dim::Kind::kExtent ? kSymbolsMax : 0));
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
  }  // Offsets of sequences, padded: count + 1 elements in the dtype of the lengths.
  // For libraries; 0 if there is none. Session::Include has its own.
  DeviceAddress workspace() const { return workspace_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Returns memory for a temporary, aligned to kBufferAlignment, with undefined contents. A run
  // must make the same requests in the same order in every phase at equal extents. Memory that is
  // not freed lives to the end of the run. Traces, maps and drawings show the label that the
  // request had in the warm-up. Errors: kInvalidArgument bytes < 1; kResourceExhausted; kAborted
  // the request differs from that of the warm-up.
  virtual absl::StatusOr<DeviceAddress> Allocate(int64_t bytes, std::string_view label) = 0;
  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes) { return Allocate(bytes, {}); }

  // Ends the life of a temporary: later kernels on the stream may reuse its bytes. For a copied
  // input, declares that the run no longer reads it. If the call donates that input, and it is read
  // in place, its bytes are reused, too; otherwise nothing happens, so a program may always free
  // it.
  // Errors: kInvalidArgument  `address` is neither a live temporary of this run nor a copied input
  //                           that is not freed yet;
  //         kAborted          as Allocate.
  virtual absl::Status Free(DeviceAddress address) = 0;

  // The memory of output `index`, with the spec's strides at the padded extents. If its rows are
  // ragged in a rectangle, the tensor is that rectangle. Call this, or AliasOutput, exactly once
  // for each output. Errors: as Allocate.
  virtual absl::StatusOr<Tensor> AllocateOutput(int index) = 0;

  // Makes output `index` an alias of the bytes at `address`: an input, an earlier output of this
  // run, or memory outside the session that lives as long as the session, such as a constant. An
  // alias of a staged input is copied when the run ends, because the next call stages there again.
  // Errors: kInvalidArgument  the bytes lie in the session's memory, but not in an input or an
  //                           earlier output; or the output is static, or packed from a rectangle.
  virtual absl::Status AliasOutput(int index, DeviceAddress address) = 0;

  // Ends the graph recorded so far, and begins another one after `step`. The step is never
  // captured: an eager run executes it at once, a recording keeps it, and every replay executes it
  // on the call's stream between the two graphs. Temporaries keep their bytes across it. What
  // `step` captures by reference must outlive the session. Requires: every forked stream is joined.
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
