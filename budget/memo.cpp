#include "budget/memo.h"

#include <cstring>
#include <utility>

namespace budget {
namespace {

// What an entry costs beside its texts: nodes, pointers, buckets. A guess on the high side.
constexpr std::size_t kEntryBytes = 512;
constexpr std::size_t kHeaderBytes = 2 * sizeof(std::string);
constexpr std::size_t kMostAnswered = 1'000;

std::string source_of(std::string_view upstream, std::string_view model) {
  std::string source;
  source.reserve(upstream.size() + 1 + model.size());
  source.append(upstream).push_back('\0');
  return source.append(model);
}

std::size_t bytes_of(const RememberedFailure& failure) {
  std::size_t bytes = kEntryBytes + failure.body.size() + 2 * (failure.upstream.size() + failure.model.size());
  for (const classifier::Header& header : failure.headers) {
    bytes += kHeaderBytes + header.name.size() + header.value.size();
  }
  return bytes;
}

}  // namespace

// A digest is as good as random everywhere.
std::size_t Memo::KeyHash::operator()(const MemoKey& key) const {
  std::size_t hash = 0;
  std::memcpy(&hash, key.data(), sizeof hash);
  return hash;
}

Memo::Memo(const MemoPolicy& policy) : policy_{policy}, answered_{kMostAnswered} {}

bool Memo::empty(TimePoint now) {
  forget_old(now);
  return entries_.empty();
}

const RememberedFailure* Memo::find(const MemoKey& key, TimePoint now) {
  if (empty(now)) return nullptr;
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &found->second->failure;
}

bool Memo::remember(const MemoKey& key, RememberedFailure failure, TimePoint now) {
  forget_old(now);
  if (const auto known = by_key_.find(key); known != by_key_.end()) forget(known->second);

  const std::size_t bytes = bytes_of(failure);
  if (policy_.ttl <= Milliseconds::zero() || policy_.max_count == 0 || bytes > policy_.max_bytes / 16) return false;
  const std::string source = source_of(failure.upstream, failure.model);
  if (const TimePoint* last = answered_.find(source); last && *last >= failure.first_began) return false;
  while (entries_.size() >= policy_.max_count || bytes_ + bytes > policy_.max_bytes) forget(entries_.begin());

  Leavings& leavings = by_source_[source];
  const auto entry = entries_.insert(
      entries_.end(),
      Entry{
          .key = key, .failure = std::move(failure), .at = now, .bytes = bytes, .leavings = &leavings, .place = {}});
  entry->place = leavings.insert(leavings.end(), entry);
  by_key_.emplace(key, entry);
  bytes_ += bytes;
  return true;
}

void Memo::success(std::string_view upstream, std::string_view model, TimePoint now) {
  const std::string source = source_of(upstream, model);
  answered_.get(source, [] { return TimePoint{}; }) = now;
  const auto found = by_source_.find(source);
  if (found == by_source_.end()) return;
  // The last one takes the list of its source with it.
  for (std::size_t left = found->second.size(); left > 0; --left) forget(found->second.front());
}

void Memo::update(const MemoPolicy& policy, TimePoint now) {
  policy_ = policy;
  forget_old(now);
  while (entries_.size() > policy_.max_count || bytes_ > policy_.max_bytes) forget(entries_.begin());
}

void Memo::forget(Entries::iterator entry) {
  entry->leavings->erase(entry->place);
  if (entry->leavings->empty()) by_source_.erase(source_of(entry->failure.upstream, entry->failure.model));
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

void Memo::forget_old(TimePoint now) {
  while (!entries_.empty() && now - entries_.front().at >= policy_.ttl) forget(entries_.begin());
}

}  // namespace budget
