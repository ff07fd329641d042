/* OFUL asking always: the straightforward program that the compiled engine is measured against.
   Same formulas, same features, same noise; Sherman-Morrison for the inverse, theta by a product each round. */
#include <math.h>
#include <stdint.h>

static double product(int64_t d, const double *x, const double *y) {
    double sum = 0.0;
    for (int64_t i = 0; i < d; i++) sum += x[i] * y[i];
    return sum;
}

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static const uint64_t GAMMA = 0x9E3779B97F4A7C15ULL;

/* The k-th standard normal number of a key: Marsaglia's polar method on SplitMix64. */
static double normal(uint64_t key, int64_t k) {
    uint64_t state = mix(key + (uint64_t)(k + 1) * GAMMA);
    for (;;) {
        double x = 2.0 * ((double)(mix(state + GAMMA) >> 11) / 9007199254740992.0) - 1.0;
        state += 2 * GAMMA;
        double y = 2.0 * ((double)(mix(state) >> 11) / 9007199254740992.0) - 1.0;
        double square = x * x + y * y;
        if (square > 0.0 && square < 1.0) return x * sqrt(-2.0 * log(square) / square);
    }
}

static double reach(int64_t d, double log_det, double noise, double delta) {
    double radius = noise * sqrt(log_det + 2.0 * log(1.0 / delta)) + 1.0;
    return radius > 1.0 ? radius : 1.0;
}

/* inverse += -(y y')/(1 + x'y), sum += x*reward, estimate = inverse*sum; y = inverse*x. Returns log(1 + x'y). */
static double learn(int64_t d, double *inverse, double *sum, double *estimate, const double *x, double *y, double reward) {
    for (int64_t i = 0; i < d; i++) y[i] = product(d, inverse + i * d, x);
    double square = product(d, x, y), factor = 1.0 / (1.0 + square);
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) inverse[i * d + j] -= factor * y[i] * y[j];
    for (int64_t i = 0; i < d; i++) sum[i] += x[i] * reward;
    for (int64_t i = 0; i < d; i++) estimate[i] = product(d, inverse + i * d, sum);
    return log1p(square);
}

/* features: rounds x arms x d; inverse starts as the identity, the other arrays as zero. */
void changing(int64_t rounds, int64_t arms, int64_t d, const double *features, const double *theta, uint64_t key,
              double noise, double delta, double *inverse, double *sum, double *estimate, double *y, int64_t *plays) {
    double log_det = 0.0;
    for (int64_t t = 0; t < rounds; t++) {
        const double *X = features + t * arms * d;
        double bonus = reach(d, log_det, noise, delta), top = -INFINITY;
        int64_t best = 0;
        for (int64_t a = 0; a < arms; a++) {
            const double *x = X + a * d;
            double square = 0.0;
            for (int64_t i = 0; i < d; i++) square += x[i] * product(d, inverse + i * d, x);
            double index = product(d, x, estimate) + bonus * sqrt(square > 0.0 ? square : 0.0);
            if (index > top) { top = index; best = a; }
        }
        const double *x = X + best * d;
        log_det += learn(d, inverse, sum, estimate, x, y, product(d, x, theta) + noise * normal(key, t));
        plays[best] += 1;
    }
}

/* One set of features (arms x d) for all rounds: means and squared widths are kept, and updated after each ask. */
void fixed(int64_t rounds, int64_t arms, int64_t d, const double *X, const double *theta, uint64_t key,
           double noise, double delta, double *inverse, double *sum, double *estimate, double *y, int64_t *plays,
           double *means, double *squares) {
    double log_det = 0.0;
    for (int64_t a = 0; a < arms; a++) squares[a] = product(d, X + a * d, X + a * d);
    for (int64_t t = 0; t < rounds; t++) {
        double bonus = reach(d, log_det, noise, delta), top = -INFINITY;
        int64_t best = 0;
        for (int64_t a = 0; a < arms; a++) {
            double index = means[a] + bonus * sqrt(squares[a] > 0.0 ? squares[a] : 0.0);
            if (index > top) { top = index; best = a; }
        }
        const double *x = X + best * d;
        double grown = learn(d, inverse, sum, estimate, x, y, product(d, x, theta) + noise * normal(key, t));
        double factor = 1.0 / exp(grown);
        log_det += grown;
        for (int64_t a = 0; a < arms; a++) {
            double overlap = product(d, X + a * d, y);
            squares[a] -= factor * overlap * overlap;
            means[a] = product(d, X + a * d, estimate);
        }
        plays[best] += 1;
    }
}
