// Goal: every sentence of graphs/parts/catalogue.h and sticky_error.h. Method: a catalogue without
// a session, whose static inputs are addresses that nobody reads.

#include "graphs/parts/catalogue.h"

#include "graphs/parts/sticky_error.h"
#include "tests/graphs/lane_scene.h"
#include "tests/graphs/trace_lines.h"

namespace coppice::internal {
namespace {

class CatalogueTest : public testing::Test {
 protected:
  // Rows with two static inputs.
  static ProgramSpec BoundSpec(std::string name = "bound") {
    ProgramSpec spec = RowsSpec(std::move(name));
    for (const char* input : {"w", "v"})
      spec.inputs.push_back({.name = input, .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic});
    return spec;
  }
  static Tensor At(DeviceAddress address) {
    return Tensor::Dense(address, DType::kFloat32, std::vector<int64_t>{4});
  }
  absl::StatusOr<const Binding*> Bind(const Program& program, DeviceAddress w, DeviceAddress v) {
    return catalogue_.Bind(program, std::vector<Tensor>{At(w), At(v)});
  }

  PoolScene scene_;
  std::vector<std::string> lines_;
  SessionOptions options_{.limits = {.static_moves_max = 4},
                          .log = [this](const std::string& line) { lines_.push_back(line); }};
  Catalogue catalogue_{scene_.device.driver(), options_, scene_.windows, nullptr};
  const Program& program_ = **catalogue_.Register(BoundSpec(), NoCallable());
};

TEST_F(CatalogueTest, ProgramsAreFoundByNameAndVariant) {
  ProgramSpec spec = BoundSpec();
  spec.variant = "second";
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* second, catalogue_.Register(spec, NoCallable()));
  EXPECT_EQ(catalogue_.Find("bound", ""), &program_);
  EXPECT_EQ(catalogue_.Find("bound", "second"), second);
  EXPECT_EQ(catalogue_.Find("rows", ""), nullptr);
  EXPECT_EQ(program_.place.number, 0);
  EXPECT_EQ(second->place.number, 1);
  EXPECT_EQ(second->place.owner, &catalogue_);
  EXPECT_EQ(second->place.trace_number, -1);
}

TEST_F(CatalogueTest, ConstantsOfTheSessionAreNoStaticsOfTheApplication) {
  const TracePath path;
  {
    COPPICE_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Tracer> tracer,
                                 Tracer::Create({.path = path.str()}, 1, nullptr));
    Catalogue traced(scene_.device.driver(), options_, scene_.windows, tracer.get());
    COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program,
                                 traced.Register(BoundSpec(), NoCallable()));
    const DeviceAddress constant = scene_.pool->base(WindowMap::ConstantsWindow(2));
    ASSERT_TRUE(scene_.windows.HoldsConstants(constant));
    ASSERT_OK(traced.Bind(*program, std::vector<Tensor>{At(constant), At(0x2000)}));
  }
  const std::vector<nlohmann::json> events = EventsOf(ReadTrace(path.str()), "statics");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0][4], 16);
}

TEST_F(CatalogueTest, NameThatIsTakenOrNoCallableIsInvalid) {
  EXPECT_THAT(catalogue_.Register(BoundSpec(), NoCallable()), StatusIs(kWrongArgument));
  EXPECT_THAT(catalogue_.Register(BoundSpec("other"), nullptr), StatusIs(kWrongArgument));
  EXPECT_EQ(catalogue_.Find("other", ""), nullptr);
}

TEST_F(CatalogueTest, ProgramsThatAGateDecidesAreNotPlain) {
  EXPECT_TRUE(program_.place.plain);
  EXPECT_FALSE(program_.place.gated);
  ProgramSpec spec = BoundSpec("gated");
  spec.gate = GateMode::kOn;
  const Program& gated = **catalogue_.Register(spec, NoCallable());
  EXPECT_FALSE(gated.place.plain);
  EXPECT_TRUE(gated.place.gated);
}

TEST_F(CatalogueTest, EqualAddressesAreOneBinding) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* first, Bind(program_, 0x1000, 0x2000));
  EXPECT_EQ(*Bind(program_, 0x1000, 0x2000), first);
  EXPECT_NE(*Bind(program_, 0x1000, 0x3000), first);
  ASSERT_NE(first->version(), nullptr);
  EXPECT_EQ(first->version()->addresses, (std::vector<DeviceAddress>{0x1000, 0x2000}));
  EXPECT_TRUE(first->version()->copied.empty());
}

