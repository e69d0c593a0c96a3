// The table of all forms, and which form an opcode is.

#include "runtime/emulator/ptx/form_table.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/lane_access.h"

namespace coppice::ptx {
namespace {

using Family = std::span<const Form> (*)();

#define COPPICE_PTX_NAMES(target)                                                              \
  {                                                                                            \
    target::ApproximateForms, target::BitFieldForms, target::CarryForms, target::CompareForms, \
        target::ConvertForms, target::FloatForms, target::HalfForms, target::IntegerForms,     \
        target::LogicForms, target::MoveForms, target::MultiplyForms, target::NarrowForms,     \
        target::RoundForms, target::SelectForms, target::SetForms, target::SignForms,          \
        target::WarpgroupForms                                                                 \
  }
constexpr Family kBaseline[] = COPPICE_PTX_NAMES(baseline);
constexpr Family kAvx2[] = COPPICE_PTX_NAMES(avx2);
#undef COPPICE_PTX_NAMES
constexpr Family kExecuting[] = {
    AsyncForms, AtomicForms, BarrierForms, ControlForms, MatrixForms, MemoryForms, WarpForms,
};

std::vector<Family> Families() {
  const std::span<const Family> computing = HasAvx2() ? std::span(kAvx2) : std::span(kBaseline);
  std::vector<Family> families(computing.begin(), computing.end());
  families.insert(families.end(), std::begin(kExecuting), std::end(kExecuting));
  return families;
}

std::vector<Form> Collect() {
  std::vector<Form> forms;
  for (const Family family : Families()) {
    const std::span<const Form> rows = family();
    forms.insert(forms.end(), rows.begin(), rows.end());
  }
  return forms;
}

// --- opcodes

// Modifiers that execute the same here, by what they are.
constexpr std::string_view kOrders[] = {"weak",    "relaxed",  "acquire", "release",
                                        "acq_rel", "volatile", "mmio",    "sc"};
constexpr std::string_view kScopes[] = {"cta", "cluster", "gpu", "sys"};
constexpr std::string_view kCacheOperators[] = {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc"};
constexpr std::string_view kCacheHints[] = {"L1::", "L2::"};  // With whatever follows.
constexpr std::string_view kUniform[] = {"uni"};

// What is dropped of an opcode, by its first word; nothing of others.
struct Rule {
  std::string_view opcode;
  std::vector<std::span<const std::string_view>> dropped;
};
const std::vector<Rule>& Rules() {
  static const std::vector<Rule> rules = {
      {"ld", {kOrders, kScopes, kCacheOperators, kCacheHints}},
      {"ldu", {kCacheHints}},
      {"st", {kOrders, kScopes, kCacheOperators, kCacheHints}},
      {"atom", {kOrders, kScopes, kCacheHints}},
      {"red", {kOrders, kScopes, kCacheHints}},
      {"cp", {kCacheHints}},
      {"tensormap", {kOrders, kScopes}},
      {"prefetch", {kCacheHints}},
      {"createpolicy", {kCacheHints}},
      {"mbarrier", {kOrders, kScopes}},
      {"fence", {kOrders, kScopes}},
      {"bra", {kUniform}},
      {"brx", {kUniform}},
      {"call", {kUniform}},
      {"ret", {kUniform}},
  };
  return rules;
}

// Names of one space.
struct Synonym {
  std::string_view written;
  std::string_view canonical;
};
constexpr Synonym kSynonyms[] = {{"shared::cta", "shared"},
                                 {"shared::cluster", "shared"},
                                 {"param::entry", "param"},
                                 {"param::func", "param"}};

bool Drops(const Rule& rule, std::string_view modifier) {
  return std::any_of(rule.dropped.begin(), rule.dropped.end(), [&](const auto& kind) {
    return std::any_of(kind.begin(), kind.end(), [&](std::string_view dropped) {
      return dropped.ends_with("::") ? modifier.starts_with(dropped) : modifier == dropped;
    });
  });
}

std::string_view CanonicalModifier(std::string_view modifier) {
  for (const Synonym& synonym : kSynonyms) {
    if (modifier == synonym.written) return synonym.canonical;
  }
  return modifier;
}

// The words between the dots.
std::vector<std::string_view> Split(std::string_view opcode) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin <= opcode.size();) {
    const size_t end = std::min(opcode.find('.', begin), opcode.size());
    words.push_back(opcode.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

bool HasAvx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

const LaneAccess& HostLaneAccess() {
  return HasAvx2() ? avx2::LaneAccessFunctions() : baseline::LaneAccessFunctions();
}

std::span<const Form> AllForms() {
  static const std::vector<Form> forms = Collect();
  return forms;
}

std::string CanonicalOpcode(std::string_view opcode) {
  std::vector<std::string_view> words = Split(opcode);
  const std::string_view base = words[0];
  const std::vector<Rule>& rules = Rules();
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const Rule& each) { return each.opcode == base; });
  if (rule != rules.end())
    std::erase_if(words, [&](std::string_view word) { return Drops(*rule, word); });
  // It alone tells blocks of a cluster apart.
  if (base != "isspacep")
    std::transform(words.begin(), words.end(), words.begin(), CanonicalModifier);
  // atom.add.shared.u32 names the space behind the operation.
  if (base == "atom" || base == "red")
    std::stable_partition(words.begin() + 1, words.end(), [](std::string_view word) {
      return word == "global" || word.starts_with("shared");
    });
  std::string canonical(words[0]);
  for (size_t i = 1; i < words.size(); ++i)
    canonical.append(".").append(words[i]);
  return canonical;
}

const Form* FindForm(std::string_view opcode) {
  static const auto* const forms = [] {
    auto* const by_name = new std::unordered_map<std::string_view, const Form*>;
    by_name->reserve(AllForms().size());
    for (const Form& form : AllForms())
      by_name->emplace(form.name, &form);
    return by_name;
  }();
  const auto found = forms->find(opcode);
  return found == forms->end() ? nullptr : found->second;
}

}  // namespace coppice::ptx
