// Choices among all tokens by several models, or by one. Their log-probabilities, each multiplied by a weight, are added up. Of the sums of a
// row the best are taken, or one is drawn.
//
// Exponentials are added up as whole numbers. So a sum is the same in whatever order its parts come, a row depends on nothing but itself, and
// what is drawn does not hang on the last bit of a sum of floats. A block has a row.
#include "choices.cuh"
#include "rows.cuh"

namespace {

constexpr int BLOCK = 256;  // threads
constexpr int BITS = 3;     // of a digit: see descend
constexpr int DIGITS = 1 << BITS;
constexpr int MANY = 12;  // tokens that are found faster together, by their digits, than one after the other
static_assert(BLOCK / 32 == DIGITS, "each warp adds up one digit's masses");

typedef unsigned long long Mass;
constexpr Mass ONE = Mass(1) << 44;
constexpr float UNITS = ONE;  // the sum of 2^19 exponentials fits

// exp(x) for x <= 0, -∞ included.
__device__ __forceinline__ Mass mass(float x) { return static_cast<Mass>(__expf(x) * UNITS); }

// The logarithm of a sum that is not 0.
__device__ __forceinline__ float log_of(Mass sum) { return static_cast<float>(log(static_cast<double>(sum) / UNITS)); }

// Of what all threads have the sum, for all of them; parts has room for one of each warp.
template <class T> __device__ T block_sum(T x, T* parts) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();  // the parts of the sum are there
  T sum = 0;
  for (int w = 0; w < BLOCK / 32; w++) sum += parts[w];
  __syncthreads();  // all have read them, before they are overwritten
  return sum;
}

// The largest of what all threads have.
__device__ float block_max(float x, float* parts) {
  x = warp_max(x);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();  // the largest of all warps are there
  for (int w = 0; w < BLOCK / 32; w++) x = fmaxf(x, parts[w]);
  __syncthreads();  // all have read them, before they are overwritten
  return x;
}

// How a row chooses. If it draws a token, chance, between 0 and 1, says which; limit and kept belong to the methods. Noise is told by the key.
enum Method { BEST, FULL, NUCLEUS, EPSILON, FEW, NOISY, GIVEN };
struct Lot {
  double chance;
  unsigned long long key;
  float inverse_temperature, limit;
  int method, kept;
};

// The sums of a row, and what its threads tell each other.
struct Row {
  float* sums;
  int n;
  float highest;
  Mass (*masses)[BLOCK];  // by digit and thread
  Mass* of_digit;
  int* token;

  // The odds of a token, of which the exponents are multiplied with a factor: with 0, all that a row may have count the same.
  __device__ __forceinline__ Mass odds(float sum, float factor) const {
    return sum > -INFINITY ? mass(__fmul_rn(__fadd_rn(sum, -highest), factor)) : 0;
  }
};

// Numbers in the order of floats, of which 0 and -0 are one.
__device__ __forceinline__ unsigned key_of(float x) {
  int bits = __float_as_int(x + 0.f);
  return bits < 0 ? ~unsigned(bits) : unsigned(bits) | 0x80000000u;
}
__device__ __forceinline__ float of_key(unsigned key) { return __int_as_float(int(key & 0x80000000u ? key & 0x7fffffffu : ~key)); }

// Whether a token comes no later than the end, in the descending order of sums, and the ascending one of tokens among equals.
__device__ __forceinline__ bool until(Choice end, float sum, int token) { return sum > end.score || (sum == end.score && token <= end.token); }

// The token at which a sum over ascending tokens exceeds the target: each thread has some that lie side by side, whose sum is given, and
// number(token) is what a token adds to it. The sum of all must be larger.
template <class Number> __device__ int ascend(const Row& r, Mass own, Mass target, int first, int end, Number number) {
  r.masses[0][threadIdx.x] = own;
  __syncthreads();  // the sums of all threads are there
  Mass before = 0;
  for (unsigned i = 0; i < threadIdx.x; i++) before += r.masses[0][i];
  if (before <= target && target < before + own) {
    int token = first;
    for (; token < end - 1; token++) {
      before += number(token);
      if (before > target) break;
    }
    *r.token = token;
  }
  __syncthreads();  // the token is there for all
  return *r.token;
}

// The tokens of a thread that lie side by side.
__device__ __forceinline__ void side_by_side(const Row& r, int& first, int& end) {
  int each = (r.n + BLOCK - 1) / BLOCK;
  first = min(int(threadIdx.x) * each, r.n), end = min(first + each, r.n);
}

