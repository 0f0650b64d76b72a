#include "budget/estimator.h"

#include <algorithm>
#include <cmath>

namespace budget {
namespace {

constexpr std::size_t kModelsMax = 512;
constexpr double kTokensMax = 1e8;  // No call has taken more.

// What a ratio or a piece's tokens may be at all, and how far one sample may be from what is known.
constexpr double kBytesPerToken = 4.0;
constexpr double kBytesPerTokenMin = 0.5;
constexpr double kBytesPerTokenMax = 64.0;
constexpr double kTokensPerPiece = 1'000.0;
constexpr double kTokensPerPieceMin = 16.0;
constexpr double kTokensPerPieceMax = 1e6;
constexpr double kStepMax = 4.0;
// The first sample counts for seven tenths, and a later one for a twentieth or more.
constexpr double kPriorSamples = 0.4;
constexpr double kWeightMin = 0.05;
constexpr std::uint64_t kTextMin = 16;

constexpr double kOutput = 512.0;
constexpr double kShare = 0.9;
constexpr double kForget = 0.995;  // Some two hundred outputs are remembered.
constexpr std::size_t kStepsPerDoubling = 4;
constexpr int kYoung = 10;  // So many outputs make one of them less than the tenth that is left out.
constexpr double kYoungStepMax = 16.0;

double count_of(std::int64_t tokens) { return std::clamp(static_cast<double>(tokens), 0.0, kTokensMax); }

std::int64_t tokens_of(double count) {
  return static_cast<std::int64_t>(std::ceil(std::clamp(count, 0.0, kTokensMax) - 1e-6));
}

}  // namespace

// ---- A number that moves by factors ---------------------------------------------------------------------------

void Estimator::Factor::learn(double sample, double least, double most) {
  const double step = std::clamp(std::clamp(sample, least, most) / value, 1.0 / kStepMax, kStepMax);
  const double weight = std::max(kWeightMin, 1.0 / (kPriorSamples + samples + 1.0));
  value = std::clamp(value * std::pow(step, weight), least, most);
  samples = std::min(samples + 1, 1'000);
}

// ---- What outputs were like -----------------------------------------------------------------------------------

Estimator::Outputs::Outputs() : p90{kOutput} {
  // As if one of the usual size had been seen.
  counts[place_of(kOutput)] = 1.0F;
}

std::size_t Estimator::Outputs::place_of(double tokens) {
  if (tokens < 1.0) return 0;
  const auto place = static_cast<std::size_t>(std::log2(tokens) * static_cast<double>(kStepsPerDoubling)) + 1;
  return std::min(place, kOutputPlaces - 1);
}

void Estimator::Outputs::learn(double tokens) {
  if (samples < kYoung) {
    tokens = std::min(tokens, std::max(p90, 1.0) * kYoungStepMax);
    ++samples;
  }
  double all = 0.0;
  for (float& count : counts) {
    count *= static_cast<float>(kForget);
    all += static_cast<double>(count);
  }
  counts[place_of(tokens)] += 1.0F;
  all += 1.0;

  double below = 0.0;
  std::size_t place = 0;
  while (place + 1 < kOutputPlaces && below + static_cast<double>(counts[place]) < kShare * all) {
    below += static_cast<double>(counts[place++]);
  }
  if (place == 0) {
    p90 = 0.0;
    return;
  }
  // Between the place's ends as far as the tenth reaches into it.
  const double part = std::clamp((kShare * all - below) / static_cast<double>(counts[place]), 0.0, 1.0);
  p90 = std::exp2((static_cast<double>(place) - 1.0 + part) / static_cast<double>(kStepsPerDoubling));
}

// ---- By model -------------------------------------------------------------------------------------------------

Estimator::Model::Model() : bytes_per_token{kBytesPerToken, 0}, tokens_per_piece{kTokensPerPiece, 0} {}

Estimator::Estimator() : models_{kModelsMax} {}

Estimator::Model* Estimator::find(std::string_view upstream, std::string_view model) {
  key_.assign(upstream).append(1, '\n').append(model);
  return models_.find(key_);
}

Expected Estimator::expect(std::string_view upstream, std::string_view model, const Sizes& sizes) {
  static const Model kUnknown;
  const Model* const known = find(upstream, model);
  const Model& of = known != nullptr ? *known : kUnknown;
  const double text = static_cast<double>(sizes.text_bytes) / of.bytes_per_token.value;
  const double media = std::max(0, sizes.media) * of.tokens_per_piece.value;
  const double most = sizes.most_output ? count_of(*sizes.most_output) : kTokensMax;
  return {.input = tokens_of(text + media), .output = tokens_of(std::min(of.outputs.p90, most))};
}

void Estimator::learn(std::string_view upstream, std::string_view model, const Sizes& sizes, std::int64_t input,
                      std::int64_t output) {
  if (input < 0 || output < 0) return;
  Model* of = find(upstream, model);
  if (of == nullptr) of = &models_.get(key_, [] { return Model{}; });
  of->outputs.learn(count_of(output));
  // Nothing said of the input is no input of nothing.
  if (input == 0) return;
  const double text = static_cast<double>(sizes.text_bytes);
  if (sizes.media <= 0) {
    if (sizes.text_bytes >= kTextMin) {
      of->bytes_per_token.learn(text / count_of(input), kBytesPerTokenMin, kBytesPerTokenMax);
    }
    return;
  }
  const double of_media = count_of(input) - text / of->bytes_per_token.value;
  of->tokens_per_piece.learn(of_media / sizes.media, kTokensPerPieceMin, kTokensPerPieceMax);
}

}  // namespace budget
