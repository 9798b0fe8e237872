#include "kernels/safetensors.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

namespace {

using namespace weir;
using namespace weir::kernels;

const std::vector<float> six{1.0F, -2.0F, 3.5F, 0.0F, 1e-30F, 6.0F};
const std::vector<float> two{7.0F, 8.0F};

std::vector<std::byte> written(std::span<const tensor_source> tensors,
                               const tensor_metadata& metadata = {}) {
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> piece) -> result<void> {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  };
  REQUIRE(write_safetensors(tensors, metadata, append).has_value());
  REQUIRE(bytes.size() == safetensors_size(tensors, metadata));
  return bytes;
}

/// A file with this header and `data_bytes` of zeros.
std::vector<std::byte> made(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

error refused(const std::string& header, std::size_t data_bytes) {
  const auto content = read_safetensors(made(header, data_bytes));
  REQUIRE_FALSE(content.has_value());
  return content.error();
}

struct header_entry {
  const char* name;
  const char* shape;
  const char* offsets;
};

/// A header of float tensors, right or wrong.
std::string header(const std::vector<header_entry>& entries) {
  std::string text = "{";
  for (const header_entry& entry : entries) {
    text.append(text.size() > 1 ? "," : "").append("\"").append(entry.name);
    text.append("\":{\"dtype\":\"F32\",\"shape\":").append(entry.shape);
    text.append(",\"data_offsets\":").append(entry.offsets).append("}");
  }
  return text.append("}");
}

const std::vector<tensor_source> example{{"a.weight", {2, 3}, six}, {"b", {2}, two}};

TEST_SUITE("kernels/safetensors") {
  TEST_CASE("tensors and metadata come back as they were written") {
    const auto bytes = written(example, {{"format", "pt"}, {"note", "a \"quoted\" line\n"}});
    const auto content = read_safetensors(bytes).value();
    REQUIRE(content.tensors.size() == 2);
    CHECK(content.tensors[0].name == "a.weight");
    CHECK(content.tensors[0].shape == std::vector<std::uint64_t>{2, 3});
    std::vector<float> values(6);
    content.tensors[0].copy_to(values);
    CHECK(values == six);
    CHECK(content.metadata == tensor_metadata{{"format", "pt"}, {"note", "a \"quoted\" line\n"}});
    CHECK(static_cast<std::size_t>(content.tensors[0].data.data() - bytes.data()) % 512 == 0);
  }

  TEST_CASE("tensors that are adjacent in memory are one piece of the file") {
    const std::span<const float> flat(six);
    const std::vector<tensor_source> tensors{{"a", {2}, flat.first(2)},
                                             {"b", {3}, flat.subspan(2, 3)},
                                             {"other", {2}, two},
                                             {"c", {1}, flat.subspan(5)}};
    std::vector<std::size_t> pieces;
    const auto count = [&](std::span<const std::byte> piece) -> result<void> {
      pieces.push_back(piece.size());
      return {};
    };
    REQUIRE(write_safetensors(tensors, {}, count).has_value());
    CHECK(pieces == std::vector<std::size_t>{512, 20, 8, 4});
    CHECK(read_safetensors(written(tensors)).value().tensors.size() == 4);
  }

  TEST_CASE("scalars, empty tensors and empty files are possible") {
    const std::vector<float> one{5.0F};
    const std::vector<tensor_source> odd{{"scalar", {}, one}, {"nothing", {0, 3}, {}}};
    CHECK(read_safetensors(written(odd)).value().tensors.size() == 2);
    CHECK(read_safetensors(written({})).value().tensors.empty());
  }

  TEST_CASE("half precision becomes float exactly") {
    // 1, -2, the smallest subnormal, the largest number, infinity.
    const std::vector<std::uint16_t> half{0x3C00, 0xC000, 0x0001, 0x7BFF, 0x7C00};
    const std::vector<std::uint16_t> brain{0x3F80, 0xC000, 0x0001, 0x7F7F, 0x7F80};
    auto bytes = made(R"({"h":{"dtype":"F16","shape":[5],"data_offsets":[0,10]},)"
                      R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[10,20]}})",
                      20);
    std::memcpy(bytes.data() + bytes.size() - 20, half.data(), 10);
    std::memcpy(bytes.data() + bytes.size() - 10, brain.data(), 10);
    const auto content = read_safetensors(bytes).value();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> values(5);
    content.tensors[0].copy_to(values);
    CHECK(values == std::vector<float>{1.0F, -2.0F, 0x1.0p-24F, 65504.0F, infinity});
    content.tensors[1].copy_to(values);
    CHECK(values == std::vector<float>{1.0F, -2.0F, 0x1.0p-133F, 0x1.fep127F, infinity});
  }

  TEST_CASE("a tensor that lies wrong is refused by name") {
    CHECK(refused(header({{"t", "[2]", "[0,8]"}}), 4).text ==
          "tensor \"t\": its data lies at 0 to 8 of 4 bytes");
    CHECK(refused(header({{"t", "[2]", "[8,0]"}}), 8).text ==
          "tensor \"t\": its data lies at 8 to 0 of 8 bytes");
    CHECK(refused(header({{"t", "[3]", "[0,8]"}}), 8).text ==
          "tensor \"t\": its shape does not make the 8 bytes of its data");
    CHECK(refused(header({{"t", "[4294967296,4294967296]", "[0,0]"}}), 0).text ==
          "tensor \"t\": its shape does not make the 0 bytes of its data");
    CHECK(refused(header({{"a", "[-1]", "[0,4]"}}), 4).text ==
          "tensor \"a\": its shape is no array of sizes");
    CHECK(refused(header({{"a", "[1]", "[0]"}}), 4).text ==
          "tensor \"a\": its data_offsets are no pair of offsets");
  }

  TEST_CASE("tensors must lie side by side, each byte in one of them") {
    CHECK(refused(header({{"a", "[2]", "[0,8]"}, {"b", "[2]", "[4,12]"}}), 12).text ==
          "tensor \"b\": its data overlaps another tensor's");
    CHECK(refused(header({{"a", "[1]", "[0,4]"}, {"b", "[1]", "[8,12]"}}), 12).text ==
          "tensor \"b\": unused bytes lie before its data");
    CHECK(refused(header({{"a", "[1]", "[0,4]"}}), 5).text ==
          "unused bytes lie after the last tensor");
    CHECK(refused(header({{"a", "[1]", "[0,4]"}, {"a", "[1]", "[4,8]"}}), 8).code == errc::corrupt);
  }

  TEST_CASE("another element type is unsupported, not corrupt") {
    const error why = refused(R"({"t":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", 8);
    CHECK(why.code == errc::unsupported);
    CHECK(why.text == "tensor \"t\": its dtype is \"I64\", only F32, F16 and BF16 are read");
  }

  TEST_CASE("a header that claims too much is refused before it is read") {
    auto bytes = written(example);
    const std::uint64_t huge = ~std::uint64_t{0};
    std::memcpy(bytes.data(), &huge, 8);
    CHECK(read_safetensors(bytes).error().code == errc::corrupt);
    const std::uint64_t beyond = bytes.size() - 7;
    std::memcpy(bytes.data(), &beyond, 8);
    CHECK(read_safetensors(bytes).error().code == errc::corrupt);
  }

  TEST_CASE("every prefix of a file is refused") {
    const auto bytes = written(example, {{"format", "pt"}});
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(read_safetensors(std::span(bytes).first(size)).has_value());
  }

  TEST_CASE("no flipped bit of a file crashes the reader or makes it read outside") {
    const auto bytes = written(example, {{"format", "pt"}});
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto content = read_safetensors(flipped);
      if (!content) continue;
      for (const tensor_view& tensor : content->tensors) {
        std::vector<float> values(tensor.count());
        tensor.copy_to(values);
      }
    }
  }

  TEST_CASE("an error of the sink ends the writing") {
    int pieces = 0;
    const auto full = [&](std::span<const std::byte>) -> result<void> {
      if (++pieces == 2) return failure(errc::no_space, "the disk is full");
      return {};
    };
    CHECK(write_safetensors(example, {}, full).error().code == errc::no_space);
    CHECK(pieces == 2);
  }
}

} // namespace