// Of the tokens up to `last`, in descending order, the one at which the sum of the odds exceeds the target. The sum of all must be larger.
// Digit by digit, the highest first, the key of its sum is found: of all tokens whose keys begin with the digits that are known, the odds are
// added up by the next digit. Among equals the number of the token tells.
__device__ Choice descend(const Row& r, float factor, Choice last, Mass target) {
  unsigned known = 0;
  for (int shift = 30; shift >= 0; shift -= BITS) {
    Mass own[DIGITS] = {};
    for (int i = threadIdx.x; i < r.n; i += BLOCK) {
      unsigned key = key_of(r.sums[i]);
      if ((key >> shift) / DIGITS != known || !until(last, r.sums[i], i)) continue;
      Mass odds = r.odds(r.sums[i], factor);
#pragma unroll
      for (int digit = 0; digit < DIGITS; digit++) own[digit] += (key >> shift) % DIGITS == unsigned(digit) ? odds : 0;
    }
#pragma unroll
    for (int digit = 0; digit < DIGITS; digit++) r.masses[digit][threadIdx.x] = own[digit];
    __syncthreads();  // the masses of all threads are there
    Mass sum = 0;
    for (int i = threadIdx.x % 32; i < BLOCK; i += 32) sum += r.masses[threadIdx.x / 32][i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) r.of_digit[threadIdx.x / 32] = sum;
    __syncthreads();  // those of all digits are there
    unsigned digit = DIGITS - 1;
    for (; digit > 0 && r.of_digit[digit] <= target; digit--) target -= r.of_digit[digit];
    known = known * DIGITS + digit;
  }
  float score = of_key(known);
  Mass odds = r.odds(score, factor), equal = 0;
  int first, end;
  side_by_side(r, first, end);
  auto number = [&](int token) { return r.sums[token] == score ? odds : Mass(0); };
  for (int i = first; i < end; i++) equal += number(i);
  return {score, ascend(r, equal, target, first, end, number)};
}

// A share of a sum, less than all of it.
__device__ __forceinline__ Mass share(double of, Mass sum) { return min(static_cast<Mass>(of * static_cast<double>(sum)), sum - 1); }

// The sum of the odds of all tokens up to `last`.
__device__ Mass sum_until(const Row& r, float factor, Choice last) {
  Mass own = 0;
  for (int i = threadIdx.x; i < r.n; i += BLOCK)
    if (until(last, r.sums[i], i)) own += r.odds(r.sums[i], factor);
  return block_sum(own, r.of_digit);
}

// The token that comes at place n of the best, or the last one if there are fewer.
__device__ Choice nth_best(const Row& r, int n) {
  Choice end = {-INFINITY, r.n};
  return descend(r, 0, end, min(n * ONE, sum_until(r, 0, end)) - 1);
}

// Draws from the best tokens, of which so many are kept.
__device__ Choice draw_few(const Row& r, const Lot& lot) {
  Choice last = nth_best(r, lot.kept);
  return descend(r, lot.inverse_temperature, last, share(lot.chance, sum_until(r, lot.inverse_temperature, last)));
}

// Draws from the fewest best tokens whose probabilities reach the limit together.
__device__ Choice draw_nucleus(const Row& r, const Lot& lot) {
  Choice last = {-INFINITY, r.n};
  Mass all = sum_until(r, 1, last);
  double least = ceil(static_cast<double>(lot.limit) * static_cast<double>(all));
  last = descend(r, 1, last, min(static_cast<Mass>(fmax(least, 1.)), all) - 1);
  return descend(r, lot.inverse_temperature, last, share(lot.chance, sum_until(r, lot.inverse_temperature, last)));
}

// Draws from all tokens, or from those whose probability is at least the limit.
__device__ Choice draw_all(const Row& r, const Lot& lot) {
  float least = -INFINITY;
  if (lot.method == EPSILON) {
    float all = __fadd_rn(r.highest, log_of(sum_until(r, 1, {-INFINITY, r.n})));
    least = fminf(r.highest, __fadd_rn(all, logf(lot.limit)));
  }
  auto number = [&](int token) { return r.sums[token] >= least ? r.odds(r.sums[token], lot.inverse_temperature) : Mass(0); };
  int first, end;
  side_by_side(r, first, end);
  Mass own = 0;
  for (int i = first; i < end; i++) own += number(i);
  Mass target = share(lot.chance, block_sum(own, r.of_digit));
  int token = ascend(r, own, target, first, end, number);
  return {r.sums[token], token};
}

__device__ __forceinline__ bool comes_before(Choice a, Choice b) { return a.score > b.score || (a.score == b.score && a.token < b.token); }

