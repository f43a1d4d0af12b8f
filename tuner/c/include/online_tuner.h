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
 * On a GPU, where the time of a launch is known later, record two events around it and hand them over instead:
 *
 *     int poll(void *launch, double *ms) {               // called in a later tuner_begin, until it does not return 0
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
 * First all configurations take turns, then the best ones, then the best is used. After that at most 0.2 % of the time goes
 * to other ones: to try all of them once more after the period, and when the times move. No call waits. A kernel belongs to
 * one thread at a time; each thread may have its own.
 *
 * Link with libtuner_c.a (cargo build -p tuner-c --release) and -lpthread -ldl -lm. */
#ifndef ONLINE_TUNER_H
#define ONLINE_TUNER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A parameter: `count` values, and the one to start with. */
typedef struct {
    const int64_t *values;
    size_t count;
    int64_t start;
} tuner_parameter;

typedef struct tuner_kernel tuner_kernel;

/* Returns not 0 if a configuration, a value for each parameter, can be launched. */
typedef int (*tuner_valid)(const int64_t *values);

/* Asks for the time of a launch, in ms: 0 not finished, 1 finished, -1 no time will come. */
typedef int (*tuner_poll)(void *event, double *ms);

/* A tuner of the combinations of the parameters' values that `valid` lets through (NULL: all). Everything is tried again
 * after a period in seconds; 0: never. NULL if there is no combination, more than 65536, or none with the starting values. */
tuner_kernel *tuner_new(const tuner_parameter *parameters, size_t count, tuner_valid valid, double again_after_s);

/* Before a launch: chooses its configuration. */
void tuner_begin(tuner_kernel *kernel);

/* The value of a parameter for this launch; 0 for a parameter that there is not. */
int64_t tuner_param(const tuner_kernel *kernel, size_t parameter);

/* Not 0 if the time of this launch is wanted; otherwise it need not be ended. */
int tuner_is_timed(const tuner_kernel *kernel);

/* After a launch that took so many ms. A time below 0 says that it failed: its configuration is not used again. */
void tuner_end(tuner_kernel *kernel, double ms);

/* After a launch whose time will be known later. `event` is polled until its end, or until tuner_free. */
void tuner_end_event(tuner_kernel *kernel, tuner_poll poll, void *event);

/* Not 0 once a configuration was chosen. */
int tuner_is_complete(const tuner_kernel *kernel);

/* Ends a tuner. NULL is nothing. */
void tuner_free(tuner_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
