#include "ledger/pack.h"

#include <zlib.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "classifier/inflate.h"

namespace ledger {
namespace {

constexpr int kFast = 3;  // Answers are text: higher levels cost several times as much for a few per cent.
/// To set deflate up takes longer than so little is worth. Such bytes stand as they are behind a flag with which no
/// deflated ones begin (RFC 1950: 0x78).
constexpr std::size_t kWorthIt = 1'024;
constexpr char kPlain = 'p';
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

void put(std::string& out, const classifier::Headers& headers) {
  put(out, headers.size());
  for (const classifier::Header& header : headers) {
    put(out, std::string_view{header.name});
    put(out, std::string_view{header.value});
  }
}

/// Nothing: they are cut.
std::optional<classifier::Headers> take_headers(Taker& taker) {
  classifier::Headers headers;
  const std::optional<std::uint32_t> fields = taker.number();
  if (!fields) return std::nullopt;
  for (std::uint32_t i = 0; i < *fields; ++i) {
    const std::optional<std::string_view> name = taker.text();
    const std::optional<std::string_view> value = taker.text();
    if (!name || !value) return std::nullopt;
    headers.push_back({std::string{*name}, std::string{*value}});
  }
  return headers;
}

std::string deflated(std::string_view head, std::string_view body) {
  z_stream stream{};
  if (deflateInit(&stream, kFast) != Z_OK) throw std::bad_alloc{};
  std::string out(deflateBound(&stream, static_cast<uLong>(head.size() + body.size())) + 16, '\0');
  const auto feed = [&](std::string_view bytes, int flush) {
    // zlib does not write to what it reads, but its old interface does not say so.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT
    stream.avail_in = static_cast<uInt>(bytes.size());
    return deflate(&stream, flush);
  };
  stream.next_out = reinterpret_cast<Bytef*>(out.data());  // NOLINT
  stream.avail_out = static_cast<uInt>(out.size());
  feed(head, Z_NO_FLUSH);
  const int code = feed(body, Z_FINISH);
  const std::size_t size = out.size() - stream.avail_out;
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate ended with " + std::to_string(code));
  out.resize(size);
  out.shrink_to_fit();
  return out;
}

std::string packed(std::string_view head, std::string_view body) {
  if (body.size() >= kWorthIt) return deflated(head, body);
  std::string out;
  out.reserve(1 + 4 + head.size() + body.size());
  out += kPlain;
  // The whole's length, so that a cut is told, which deflate would do by itself.
  put(out, head.size() + body.size());
  out += head;
  out += body;
  return out;
}

/// Nothing: it is not whole.
std::optional<std::string> unpacked(std::string_view bytes) {
  if (!bytes.empty() && bytes.front() == kPlain) {
    Taker taker(bytes.substr(1));
    const std::optional<std::string_view> text = taker.text();
    if (!text || !taker.rest().empty()) return std::nullopt;
    return std::string{*text};
  }
  std::optional<classifier::Inflated> inflated = classifier::inflate(bytes, kMost);
  if (!inflated || !inflated->whole) return std::nullopt;
  return std::move(inflated->text);
}

}  // namespace

std::string pack(const StoredAnswer& answer) {
  std::string head;
  put(head, answer.headers);
  return packed(head, answer.body);
}

std::expected<StoredAnswer, std::string> unpack(std::string_view bytes) {
  const std::optional<std::string> text = unpacked(bytes);
  if (!text) return std::unexpected("its bytes are no whole answer");
  Taker taker(*text);
  std::optional<classifier::Headers> headers = take_headers(taker);
  if (!headers) return std::unexpected("its head is cut");
  StoredAnswer answer;
  answer.headers = std::move(*headers);
  answer.body = taker.rest();
  return answer;
}

std::string pack(const KeptRequest& request) {
  std::string head;
  put(head, std::string_view{request.method});
  put(head, std::string_view{request.target});
  put(head, request.headers);
  return packed(head, request.body);
}

std::expected<KeptRequest, std::string> unpack_request(std::string_view bytes) {
  const std::optional<std::string> text = unpacked(bytes);
  if (!text) return std::unexpected("its bytes are no whole request");
  Taker taker(*text);
  const std::optional<std::string_view> method = taker.text();
  const std::optional<std::string_view> target = taker.text();
  std::optional<classifier::Headers> headers = take_headers(taker);
  if (!method || !target || !headers) return std::unexpected("its head is cut");
  KeptRequest request;
  request.method = *method;
  request.target = *target;
  request.headers = std::move(*headers);
  request.body = taker.rest();
  return request;
}

}  // namespace ledger