TEST_F(CatalogueTest, StaticsThatDoNotFitAreInvalid) {
  EXPECT_THAT(Bind(program_, 0, 0x2000), StatusIs(kWrongArgument));
  EXPECT_THAT(Bind(program_, scene_.pool->base(0), 0x2000), StatusIs(kWrongArgument));
  EXPECT_THAT(catalogue_.Bind(program_, std::vector<Tensor>{At(0x1000)}), StatusIs(kWrongArgument));
  EXPECT_THAT(Bind(ProgramOf(BoundSpec()), 0x1000, 0x2000), StatusIs(kWrongArgument));
  Tensor other_type = At(0x2000);
  other_type.dtype = DType::kInt32;
  Tensor longer = At(0x2000);
  longer.sizes[0] = 5;
  Tensor spread = At(0x2000);
  spread.strides[0] = 2;
  for (const Tensor& v : {other_type, longer, spread})
    EXPECT_THAT(catalogue_.Bind(program_, std::vector<Tensor>{At(0x1000), v}),
                StatusIs(kWrongArgument));
}

TEST_F(CatalogueTest, MisalignedStaticsAreCopiedAndInNoKey) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* first, Bind(program_, 0x1004, 0x2000));
  EXPECT_EQ(first->version()->addresses, (std::vector<DeviceAddress>{0, 0x2000}));
  EXPECT_EQ(first->version()->copied, std::vector<int>{0});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* second, Bind(program_, 0x1008, 0x2000));
  EXPECT_NE(second, first);
  EXPECT_EQ(second->version(), first->version());
}

TEST_F(CatalogueTest, VersionThatNoBindingHasIsRetired) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* first, Bind(program_, 0x1004, 0x2000));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* second, Bind(program_, 0x1008, 0x2000));
  const StaticVersion* const version = first->version();
  catalogue_.Unbind(*first);
  EXPECT_EQ(first->version(), nullptr);
  EXPECT_EQ(catalogue_.retirements(), 0);
  EXPECT_FALSE(version->retired);
  catalogue_.Unbind(*second);
  EXPECT_TRUE(version->retired);
  catalogue_.Unbind(*second);
  EXPECT_EQ(catalogue_.retirements(), 1);
  ASSERT_EQ(catalogue_.retired().size(), 1U);
  EXPECT_EQ(catalogue_.retired()[0], std::make_pair(&program_, version));
}

TEST_F(CatalogueTest, RetiredVersionIsFoundByNoBindingAgain) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* binding, Bind(program_, 0x1000, 0x2000));
  const StaticVersion* const version = binding->version();
  catalogue_.Unbind(*binding);
  EXPECT_EQ(*Bind(program_, 0x1000, 0x2000), binding);
  EXPECT_NE(binding->version(), nullptr);
  EXPECT_NE(binding->version(), version);
}

TEST_F(CatalogueTest, RetiredVersionsAreTakenAndGivenBack) {
  catalogue_.Unbind(**Bind(program_, 0x1000, 0x2000));
  std::list<Catalogue::Retired> taken = catalogue_.TakeRetired();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken.front().program, &program_);
  EXPECT_TRUE(catalogue_.retired().empty());
  catalogue_.ReturnRetired(taken);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(catalogue_.retired().size(), 1U);
  EXPECT_EQ(catalogue_.retirements(), 2) << "whoever has looked looks again";
}

TEST_F(CatalogueTest, EndedBindingIsKeptUntilEnoughOthersHaveEnded) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* first, Bind(program_, 0x1000, 0x2000));
  catalogue_.Unbind(*first);
  const auto end_another = [&](size_t i) {
    catalogue_.Unbind(**Bind(program_, 0x10000 + 0x100 * i, 0x2000));
  };
  for (size_t i = 0; i + 1 < kEndedBindingsMax; ++i)
    end_another(i);
  EXPECT_EQ(*Bind(program_, 0x1000, 0x2000), first);
  // What was bound again is no ended one, however many end after its first end.
  for (size_t i = 0; i <= kEndedBindingsMax; ++i)
    end_another(i);
  EXPECT_EQ(*Bind(program_, 0x1000, 0x2000), first);
  EXPECT_NE(first->version(), nullptr);
}

TEST_F(CatalogueTest, DemotedInputIsCopiedFromThenOnAndTheLogHearsOfIt) {
  const Binding& binding = **Bind(program_, 0x1000, 0x2000);
  const size_t first[] = {0};
  EXPECT_EQ(catalogue_.Demote(program_, first), 1);
  EXPECT_EQ(lines_.size(), 1U);
  EXPECT_EQ(binding.version()->copied, std::vector<int>{0});
  EXPECT_EQ(binding.version()->addresses, (std::vector<DeviceAddress>{0, 0x2000}));
  EXPECT_EQ(catalogue_.Demote(program_, first), 0);
}

