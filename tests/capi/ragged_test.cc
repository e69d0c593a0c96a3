// Goal: ragged sequences of a C caller are staged and packed as RaggedSpec of program.h says, and a
// spec of none is refused in its words.
// Method: packed rows are doubled by a small PTX kernel on the emulator, packed and in a rectangle,
// by lengths and by offsets, beside the offsets that the program is shown.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using Integers = std::vector<int32_t>;
using CopyAsync = int(uint64_t to, uint64_t from, size_t bytes, void* stream);

class CRaggedTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
    ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  }

  // Sequences by a name of the test's, in a rectangle if they have a length.
  static coppice_ragged_spec Sequences(int32_t by, const char* length) {
    return {.struct_size = sizeof(coppice_ragged_spec),
            .by = by,
            .name = "rows",
            .count = "count",
            .total = "total",
            .length = length,
            .lengths = "lengths"};
  }

  // Registers y = 2 x of packed rows, and their offsets. `said` is the size of what says which rows
  // are whose.
  coppice_status Register(const coppice_ragged_spec& ragged, const char* said) {
    static const coppice_policy kPolicy = {
        .struct_size = sizeof(coppice_policy), .text = "pow2", .maximum = 64};
    std::vector<coppice_symbol_spec> symbols;
    for (const char* const name : {"count", "total", "length"}) {
      symbols.push_back({.struct_size = sizeof(coppice_symbol_spec),
                         .kind = COPPICE_SYMBOL_DYNAMIC,
                         .name = name,
                         .policy = &kPolicy});
    }
    symbols.back().given = 1;
    const char* const rows[] = {"rows"};
    const char* const starts[] = {"count + 1"};
    const coppice_tensor_spec floats = {.struct_size = sizeof(coppice_tensor_spec),
                                        .dtype = {kDLFloat, 32, 1},
                                        .name = "x",
                                        .shape = rows,
                                        .rank = 1};
    coppice_tensor_spec integers = floats;
    integers.dtype = {kDLInt, 32, 1};
    integers.name = "lengths";
    integers.shape = &said;
    if (ragged.by == COPPICE_RAGGED_OFFSETS) integers.fill = COPPICE_FILL_REPEAT_LAST;
    const coppice_tensor_spec inputs[] = {integers, floats};
    coppice_tensor_spec outputs[] = {floats, integers};
    outputs[0].name = "y";
    outputs[1].name = "starts";
    outputs[1].shape = starts;
    const coppice_program_spec spec = {.struct_size = sizeof(spec),
                                       .claim = COPPICE_CLAIM_ANY,
                                       .name = "ragged",
                                       .symbols = symbols.data(),
                                       .symbol_count = 3,
                                       .inputs = inputs,
                                       .input_count = 2,
                                       .outputs = outputs,
                                       .output_count = 2,
                                       .ragged = &ragged,
                                       .ragged_count = 1};
    return coppice_register_callable(
        session_, &spec,
        [](void* user, coppice_context* context) {
          return static_cast<CRaggedTest*>(user)->Double(context);
        },
        this, nullptr, &program_);
  }

  coppice_status Double(coppice_context* context) {
    coppice_view x = {.struct_size = sizeof(x)};
    EXPECT_C_OK(coppice_context_input(context, 1, &x));
    coppice_view offsets = {.struct_size = sizeof(offsets)};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "ragged 1: the program has only 1",
                   coppice_context_offsets(context, 1, &offsets));
    EXPECT_C_OK(coppice_context_offsets(context, 0, &offsets));
    axes_ = x.tensor.ndim;
    uint32_t count = 1;
    for (int axis = 0; axis < axes_; ++axis)
      count *= static_cast<uint32_t>(x.shape[axis]);
    EXPECT_EQ(offsets.shape[0], ExtentOf(context) + 1);
    const auto bytes = static_cast<size_t>(offsets.shape[0]) * sizeof(int32_t);
    EXPECT_EQ(Entry<CopyAsync>("cuMemcpyDtoDAsync")(OutputOf(context, 1), AddressOf(offsets.tensor),
                                                    bytes, InfoOf(context).stream),
              0);
    return LaunchScale(AddressOf(x.tensor), OutputOf(context), count, 2, InfoOf(context).stream);
  }

  DLTensor UploadIntegers(const Integers& values) {
    std::vector<float> same(values.size());
    std::memcpy(same.data(), values.data(), values.size() * sizeof(int32_t));
    DLTensor tensor = Upload(same);
    tensor.dtype = {kDLInt, 32, 1};
    return tensor;
  }

  // Runs the program on sequences of rows 1, 2, 3 and so on; `kind` is how it has to run.
  void Expect(const Integers& said, const Integers& starts, bool rectangle, int32_t kind) {
    const DLTensor lengths = UploadIntegers(said);
    const DLTensor x = Upload(Ramp(starts.back()));
    const DLTensor* const inputs[] = {&lengths, &x};
    coppice_call call = CallOf(inputs, 2);
    const int64_t longest = 4;
    call.extents = &longest;
    call.extent_count = 1;
    coppice_lease* lease = nullptr;
    ASSERT_C_OK(coppice_run(session_, &call, &lease));
    EXPECT_EQ(InfoOf(lease).kind, kind);
    EXPECT_EQ(axes_, rectangle ? 2 : 1);
    EXPECT_EQ(Read(lease), Ramp(starts.back(), 2));
    const std::vector<float> read = Read(lease, 1);
    Integers told(read.size());
    std::memcpy(told.data(), read.data(), read.size() * sizeof(int32_t));
    EXPECT_EQ(told, starts);
    coppice_lease_release(lease);
  }

  int axes_ = 0;  // Of what the callable saw.
};