// The best token behind `last`, {-∞, -1} if there is none.
__device__ Choice next_best(const Row& r, Choice last, Choice* parts) {
  Choice next = {-INFINITY, -1};
  for (int i = threadIdx.x; i < r.n; i += BLOCK)
    if (r.sums[i] > next.score && comes_before(last, {r.sums[i], i})) next = {r.sums[i], i};
#pragma unroll
  for (int d = 16; d; d /= 2) {
    Choice other = {__shfl_xor_sync(~0u, next.score, d), __shfl_xor_sync(~0u, next.token, d)};
    if (comes_before(other, next)) next = other;
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = next;
  __syncthreads();  // the best of all warps are there
  for (int w = 0; w < BLOCK / 32; w++)
    if (comes_before(parts[w], next)) next = parts[w];
  __syncthreads();  // all have read them, before they are overwritten
  return next;
}

// Brings choices into order, the best first: a bitonic sort whose comparisons all look the same way, so that it takes any number of them. Any
// thread may have written them; before they are read, all must have come here.
__device__ void sort_best(Choice* choices, int count) {
  for (int size = 2; size / 2 < count; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();  // the choices are where the last comparisons have put them
      for (int i = threadIdx.x; i < count; i += BLOCK) {
        int other = distance == size / 2 ? i ^ (size - 1) : i ^ distance;
        if (other <= i || other >= count || !comes_before(choices[other], choices[i])) continue;
        Choice better = choices[other];
        choices[other] = choices[i], choices[i] = better;
      }
    }
}

// Finds many of the best tokens: those up to the last of them are gathered, in any order, and then sorted. It returns how many there are.
__device__ int take_many(const Row& r, int count, Choice* to) {
  Choice last = nth_best(r, count);
  int own = 0;
  for (int i = threadIdx.x; i < r.n; i += BLOCK) own += until(last, r.sums[i], i);
  r.masses[0][threadIdx.x] = own;
  __syncthreads();  // the numbers of all threads are there
  int at = 0, all = 0;
  for (int i = 0; i < BLOCK; i++) {
    if (i == int(threadIdx.x)) at = all;
    all += int(r.masses[0][i]);
  }
  for (int i = threadIdx.x; i < r.n; i += BLOCK)
    if (until(last, r.sums[i], i)) to[at++] = {r.sums[i], i};
  sort_best(to, all);
  return all;
}

// Finds the best tokens, best first, and returns how many there are: a few of them one after the other.
__device__ int take_best(const Row& r, int count, Choice* to, Choice* parts) {
  if (count > MANY) return take_many(r, count, to);
  Choice last = {INFINITY, -1};
  for (int c = 0; c < count; c++) {
    last = next_best(r, last, parts);
    if (last.token < 0) return c;
    if (threadIdx.x == 0) to[c] = last;
  }
  return count;
}

// Random bits, as translator/search makes them: the finaliser of SplitMix64.
__device__ __forceinline__ unsigned long long mix(unsigned long long z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// A variate of the standard Gumbel distribution for a token, as translator/search has it: -log(-log(u)), where u is a whole number of 53 bits
// and a half. What makes a variate large is how little is missing to 1, which a float holds where it does not hold u.
__device__ __forceinline__ float gumbel(unsigned long long key, int token) {
  constexpr Mass WHOLE = Mass(1) << 53;
  Mass bits = mix(key ^ mix(unsigned(token))) >> 11;
  float less = bits < WHOLE / 2 ? logf((static_cast<float>(bits) + 0.5f) / WHOLE) : log1pf(-(static_cast<float>(WHOLE - bits) - 0.5f) / WHOLE);
  return -logf(-less);
}

// Divides the sums by the temperature and adds noise. Each thread has those that it will read first.
__device__ void add_noise(const Row& r, const Lot& lot) {
  for (int i = threadIdx.x; i < r.n; i += BLOCK)
    if (r.sums[i] > -INFINITY) r.sums[i] = __fadd_rn(__fmul_rn(r.sums[i], lot.inverse_temperature), gumbel(lot.key, i));
}

}  // namespace

// scores: of each model rows of n. normalisers: for each row one of each model, the logarithm of the sum of the exponentials of its scores over
// the row's candidates; NaN if one of those is not finite. sums: for each row n, the log-probabilities of all models, each multiplied by the
// model's weight, added up in their order; -∞ for what is no candidate, or forbidden. Candidates and forbidden tokens are those of
// output.cuh. The grid has a block for each row.
extern "C" __global__ void __launch_bounds__(BLOCK, 4)
    KERNEL_NAME(join_models)(const float* scores, const float* weights, const unsigned* candidates, const int* set_of_row,
                             const int* forbidden_starts, const int* forbidden, float* normalisers, float* sums, int models, int rows, int n,
                             int words) {
  SHARED(masses, Mass[BLOCK / 32]);
  SHARED(tops, float[BLOCK / 32]);
  int row = blockIdx.x;
  const unsigned* set = candidates && set_of_row[row] >= 0 ? candidates + size_t(set_of_row[row]) * words : nullptr;
  auto candidate = [&](int token) { return !set || (set[token / 32] >> token % 32 & 1); };
  sums += size_t(row) * n;
  for (int m = 0; m < models; m++) {
    const float* of = scores + (size_t(m) * rows + row) * n;
    float top = -INFINITY;
    Mass broken = 0, sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
      if (!candidate(i)) continue;
      top = fmaxf(top, of[i]);
      if (!(fabsf(of[i]) < INFINITY)) broken = 1;
    }
    top = block_max(top, tops), broken = block_sum(broken, masses);
    for (int i = threadIdx.x; i < n && !broken; i += BLOCK)
      if (candidate(i)) sum += mass(of[i] - top);
    sum = block_sum(sum, masses);
    float normaliser = broken ? NOT_A_NUMBER : __fadd_rn(top, log_of(sum));
    if (threadIdx.x == 0) normalisers[size_t(row) * models + m] = normaliser;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
      float weighted = __fmul_rn(weights[m], __fadd_rn(of[i], -normaliser));
      sums[i] = !candidate(i) ? -INFINITY : m > 0 ? __fadd_rn(sums[i], weighted) : weighted;
    }
  }
  for (int i = forbidden_starts[row]; i < forbidden_starts[row + 1]; i++)
    if (forbidden[i] % BLOCK == int(threadIdx.x)) sums[forbidden[i]] = -INFINITY;  // who has written the sum
}
KERNEL(join_models);

