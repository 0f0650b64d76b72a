#include "ledger/pack.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "classifier/inflate.h"

namespace ledger {
namespace {

constexpr int kFast = 3;  // Answers are text: higher levels cost several times as much for a few per cent.
constexpr std::size_t kMost = std::size_t{256} << 20U;

void put(std::string& out, std::size_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>((number >> shift) & 0xffU);
}

void put(std::string& out, std::string_view text) {
  put(out, text.size());
  out += text;
}

/// Takes one piece after the other from the front; nothing: there is not so much.
class Taker {
 public:
  explicit Taker(std::string_view bytes) : rest_(bytes) {}
  std::optional<std::uint32_t> number() {
    if (rest_.size() < 4) return std::nullopt;
    std::uint32_t value = 0;
    for (unsigned i = 0; i < 4; ++i) {
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(rest_[i])) << (8U * i);
    }
    rest_.remove_prefix(4);
    return value;
  }
  std::optional<std::string_view> text() {
    const std::optional<std::uint32_t> size = number();
    if (!size || rest_.size() < *size) return std::nullopt;
    const std::string_view taken = rest_.substr(0, *size);
    rest_.remove_prefix(*size);
    return taken;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace

std::string pack(const StoredAnswer& answer) {
  std::string head;
  put(head, answer.headers.size());
  for (const classifier::Header& header : answer.headers) {
    put(head, std::string_view{header.name});
    put(head, std::string_view{header.value});
  }

  z_stream stream{};
  if (deflateInit(&stream, kFast) != Z_OK) throw std::bad_alloc{};
  std::string out(deflateBound(&stream, static_cast<uLong>(head.size() + answer.body.size())) + 16, '\0');
  const auto feed = [&](std::string_view bytes, int flush) {
    // zlib does not write to what it reads, but its old interface does not say so.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
    stream.avail_in = static_cast<uInt>(bytes.size());
    return deflate(&stream, flush);
  };
  stream.next_out = reinterpret_cast<Bytef*>(out.data());  // NOLINT
  stream.avail_out = static_cast<uInt>(out.size());
  feed(head, Z_NO_FLUSH);
  const int code = feed(answer.body, Z_FINISH);
  const std::size_t size = out.size() - stream.avail_out;
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate ended with " + std::to_string(code));
  out.resize(size);
  out.shrink_to_fit();
  return out;
}

std::expected<StoredAnswer, std::string> unpack(std::string_view bytes) {
  const std::optional<classifier::Inflated> inflated = classifier::inflate(bytes, kMost);
  if (!inflated || !inflated->whole) return std::unexpected("its bytes are no whole deflated answer");
  Taker taker(inflated->text);
  StoredAnswer answer;
  const std::optional<std::uint32_t> fields = taker.number();
  for (std::uint32_t i = 0; fields && i < *fields; ++i) {
    const std::optional<std::string_view> name = taker.text();
    const std::optional<std::string_view> value = taker.text();
    if (!name || !value) return std::unexpected("its head is cut");
    answer.headers.push_back({std::string{*name}, std::string{*value}});
  }
  if (!fields) return std::unexpected("its head is cut");
  answer.body = taker.rest();
  return answer;
}

}  // namespace ledger