TEST_F(CRaggedTest, PackedRowsAreSeenPackedOrAsARectangle) {
  for (const char* const length : {static_cast<const char*>(nullptr), "length"}) {
    for (const bool offsets : {false, true}) {
      const coppice_ragged_spec ragged =
          Sequences(offsets ? COPPICE_RAGGED_OFFSETS : COPPICE_RAGGED_LENGTHS, length);
      ASSERT_C_OK(Register(ragged, offsets ? "count + 1" : "count"));
      const auto expect = [&](const Integers& lengths, int32_t kind) {
        Integers starts = {0};
        for (const int32_t rows : lengths)
          starts.push_back(starts.back() + rows);
        Expect(offsets ? starts : lengths, starts, length != nullptr, kind);
      };
      expect({3, 0, 1, 2}, COPPICE_RUN_WARM_UP);
      expect({3, 0, 1, 2}, COPPICE_RUN_RECORD);
      expect({1, 2, 4}, COPPICE_RUN_REPLAY);
      ASSERT_C_OK(coppice_unregister(session_, program_));
    }
  }
}

TEST_F(CRaggedTest, SequencesThatCannotBeAreRefused) {
  const coppice_ragged_spec good = Sequences(COPPICE_RAGGED_LENGTHS, nullptr);
  const auto refuse = [&](auto change, const char* part) {
    coppice_ragged_spec ragged = good;
    change(ragged);
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, part, Register(ragged, "count"));
    EXPECT_EQ(program_, nullptr);
  };
  using Given = coppice_ragged_spec;
  refuse([](Given& spec) { spec.struct_size = 0; }, "sizeof(coppice_ragged_spec)");
  refuse([](Given& spec) { spec.name = nullptr; }, "coppice_ragged_spec: give a name");
  refuse([](Given& spec) { spec.name = "total"; }, "ragged total: the name is taken");
  refuse([](Given& spec) { spec.by = 2; }, "ragged: by");
  refuse([](Given& spec) { spec.count = "rows"; }, "ragged rows: the spec has nothing called");
  refuse([](Given& spec) { spec.total = nullptr; }, "ragged rows: the spec has nothing called ''");
  refuse([](Given& spec) { spec.length = "none"; }, "called 'none'");
  refuse([](Given& spec) { spec.lengths = "y"; }, "called 'y'");
  refuse([](Given& spec) { spec.total = "count"; }, "name different symbols");
  refuse([](Given& spec) { spec.by = COPPICE_RAGGED_OFFSETS; }, "'count + 1'");
}

}  // namespace
}  // namespace coppice
