/* UCBVI asking always: the straightforward program that the compiled engine is measured against.
   Same formulas, same random numbers, hence the same plays (but for rounding at near ties).

   A model has a row for each cell: (h*S + s)*A + a for what is learned, s*A + a for the truth, which is the same at
   every step. A row has `room` places for successors: in a dense model place s is state s, in a sparse one the first
   `many` places are in use and `next` names their states. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

static const uint64_t GAMMA = 0x9E3779B97F4A7C15ULL;

INLINE uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

/* The k-th 64 random bits of a key: SplitMix64. */
INLINE uint64_t bits_at(uint64_t key, int64_t k) { return mix(key + (uint64_t)(k + 1) * GAMMA); }

typedef struct {
    int64_t room;
    double *weight; /* rows x room: counts, or probabilities */
    int32_t *next;  /* rows x room, if sparse */
    int32_t *many;  /* rows, if sparse */
} Rows;

typedef struct { /* what is known of a cell: Q = mean + root*sqrt(L) + linear*L + share * sum of weight*V */
    double mean, root, linear, share, squares;
    int64_t visits;
} Cell;

/* Four sums at a time: without -ffast-math a single one could not be vectorized. */
INLINE double product(int64_t d, const double *x, const double *y) {
    double a = 0.0, b = 0.0, c = 0.0, e = 0.0;
    int64_t i = 0;
    for (; i + 4 <= d; i += 4) {
        a += x[i] * y[i];
        b += x[i + 1] * y[i + 1];
        c += x[i + 2] * y[i + 2];
        e += x[i + 3] * y[i + 3];
    }
    for (; i < d; i++) a += x[i] * y[i];
    return (a + b) + (c + e);
}

INLINE double expected(int sparse, Rows rows, int64_t row, const double *V) {
    const double *weight = rows.weight + row * rows.room;
    if (!sparse) return product(rows.room, weight, V);
    const int32_t *next = rows.next + row * rows.room;
    double sum = 0.0;
    for (int32_t i = 0; i < rows.many[row]; i++) sum += weight[i] * V[next[i]];
    return sum;
}

/* Plan by backward induction in the states that were seen; the last step with a new action, -1 if none. */
INLINE int64_t plan(int sparse, int64_t H, int64_t S, int64_t A, Rows rows, const Cell *cells, const uint8_t *seen,
                    double log_term, double *V, int32_t *policy) {
    double root = sqrt(log_term);
    int64_t changed = -1;
    for (int64_t h = H - 1; h >= 0; h--) {
        const double *ahead = V + (h + 1) * S;
        for (int64_t s = 0; s < S; s++) {
            int64_t place = h * S + s;
            if (!seen[place]) continue;
            double top = -INFINITY;
            int32_t best = 0;
            for (int64_t a = 0; a < A; a++) {
                const Cell *c = &cells[place * A + a];
                double Q = (c->mean + (c->root * root + c->linear * log_term));
                if (h < H - 1) Q += c->share * expected(sparse, rows, place * A + a, ahead);
                if (Q > top) { top = Q; best = (int32_t)a; }
            }
            if (policy[place] != best) {
                policy[place] = best;
                if (changed < 0) changed = h;
            }
            V[place] = top < (double)(H - h) ? top : (double)(H - h);
        }
    }
    return changed;
}

/* The value of the policy in truth, from step `top` down. */
INLINE void evaluate(int sparse, int64_t top, int64_t S, int64_t A, Rows truth, const double *means,
                     const int32_t *policy, double *worth) {
    for (int64_t h = top; h >= 0; h--)
        for (int64_t s = 0; s < S; s++) {
            int64_t row = s * A + policy[h * S + s];
            worth[h * S + s] = means[row] + expected(sparse, truth, row, worth + (h + 1) * S);
        }
}

/* The next state: the first rung of the row's ladder above u. */
INLINE int64_t draw(int sparse, Rows truth, const double *ladder, int64_t row, double u) {
    const double *rungs = ladder + row * truth.room;
    int64_t low = 0, high = (sparse ? truth.many[row] : truth.room) - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (rungs[middle] > u) high = middle; else low = middle + 1;
    }
    return sparse ? truth.next[row * truth.room + low] : low;
}

/* One more transition to the state `after`. */
INLINE void count(int sparse, Rows rows, int64_t row, int64_t after) {
    double *weight = rows.weight + row * rows.room;
    if (!sparse) {
        weight[after] += 1.0;
        return;
    }
    int32_t *next = rows.next + row * rows.room, i = 0;
    while (i < rows.many[row] && next[i] != after) i++;
    if (i == rows.many[row]) next[rows.many[row]++] = (int32_t)after;
    weight[i] += 1.0;
}

