#include "tests/support/fake_provider_records.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace fake_provider {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kRecordsMax = 100'000;
constexpr std::size_t kBodyKept = 64 * 1024;
constexpr std::size_t kKeptMax = 256 * 1024 * 1024;  // Bodies of all records together.

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

Json json_of(const Record& record) {
  const auto& request = record.request;
  Json json = {{"id", record.id},
               {"at_ms", record.at_ms},
               {"connection", request.connection},
               {"tls", request.tls},
               {"http", request.version},
               {"method", request.method},
               {"target", request.target},
               {"headers", request.headers},
               {"body_complete", record.body_complete},
               {"body_bytes", record.body_complete ? record.body_bytes : request.body.size()},
               {"sha256", record.sha256},
               {"rule", record.rule < 0 ? Json(nullptr) : Json(record.rule)},
               {"status", record.status},
               {"ended", nullptr}};
  const auto inlined = std::string_view{request.body}.substr(0, kBodyKept);
  if (is_utf8(inlined)) {
    json["body"] = inlined;
  } else {
    json["body_b64"] = base64(inlined);
  }
  if (!request.malformed.empty()) json["malformed"] = request.malformed;
  if (record.ended) {
    const auto by = name_of(record.ended->by);
    json["ended"] = {{"answered_bytes", record.ended->answered_bytes},
                     {"closed_by", by.empty() ? Json(nullptr) : Json(by)},
                     {"at_ms", record.ended->at_ms}};
  }
  return json;
}

}  // namespace

std::string sha256_of(std::string_view bytes) {
  static const EVP_MD* const kind = EVP_sha256();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, kind, nullptr);
  return hex({reinterpret_cast<const char*>(digest.data()), size});
}

double Records::now_ms() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return std::round(std::chrono::duration<double, std::micro>(passed).count()) / 1000.0;
}

std::shared_ptr<Record> Records::open(Request request) {
  auto record = std::make_shared<Record>();
  record->request = std::move(request);
  record->id = ++stats_.requests;
  record->generation = generation_;
  ++stats_.open_requests;
  if (!quiet_) {
    record->at_ms = now_ms();
    seen_.push_back(record);
    if (seen_.size() > kRecordsMax) seen_.pop_front();
  }
  changed();
  return record;
}

void Records::body_complete(Record& record) {
  auto& body = record.request.body;
  record.body_complete = true;
  record.body_bytes = body.size();
  if (!quiet_) record.sha256 = sha256_of(body);
}

void Records::ended(Record& record, EndedBy by, std::uint64_t answered_bytes) {
  record.ended = Record::Ended{by, answered_bytes, quiet_ ? 0.0 : now_ms()};
  --stats_.open_requests;
  if (record.generation == generation_) ++stats_.ended;
  changed();
}

void Records::forget_body(Record& record) {
  auto& body = record.request.body;
  if (body.size() > kBodyKept) body = body.substr(0, kBodyKept);
  if (kept_bytes_ + body.size() > kKeptMax) body = {};
  if (record.generation == generation_) kept_bytes_ += body.size();
}

void Records::clear() {
  seen_.clear();
  kept_bytes_ = 0;
  ++generation_;
  const auto open = stats_.open_requests;
  stats_ = {};
  stats_.open_requests = open;
  for (auto& [name, gate] : std::exchange(gates_, {})) {
    for (auto& [who, go_on] : gate.waiting) go_on();
  }
  changed();
}

std::string Records::seen_json(std::uint64_t since) const {
  Json list = Json::array();
  for (const auto& record : seen_) {
    if (record->id > since) list.push_back(json_of(*record));
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Records::wait_at(const std::string& name, std::uint64_t who, std::function<void()> go_on) {
  auto& gate = gates_[name];
  if (gate.open || gate.permits > 0) {
    if (!gate.open) --gate.permits;
    go_on();
    return;
  }
  gate.waiting.emplace_back(who, std::move(go_on));
  ++stats_.held;
  changed();
}

void Records::leave(const std::string& name, std::uint64_t who) {
  const auto gate = gates_.find(name);
  if (gate == gates_.end()) return;
  stats_.held -= std::erase_if(gate->second.waiting, [&](const auto& waiting) { return waiting.first == who; });
}

void Records::release(const std::string& name, std::optional<std::uint64_t> permits) {
  auto& gate = gates_[name];
  if (permits) {
    gate.permits += *permits;
  } else {
    gate.open = true;
  }
  std::deque<std::pair<std::uint64_t, std::function<void()>>> freed;
  while (!gate.waiting.empty() && (gate.open || gate.permits > 0)) {
    if (!gate.open) --gate.permits;
    freed.push_back(std::move(gate.waiting.front()));
    gate.waiting.pop_front();
    --stats_.held;
  }
  for (auto& [who, go_on] : freed) go_on();
  changed();
}

}  // namespace fake_provider
