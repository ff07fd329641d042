/* UCB1 on Bernoulli arms, asking always: the straightforward program that the compiled engine is measured against.
   Same formulas, same random numbers, one logarithm and one square root per arm in every round. */
#include <math.h>
#include <stdint.h>

static inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

/* plays and totals have room for `arms` numbers and start at zero; keys seed the answers of each arm. */
void ucb1(int64_t rounds, int64_t arms, const double *means, const uint64_t *keys, int64_t *plays, double *totals) {
    for (int64_t t = 1; t <= rounds; t++) {
        double level = sqrt(1.5 * log((double)(arms * t)));
        int64_t best = 0;
        double top = -1.0;
        for (int64_t a = 0; a < arms; a++) {
            double n = plays[a] > 0 ? (double)plays[a] : 1.0;
            double index = totals[a] / n + level * (1.0 / sqrt(n));
            if (index > top) {
                top = index;
                best = a;
            }
        }
        uint64_t bits = mix(keys[best] + (uint64_t)(plays[best] + 1) * 0x9E3779B97F4A7C15ULL);
        double unit = (double)(bits >> 11) * (1.0 / 9007199254740992.0);
        totals[best] += unit < means[best] ? 1.0 : 0.0;
        plays[best] += 1;
    }
}