TEST_F(CatalogueTest, ForgottenProgramIsAsItWasRegisteredButForItsBindings) {
  const Binding& binding = **Bind(program_, 0x1000, 0x2000);
  const size_t first[] = {0};
  EXPECT_EQ(catalogue_.Demote(program_, first), 1);
  EXPECT_TRUE(program_.IsNews(Reason::kNewBucket));
  EXPECT_TRUE(program_.IsFirstEmpty());
  ASSERT_OK(catalogue_.Forget(program_));
  EXPECT_TRUE(binding.version()->copied.empty());
  EXPECT_EQ(binding.version()->addresses, (std::vector<DeviceAddress>{0x1000, 0x2000}));
  EXPECT_EQ(catalogue_.Demote(program_, first), 1);
  EXPECT_TRUE(program_.IsNews(Reason::kNewBucket));
  EXPECT_TRUE(program_.IsFirstEmpty());
  EXPECT_FALSE(program_.IsFirstEmpty());
}

TEST_F(CatalogueTest, UnregisteredProgramGivesItsNameBackAndItsBindingsEnd) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* other,
                               catalogue_.Register(BoundSpec("other"), NoCallable()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* first, Bind(program_, 0x1000, 0x2000));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* second, Bind(program_, 0x1000, 0x3000));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Binding* others, Bind(*other, 0x1000, 0x2000));
  ASSERT_OK(catalogue_.Unregister(program_));
  EXPECT_EQ(program_.registered_with(), nullptr);
  EXPECT_EQ(first->version(), nullptr);
  EXPECT_EQ(second->version(), nullptr);
  EXPECT_NE(others->version(), nullptr);
  EXPECT_EQ(catalogue_.retired().size(), 2U);
  EXPECT_EQ(catalogue_.Find("bound", ""), nullptr);
  EXPECT_THAT(Bind(program_, 0x1000, 0x2000), StatusIs(kRefused));
  EXPECT_THAT(catalogue_.Unregister(program_), StatusIs(kRefused));
  EXPECT_THAT(catalogue_.Forget(program_), StatusIs(kRefused));
  catalogue_.Unbind(*first);
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* again,
                               catalogue_.Register(BoundSpec(), NoCallable()));
  EXPECT_EQ(catalogue_.Find("bound", ""), again);
  EXPECT_EQ(again->place.number, 2) << "numbers are not used again";
}

TEST_F(CatalogueTest, ProgramOfAnotherCatalogueIsNeitherForgottenNorUnregistered) {
  Catalogue another{scene_.device.driver(), options_, scene_.windows, nullptr};
  EXPECT_THAT(another.Unregister(program_), StatusIs(kWrongArgument));
  EXPECT_THAT(another.Forget(program_), StatusIs(kWrongArgument));
  EXPECT_EQ(program_.registered_with(), &catalogue_);
}

TEST_F(CatalogueTest, CallableGoesWhenItIsDropped) {
  const auto owned = std::make_shared<int>(0);
  const Program& program =
      **catalogue_.Register(RowsSpec(), [owned](CallContext&) { return absl::OkStatus(); });
  ASSERT_OK(catalogue_.Unregister(program));
  EXPECT_EQ(owned.use_count(), 2);
  Catalogue::DropCallable(program);
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(CatalogueTest, ProgramsThatNameNoGeneratorShareTheCatalogues) {
  ProgramSpec spec = BoundSpec("shared");
  EXPECT_EQ((*catalogue_.Register(spec, NoCallable()))->spec.generator, &catalogue_.generator());
  spec.name = "own";
  Generator own;
  spec.generator = &own;
  EXPECT_EQ((*catalogue_.Register(spec, NoCallable()))->spec.generator, &own);
}

TEST(StickyErrorTest, KeepsTheFirstStickyErrorAndPassesOnAll) {
  TestDevice device{DriverLedger::Options()};
  const auto fail = [&device](CuResult result) {
    device.ledger().Inject(
        {.entry = DriverLedger::IndexOf(&DriverTable::StreamSynchronize), .result = result});
    return device.Synchronize();
  };
  StickyError sticky;
  EXPECT_OK(sticky.Note(absl::OkStatus()));
  EXPECT_THAT(sticky.Note(absl::InternalError("")), StatusIs(absl::StatusCode::kInternal));
  EXPECT_EQ(CuResultOf(sticky.Note(fail(CuResult::kInvalidValue))), CuResult::kInvalidValue);
  EXPECT_FALSE(sticky.present());
  EXPECT_OK(sticky.Get());
  EXPECT_EQ(CuResultOf(sticky.Note(fail(CuResult::kLaunchFailed))), CuResult::kLaunchFailed);
  EXPECT_EQ(CuResultOf(sticky.Note(fail(CuResult::kIllegalAddress))), CuResult::kIllegalAddress);
  EXPECT_TRUE(sticky.present());
  EXPECT_EQ(CuResultOf(sticky.Get()), CuResult::kLaunchFailed);
}

}  // namespace
}  // namespace coppice::internal
