/* On-line tuning for C and C++: a kernel finds its launch parameters while it does real work.
 *
 *     const int64_t blocks[] = {64, 128, 256, 512};
 *     tuner_parameter parameters[] = {{blocks, 4, 128}};
 *     tuner_kernel *kernel = tuner_new(parameters, 1, NULL, NULL);
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
 * First all configurations take turns, each five times, launch after launch; then the best ones go on until the best is
 * clear; then it is used. After a period all are sampled again, one sample of each replaced; when the times move, all are
 * tried anew at once. In between one launch in four is timed. No call waits. A kernel belongs to one thread at a time;
 * each thread may have its own.
 *
 * A function with an error returns -1 (tuner_new: NULL, tuner_param: TUNER_NO_VALUE), and tuner_error() says which. NULL
 * for a kernel, parameters, values, poll or counters is an error. A tuner all of whose configurations failed is never
 * complete; tuner_begin and tuner_is_complete then return -1.
 *
 * tuner/c/install.sh installs it: link with -lonline_tuner, or with libonline_tuner.a and -lpthread -ldl -lm. */
#ifndef ONLINE_TUNER_H
#define ONLINE_TUNER_H

#include <stddef.h>
#include <stdint.h>

/* Version of this interface. The shared library's name ends in it: programs compiled with a header of this version run
 * with every library of it. */
#define TUNER_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the library's version of the interface, to be compared with TUNER_ABI_VERSION. */
uint32_t tuner_abi_version(void);

/* Returns version and commit, as "0.1.0, commit 0123456789ab". Do not free it. */
const char *tuner_version(void);

/* Parameter with `count` values, and the value to start with. */
typedef struct {
    const int64_t *values;
    size_t count;
    int64_t start;
} tuner_parameter;

/* Statistic of the samples of a configuration. */
typedef enum { TUNER_MEDIAN = 0, TUNER_MEAN = 1, TUNER_MAXIMUM = 2 } tuner_statistic;

/* Settings. Zeros are the defaults. */
typedef struct {
    size_t samples;            /* samples of each configuration; 0: 5 */
    tuner_statistic statistic; /* their median, mean or maximum counts */
    double again_after_s;      /* seconds after which all are sampled again; 0: five minutes, later if a scan would cost
                                  more than 0.2 % of the launches since the last; below 0: never */
} tuner_options;

typedef struct {
    uint64_t launches;       /* launches so far */
    uint64_t explored;       /* launches with a configuration that was not in use */
    uint64_t explored_after; /* of these, launches after the first tuning */
    uint64_t first_tuning;   /* launch that completed the first tuning; 0 before */
    uint64_t scans;          /* scans started */
    uint64_t drifts;         /* scans started because the times moved */
    uint64_t changes;        /* later scans that changed the configuration in use */
} tuner_counters;

/* Value of a parameter that does not exist. */
#define TUNER_NO_VALUE INT64_MIN

typedef struct tuner_kernel tuner_kernel;

/* Returns not 0 if a configuration, a value for each parameter, can be launched. */
typedef int (*tuner_valid)(const int64_t *values);

/* Writes the time of a launch in ms. Returns 0: not finished, 1: finished, -1: no time will come. */
typedef int (*tuner_poll)(void *event, double *ms);

/* Makes a tuner of the parameters' combinations that are `valid` (NULL: all); a configuration that the kernel cannot run
 * must not be. NULL for the options means defaults. An error if no combination is valid, the starting values are not, or
 * there are more than 65536. */
tuner_kernel *tuner_new(const tuner_parameter *parameters, size_t count, tuner_valid valid, const tuner_options *options);

/* Chooses the configuration of the next launch. Call before it. Returns 0, or -1. */
int tuner_begin(tuner_kernel *kernel);

/* Returns the value of a parameter for this launch. */
int64_t tuner_param(const tuner_kernel *kernel, size_t parameter);

/* Returns 1 if the time of this launch is needed; otherwise (0) it need not be ended. */
int tuner_is_timed(const tuner_kernel *kernel);

/* Ends a launch that took `ms`. A time below 0 means that it failed: its configuration is not used again. */
int tuner_end(tuner_kernel *kernel, double ms);

/* Ends a launch whose time will be known later. `event` is polled until it finishes, or until tuner_free. */
int tuner_end_event(tuner_kernel *kernel, tuner_poll poll, void *event);

/* Returns 1 once the first tuning is complete, 0 before. */
int tuner_is_complete(const tuner_kernel *kernel);

/* Samples all configurations again, as after a period. Does nothing during a scan. */
int tuner_scan_again(tuner_kernel *kernel);

/* Writes the counters. */
int tuner_read_counters(const tuner_kernel *kernel, tuner_counters *counters);

/* Returns the last error on this thread, in words; empty if there was none. Valid until the next error. */
const char *tuner_error(void);

/* Frees a tuner, or nothing for NULL. */
void tuner_free(tuner_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
