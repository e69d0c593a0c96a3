// Goal: options and specs are read back as they were written, whatever a field is, no two have one
// text, and what is no such document is an error that says where.
// Method: each field of each struct is changed by itself, as tools/describe lists them.

#include "coppice/graphs/session_documents.h"

#include "graphs/described/spec_fields.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

// Another value of the field's type than it has.
void Change(bool& value) {
  value = !value;
}
void Change(std::integral auto& value) {
  value = value == 0 ? 1 : 0;
}
void Change(double& value) {
  value = value == 0 ? 0.1 : std::numeric_limits<double>::infinity();
}
void Change(std::string& value) {
  value += "\"\\\n é";
}
void Change(Dim& dim) {
  dim = dim.is_fixed() ? Dim::Symbol(3) : Dim::Fixed(dim.index);
}
template <typename Enum>
requires std::is_enum_v<Enum>
void Change(Enum& value) {
  value = static_cast<Enum>(static_cast<int>(value) == 0 ? 1 : 0);
}
template <typename Value>
void Change(std::optional<Value>& value) {
  value.has_value() ? value.reset() : static_cast<void>(value.emplace());
}
template <typename List>
requires requires(List list) {
  list.pop_back();
} &&(!std::same_as<List, std::string>)void Change(List& list) {
  if (list.empty()) {
    if constexpr (std::same_as<typename List::value_type, SymbolSpec>) {
      list.push_back({.name = "n", .policy = *PaddingPolicy::Exact(1)});
    } else {
      list.push_back({});
    }
  } else if constexpr (std::same_as<typename List::value_type, Dim>) {
    Change(list.back());
  } else {
    list.pop_back();
  }
}
template <typename Struct>
requires requires(Struct value) {
  internal::VisitFields(value, [](const char*, auto&) {});
}
void Change(Struct& value) {
  bool first = true;
  internal::VisitFields(value, [&](const char*, auto& field) {
    if (std::exchange(first, false)) Change(field);
  });
}

// A spec with one of everything.
ProgramSpec FullSpec() {
  ProgramSpec spec{.name = "f", .claim = PaddingContents::kFinite};
  spec.symbols.push_back(
      {.name = "n", .policy = *PaddingPolicy::Exact(8), .claim = PaddingClaim{}});
  spec.ragged = {{.count = 0, .total = 0, .length = 0, .lengths = 0, .by = RaggedBy::kOffsets}};
  spec.inputs = {{.name = "x",
                  .dims = {Dim::Fixed(3), Dim::Symbol(0), Dim::Extent(2), Dim::Ragged(1)},
                  .strides = {Dim::Fixed(1)}}};
  spec.outputs = {{.name = "y", .dtype = DType::kBool, .dims = {}}};
  spec.scalars = {{.name = "s", .device_resident = true}};
  spec.guards = {"n > 1"};
  spec.extents = {"n + 1", "2*n"};
  return spec;
}

class SessionDocumentsTest : public testing::Test {
 protected:
  // Changes each field of `part`, which lies in `whole`, by itself.
  template <typename Whole, typename Part, typename Write, typename Read>
  static void ChangeEach(Whole& whole, Part& part, const Write& write, const Read& read) {
    std::set<std::string> texts = {write(whole)};
    int count = 0;
    internal::VisitFields(part, [&](const char*, auto&) { ++count; });
    for (int changed = 0; changed < count; ++changed) {
      const Part before = part;
      int at = 0;
      std::string name;
      internal::VisitFields(part, [&](const char* field_name, auto& field) {
        if (at++ != changed) return;
        name = field_name;
        Change(field);
      });
      const std::string text = write(whole);
      EXPECT_TRUE(texts.insert(text).second) << name << " is not in " << text;
      const auto again = read(text, "the test");
      EXPECT_OK(again) << name;
      if (again.ok()) {
        EXPECT_EQ(write(*again), text) << name;
      }
      part = before;
    }
  }
};

TEST_F(SessionDocumentsTest, EachFieldOfASpecIsReadBackAndTellsSpecsApart) {
  ProgramSpec spec = FullSpec();
  const auto change = [&](auto& part) {
    ChangeEach(spec, part, WriteSpecDocument, ReadSpecDocument);
  };
  change(spec);
  change(spec.symbols[0]);
  change(*spec.symbols[0].claim);
  change(spec.symbols[0].claim->equal);
  change(spec.ragged[0]);
  change(spec.inputs[0]);
  change(spec.inputs[0].fill);
  change(spec.outputs[0]);
  change(spec.outputs[0].count);
  change(spec.scalars[0]);
}

TEST_F(SessionDocumentsTest, EachOptionIsReadBackAndTellsOptionsApart) {
  SessionOptions options;
  ChangeEach(options, options, WriteOptionsDocument, ReadOptionsDocument);
}

TEST_F(SessionDocumentsTest, DimsAreReadBackAsWhatTheyName) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const ProgramSpec read,
                               ReadSpecDocument(WriteSpecDocument(FullSpec()), "the test"));
  EXPECT_EQ(read.inputs[0].dims, FullSpec().inputs[0].dims);
  EXPECT_EQ(read.inputs[0].strides, FullSpec().inputs[0].strides);
}

TEST_F(SessionDocumentsTest, EveryWordIsReadBack) {
  for (int kind = 0; kind < kFillKindCount; ++kind) {
    ProgramSpec spec = FullSpec();
    spec.inputs[0].fill.kind = static_cast<FillKind>(kind);
    COPPICE_ASSERT_OK_AND_ASSIGN(const ProgramSpec read,
                                 ReadSpecDocument(WriteSpecDocument(spec), "the test"));
    EXPECT_EQ(read.inputs[0].fill.kind, spec.inputs[0].fill.kind);
  }
}

TEST_F(SessionDocumentsTest, WhatIsNoSuchDocumentIsAnErrorWithItsPlace) {
  const std::string good = WriteSpecDocument(FullSpec());
  const auto with = [&](const std::string& old, const std::string& other) {
    std::string text = good;
    const size_t at = text.find(old);
    EXPECT_NE(at, text.npos) << old;
    return at == text.npos ? text : text.replace(at, old.size(), other);
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "the test"},
      {"[]", "the test"},
      {"{}", "no field \"claim\""},
      {with("\"claim\":\"finite\"", "\"claim\":\"some\""), "/claim: \"some\" is not a word"},
      {with("\"claim\":\"finite\"", "\"claim\":1"), "/claim"},
      {with("{\"symbol\":0}", "{\"symbol\":8}"), "/inputs/0/dims/1/symbol"},
      {with("{\"symbol\":0}", "{\"axis\":0}"), "is not a dim"},
      {with("{\"symbol\":0}", "{}"), "/inputs/0/dims/1"},
      {with("\"alignment\":16", "\"alignment\":\"16\""), "/inputs/0/alignment"},
      {with("\"alignment\":16,", ""), "no field \"alignment\""},
      {with("\"scalar\":-1", "\"scalar\":4294967296"), "/symbols/0/scalar"},
      {with("\"value\":\"0\"", "\"value\":\"zero\""), "/inputs/0/fill/value"},
      {with("\"guards\":[", "\"guards\":[1,"), "/guards/0"},
  };
  for (const auto& [text, part] : cases) {
    const absl::StatusOr<ProgramSpec> read = ReadSpecDocument(text, "the test");
    EXPECT_THAT(read, StatusIs(kWrongArgument)) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(part)) << text;
  }
  EXPECT_THAT(ReadOptionsDocument("{}", "the test"), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
