// Goal: the report of a run says which variants of kernels its buckets launch, and why.
// Method: reports that are written down here, as text and as JSON read back.

#include "tools/package/package_run_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace coppice {
namespace {

using testing::HasSubstr;
using testing::Not;

PackageRunReport ReportOf(std::vector<KernelVariant> variants) {
  PackageRunReport report;
  report.path = "p.zip";
  report.program = "main";
  report.symbols = {"batch", "length"};
  report.variants = std::move(variants);
  return report;
}

KernelVariant Timed() {
  return {.program = "main",
          .bucket = {8, 128},
          .kernel = "gemm",
          .variant = "wide",
          .times_us = {{"narrow", 12.25}, {"wide", 7.5}}};
}

TEST(PackageRunReportTest, VariantsAreListedWithTheirTimes) {
  const std::string text = FormatReport(ReportOf({Timed()}));
  EXPECT_THAT(text, HasSubstr("kernel  bucket              variant  us"));
  EXPECT_THAT(text, HasSubstr("gemm    batch=8 length=128  wide     narrow 12.2, wide 7.5"));
}

TEST(PackageRunReportTest, ThoseThatNobodyTimedSaySo) {
  KernelVariant first = Timed();
  first.times_us.clear();
  EXPECT_THAT(FormatReport(ReportOf({first})), HasSubstr("wide     not timed"));
}

TEST(PackageRunReportTest, WithoutVariantsThereIsNoTable) {
  EXPECT_THAT(FormatReport(ReportOf({})), Not(HasSubstr("variant")));
}

TEST(PackageRunReportTest, JsonHasEveryTime) {
  const auto json = nlohmann::json::parse(FormatReportJson(ReportOf({Timed()})));
  ASSERT_EQ(json["variants"].size(), 1U);
  const nlohmann::json& told = json["variants"][0];
  EXPECT_EQ(told["kernel"], "gemm");
  EXPECT_EQ(told["bucket"], nlohmann::json({{"batch", 8}, {"length", 128}}));
  EXPECT_EQ(told["variant"], "wide");
  EXPECT_EQ(told["times_us"], nlohmann::json({{"narrow", 12.25}, {"wide", 7.5}}));
  EXPECT_TRUE(nlohmann::json::parse(FormatReportJson(ReportOf({})))["variants"].empty());
}

}  // namespace
}  // namespace coppice
