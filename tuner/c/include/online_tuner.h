/* On-line tuning for C and C++: a kernel finds its launch parameters while it does real work.
 *
 *     const int64_t blocks[] = {64, 128, 256, 512};
 *     tuner_parameter parameters[] = {{blocks, 4, 128}};
 *     tuner_kernel *kernel = tuner_new(parameters, 1, NULL, 300.0);
 *     for (;;) {
 *         tuner_begin(kernel);
 *         launch(tuner_param(kernel, 0));
 *         tuner_end(kernel, milliseconds);
 *     }
 *
 * On a GPU the time of a launch is known later: record two events around it, and pass them instead:
 *
 *     int poll(void *launch, double *ms) {               // called by later tuner_begin, until it does not return 0
 *         struct pair *p = launch;
 *         float time;
 *         if (cudaEventQuery(p->end) == cudaErrorNotReady) return 0;
 *         if (cudaEventElapsedTime(&time, p->begin, p->end) != cudaSuccess) return -1;
 *         *ms = time;
 *         return 1;                                      // now the pair may be used again
 *     }
 *     ...
 *     if (tuner_is_timed(kernel)) tuner_end_event(kernel, poll, pair);
 *
 * First all configurations take turns, then the best ones, then the best is used. Later trials of the others, after
 * each period, take at most 0.2 % of the time; when the times move, all are tried again at once. No call waits. A kernel
 * belongs to one thread at a time; each thread may have its own.
 *
 * Link with libtuner_c.a (cargo build -p tuner-c --release) and -lpthread -ldl -lm. */
#ifndef ONLINE_TUNER_H
#define ONLINE_TUNER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameter with `count` values, and the value to start with. */
typedef struct {
    const int64_t *values;
    size_t count;
    int64_t start;
} tuner_parameter;

typedef struct tuner_kernel tuner_kernel;

/* Returns not 0 if a configuration, a value for each parameter, can be launched. */
typedef int (*tuner_valid)(const int64_t *values);

/* Writes the time of a launch in ms. Returns 0: not finished, 1: finished, -1: no time will come. */
typedef int (*tuner_poll)(void *event, double *ms);

/* Makes a tuner of the parameters' combinations that are `valid` (NULL: all). All are tried again after a period in
 * seconds; 0: never. Returns NULL if no combination is valid, the starting values are not, or there are more than
 * 65536. */
tuner_kernel *tuner_new(const tuner_parameter *parameters, size_t count, tuner_valid valid, double again_after_s);

/* Chooses the configuration of the next launch. Call before it. */
void tuner_begin(tuner_kernel *kernel);

/* Returns the value of a parameter for this launch; 0 for an unknown parameter. */
int64_t tuner_param(const tuner_kernel *kernel, size_t parameter);

/* Returns not 0 if the time of this launch is needed; otherwise it need not be ended. */
int tuner_is_timed(const tuner_kernel *kernel);

/* Ends a launch that took `ms`. A time below 0 means that it failed: its configuration is not used again. */
void tuner_end(tuner_kernel *kernel, double ms);

/* Ends a launch whose time will be known later. `event` is polled until it finishes, or until tuner_free. */
void tuner_end_event(tuner_kernel *kernel, tuner_poll poll, void *event);

/* Returns not 0 once the first tuning is complete. */
int tuner_is_complete(const tuner_kernel *kernel);

/* Frees a tuner, or nothing for NULL. */
void tuner_free(tuner_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
