// Goal: cuTensorMapEncodeTiled takes what CUDA documents, and nothing else.
// Method: one map that is right, on every driver with such maps, and one change per limit.

#include "tests/conformance/conformance_fixture.h"

namespace coppice {
namespace {

class TensorMapConformanceTest : public ConformanceTest {
 protected:
  // A tensor of 4 x 6 x 32 floats in boxes of 2 x 3 x 8.
  struct Request {
    CuTensorMap* map = nullptr;
    CuTensorMapDataType type = CuTensorMapDataType::kFloat32;
    unsigned rank = 3;
    DeviceAddress address = 0;
    std::array<uint64_t, 5> dims = {32, 6, 4};
    std::array<uint64_t, 5> strides = {128, 768};
    std::array<unsigned, 5> box = {8, 3, 2};
    std::array<unsigned, 5> element_strides = {1, 1, 1};
    CuTensorMapInterleave interleave = CuTensorMapInterleave::kNone;
    CuTensorMapSwizzle swizzle = CuTensorMapSwizzle::kNone;
    CuTensorMapL2Promotion promotion = CuTensorMapL2Promotion::kNone;
    CuTensorMapFloatOobFill fill = CuTensorMapFloatOobFill::kNone;
  };

  void SetUp() override {
    ConformanceTest::SetUp();
    if (context == nullptr) return;
    int major = 0;
    ASSERT_CU(kSuccess,
              cu.DeviceGetAttribute(&major, CuDeviceAttribute::kComputeCapabilityMajor, 0));
    if (major < 9) GTEST_SKIP() << "the device has no tensor maps";
    request_.map = &map_;
    request_.address = NewWords(kWords);
  }

  CuResult Encode(const Request& request) {
    return cu.TensorMapEncodeTiled(
        request.map, request.type, request.rank,
        reinterpret_cast<void*>(request.address),  // NOLINT(performance-no-int-to-ptr)
        request.dims.data(), request.strides.data(), request.box.data(),
        request.element_strides.data(), request.interleave, request.swizzle, request.promotion,
        request.fill);
  }
  // Of the map that is right, but for `change`.
  CuResult EncodeWith(const std::function<void(Request&)>& change) {
    Request request = request_;
    change(request);
    return Encode(request);
  }

  static constexpr int64_t kWords = 512;

  CuTensorMap map_;
  Request request_;
};

COPPICE_CONFORMANCE_SUITE(TensorMapConformanceTest);

TEST_P(TensorMapConformanceTest, MapsAreMade) {
  EXPECT_CU(kSuccess, Encode(request_));
  EXPECT_CU(kSuccess, EncodeWith([](Request& r) { r.rank = 1; }));
  EXPECT_CU(kSuccess, EncodeWith([](Request& r) {
              r.rank = 5;
              r.dims = {32, 3, 2, 2, 2};
              r.strides = {128, 384, 768, 1536};
              r.box = {8, 1, 1, 1, 1};
              r.element_strides = {1, 1, 1, 1, 1};
            }));
}

TEST_P(TensorMapConformanceTest, MapsOfDifferentTensorsDiffer) {
  EXPECT_CU(kSuccess, Encode(request_));
  CuTensorMap other;
  const auto differs = [&](const std::function<void(Request&)>& change) {
    EXPECT_CU(kSuccess, EncodeWith([&](Request& r) {
                r.map = &other;
                change(r);
              }));
    return std::memcmp(&map_, &other, sizeof(map_)) != 0;
  };
  EXPECT_TRUE(differs([](Request& r) { r.address += 16; }));
  EXPECT_TRUE(differs([](Request& r) { r.dims[1] = 5; }));
  EXPECT_TRUE(differs([](Request& r) { r.strides[1] = 1024; }));
  EXPECT_TRUE(differs([](Request& r) { r.box[0] = 16; }));
  EXPECT_TRUE(differs([](Request& r) { r.type = CuTensorMapDataType::kInt32; }));
}

TEST_P(TensorMapConformanceTest, MapsAreEncodedDuringACapture) {
  ASSERT_CU(kSuccess, cu.StreamBeginCapture(a, CuCaptureMode::kGlobal));
  EXPECT_CU(kSuccess, Encode(request_));
  CuGraph graph = nullptr;
  EXPECT_CU(kSuccess, cu.StreamEndCapture(a, &graph));
  EXPECT_CU(kSuccess, cu.GraphDestroy(graph));
}

TEST_P(TensorMapConformanceTest, AMapIsSomewhereAndAligned) {
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.map = nullptr; }));
  std::array<CuTensorMap, 2> maps;
  EXPECT_CU(kInvalidValue, EncodeWith([&](Request& r) {
              r.map = reinterpret_cast<CuTensorMap*>(reinterpret_cast<char*>(maps.data()) + 16);
            }));
}