/* One more visit of a cell, with its answer. */
INLINE void learn(Cell *c, double H, double reward, double scale) {
    double n = (double)++c->visits, away = reward - c->mean;
    c->mean += away / n;
    c->squares += away * (reward - c->mean);
    double variance = n >= 2.0 ? c->squares / (n - 1.0) : 0.0;
    c->root = scale * sqrt(2.0 * variance / n) + scale * (H * sqrt(2.0 / n));
    c->linear = scale * (5.0 / n) + scale * (5.0 * H / n);
    c->share = 1.0 / n;
}

INLINE double run(int sparse, int64_t episodes, int64_t H, int64_t S, int64_t A, Rows truth, const double *ladder,
                  const double *means, uint64_t key, uint64_t reward_key, int64_t start, double best, double delta,
                  double scale, int64_t *plays) {
    int64_t cell_count = H * S * A;
    Rows rows = {truth.room, calloc(cell_count * truth.room, sizeof(double)), NULL, NULL};
    if (sparse) {
        rows.next = calloc(cell_count * truth.room, sizeof(int32_t));
        rows.many = calloc(cell_count, sizeof(int32_t));
    }
    Cell *cells = calloc(cell_count, sizeof(Cell));
    uint8_t *seen = calloc(H * S, 1);
    double *V = calloc((H + 1) * S, sizeof(double)), *worth = calloc((H + 1) * S, sizeof(double));
    int32_t *policy = calloc(H * S, sizeof(int32_t));
    double constant = 12.0 * (double)(S * S * A * H) / delta, regret = 0.0;
    for (int64_t i = 0; i < cell_count; i++) {  /* a cell without visits counts as one with a single visit */
        cells[i].root = scale * ((double)H * sqrt(2.0));
        cells[i].linear = scale * 5.0 + scale * (5.0 * (double)H);
        cells[i].share = 1.0;
    }
    evaluate(sparse, H - 1, S, A, truth, means, policy, worth);
    for (int64_t t = 1; t <= episodes; t++) {
        double time = (double)t;
        double log_term = log(constant * time * time * (time + 1.0));
        int64_t changed = plan(sparse, H, S, A, rows, cells, seen, log_term, V, policy);
        if (changed >= 0) evaluate(sparse, changed, S, A, truth, means, policy, worth);
        regret += best - worth[start];
        int64_t s = start;
        for (int64_t h = 0; h < H; h++) {
            int64_t place = h * S + s, cell = place * A + policy[place], row = cell % (S * A), k = plays[cell]++;
            double u = (double)(bits_at(bits_at(key, cell), k) >> 11) / 9007199254740992.0;
            double coin = (double)(bits_at(bits_at(reward_key, cell), k) >> 11) / 9007199254740992.0;
            seen[place] = 1;
            s = draw(sparse, truth, ladder, row, u);
            if (h < H - 1) count(sparse, rows, cell, s);
            learn(&cells[cell], (double)H, coin < means[row] ? 1.0 : 0.0, scale);
        }
    }
    free(rows.weight); free(rows.next); free(rows.many); free(cells); free(seen); free(V); free(worth); free(policy);
    return regret;
}

/* One weight for each state; probabilities and ladder: S*A x S; plays start as zero: H*S*A. */
void dense(int64_t episodes, int64_t H, int64_t S, int64_t A, double *probabilities, double *ladder, double *means,
           uint64_t key, uint64_t reward_key, int64_t start, double best, double delta, double scale, int64_t *plays,
           double *regret) {
    Rows truth = {S, probabilities, NULL, NULL};
    *regret = run(0, episodes, H, S, A, truth, ladder, means, key, reward_key, start, best, delta, scale, plays);
}

/* Short lists of successors; probabilities, ladder and next: S*A x room; many: S*A. */
void sparse(int64_t episodes, int64_t H, int64_t S, int64_t A, int64_t room, double *probabilities, double *ladder,
            int32_t *next, int32_t *many, double *means, uint64_t key, uint64_t reward_key, int64_t start, double best,
            double delta, double scale, int64_t *plays, double *regret) {
    Rows truth = {room, probabilities, next, many};
    *regret = run(1, episodes, H, S, A, truth, ladder, means, key, reward_key, start, best, delta, scale, plays);
}