// result: for each row `count` choices by sums that join_models gave, the best first, or one that lots[row] has drawn, and {-∞, -1} where
// there are no more. A row of which a normaliser is NaN, or the largest sum infinite, has NaNs. Of a noisy row the best are those of the sums
// with noise; their scores have the noise, too, and are normalised. What is given is there already: log-probabilities by the first model, which
// are multiplied by its weight. parts: for each choice its log-probability by each model; 0 for none.
extern "C" __global__ void __launch_bounds__(BLOCK, 4)
    KERNEL_NAME(choose_joined)(const float* scores, const float* weights, const float* normalisers, float* sums, const Lot* lots, Choice* result,
                               float* parts, int models, int rows, int n, int count) {
  SHARED(masses, Mass[DIGITS][BLOCK]);
  SHARED(of_digit, Mass[DIGITS]);
  SHARED(tops, float[BLOCK / 32]);
  SHARED(best, Choice[BLOCK / 32]);
  SHARED(token, int);
  int row = blockIdx.x, found = 0;
  Lot lot = lots[row];
  result += size_t(row) * count, parts += size_t(row) * count * models;
  if (lot.method == GIVEN) {
    for (int c = threadIdx.x; c < count; c += BLOCK) {
      Choice choice = result[c];
      result[c].score = __fmul_rn(weights[0], choice.score);
      for (int m = 0; m < models; m++) parts[c * models + m] = choice.token < 0 ? 0.f : choice.score;
    }
    return;
  }
  Row r = {sums + size_t(row) * n, n, -INFINITY, masses, of_digit, &token};
  bool broken = false;
  for (int m = 0; m < models; m++) broken = broken || normalisers[size_t(row) * models + m] != normalisers[size_t(row) * models + m];
  if (lot.method == NOISY && !broken) add_noise(r, lot);
  for (int i = threadIdx.x; i < n && !broken; i += BLOCK) r.highest = fmaxf(r.highest, r.sums[i]);
  r.highest = block_max(r.highest, tops);
  broken = broken || r.highest == INFINITY;  // odds would be no numbers
  bool none = broken || r.highest == -INFINITY;
  float less = 0;
  if (lot.method == NOISY && !none) less = __fadd_rn(r.highest, log_of(sum_until(r, 1, {-INFINITY, n})));
  if ((lot.method == BEST || lot.method == NOISY) && !none) {
    found = take_best(r, count, result, best);
  } else if (!none) {
    Choice drawn = lot.method == NUCLEUS ? draw_nucleus(r, lot) : lot.method == FEW ? draw_few(r, lot) : draw_all(r, lot);
    if (threadIdx.x == 0) result[0] = drawn;
    found = 1;
  }
  __syncthreads();  // what is chosen is there
  for (int c = threadIdx.x; c < count; c += BLOCK) {
    Choice choice = {-INFINITY, -1};
    if (c < found) choice = result[c];
    result[c] = {broken ? NOT_A_NUMBER : __fadd_rn(choice.score, -less), choice.token};
    for (int m = 0; m < models; m++)
      parts[c * models + m] = choice.token < 0 ? 0.f
          : __fadd_rn(scores[(size_t(m) * rows + row) * n + choice.token], -normalisers[size_t(row) * models + m]);
  }
}
KERNEL(choose_joined);