TEST_P(TensorMapConformanceTest, ATensorHasOneToFiveDimensions) {
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.rank = 0; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.rank = 6; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.dims[1] = 0; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.dims[1] = (uint64_t{1} << 32) + 1; }));
}

TEST_P(TensorMapConformanceTest, ATensorAndItsStridesAreAligned) {
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.address += 8; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.strides[0] = 136; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.strides[1] = uint64_t{1} << 40; }));
}

TEST_P(TensorMapConformanceTest, ABoxIsOfLimitedSize) {
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.box[1] = 0; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.box[1] = 257; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.box[0] = 6; })) << "24 bytes a row";
}

TEST_P(TensorMapConformanceTest, ElementStridesAreOneToEight) {
  EXPECT_CU(kSuccess, EncodeWith([](Request& r) { r.element_strides[1] = 8; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.element_strides[1] = 0; }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) { r.element_strides[1] = 9; }));
}

TEST_P(TensorMapConformanceTest, ASwizzleHoldsARow) {
  const auto swizzled = [&](CuTensorMapSwizzle swizzle, unsigned row) {
    return EncodeWith([&](Request& r) {
      r.swizzle = swizzle;
      r.box[0] = row;
    });
  };
  EXPECT_CU(kSuccess, swizzled(CuTensorMapSwizzle::k32Bytes, 8));
  EXPECT_CU(kInvalidValue, swizzled(CuTensorMapSwizzle::k32Bytes, 12));
  EXPECT_CU(kSuccess, swizzled(CuTensorMapSwizzle::k64Bytes, 16));
  EXPECT_CU(kInvalidValue, swizzled(CuTensorMapSwizzle::k64Bytes, 20));
  EXPECT_CU(kSuccess, swizzled(CuTensorMapSwizzle::k128Bytes, 32));
  EXPECT_CU(kInvalidValue, swizzled(CuTensorMapSwizzle::k128Bytes, 36));
}

TEST_P(TensorMapConformanceTest, InterleavedTensorsHaveThreeDimensions) {
  const auto interleaved = [&](const std::function<void(Request&)>& change) {
    return EncodeWith([&](Request& r) {
      r.interleave = CuTensorMapInterleave::k32Bytes;
      r.swizzle = CuTensorMapSwizzle::k32Bytes;
      change(r);
    });
  };
  EXPECT_CU(kSuccess, interleaved([](Request&) {}));
  EXPECT_CU(kInvalidValue, interleaved([](Request& r) { r.rank = 2; }));
  EXPECT_CU(kInvalidValue, interleaved([](Request& r) { r.address += 16; }));
  EXPECT_CU(kInvalidValue, interleaved([](Request& r) { r.strides[0] = 144; }));
  EXPECT_CU(kInvalidValue,
            interleaved([](Request& r) { r.swizzle = CuTensorMapSwizzle::k64Bytes; }));
}

TEST_P(TensorMapConformanceTest, ModesAreThoseThatThereAre) {
  EXPECT_CU(kSuccess, EncodeWith([](Request& r) {
              r.promotion = CuTensorMapL2Promotion::k256Bytes;
              r.fill = CuTensorMapFloatOobFill::kNanRequestZeroFma;
            }));
  EXPECT_CU(kInvalidValue, EncodeWith([](Request& r) {
              r.type = CuTensorMapDataType::kInt32;
              r.fill = CuTensorMapFloatOobFill::kNanRequestZeroFma;
            }))
      << "integers have no NaN";
  EXPECT_CU(kInvalidValue,
            EncodeWith([](Request& r) { r.type = static_cast<CuTensorMapDataType>(99); }));
  EXPECT_CU(kInvalidValue,
            EncodeWith([](Request& r) { r.promotion = static_cast<CuTensorMapL2Promotion>(4); }));
}

}  // namespace
}  // namespace coppice
