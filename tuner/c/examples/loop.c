/* A loop that tunes itself: a matrix is transposed tile by tile, and the tile is chosen while it is done. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "online_tuner.h"

#define N 1024

static float in[N * N], out[N * N];

static void transpose(int rows, int columns)
{
    for (int i = 0; i < N; i += rows)
        for (int j = 0; j < N; j += columns)
            for (int k = i; k < i + rows; k++)
                for (int l = j; l < j + columns; l++) out[l * N + k] = in[k * N + l];
}

static int valid(const int64_t *tile) { return tile[0] * tile[1] <= 4096; }

/* Here every launch has ended when it is asked for; its time is what `event` points to. */
static int poll(void *event, double *ms)
{
    *ms = *(double *)event;
    return 1;
}

int main(void)
{
    const int64_t sizes[] = {1, 4, 16, 64, 256};
    const tuner_parameter parameters[] = {{sizes, 5, 1}, {sizes, 5, 1}};
    tuner_kernel *kernel = tuner_new(parameters, 2, valid, NULL);
    static double times[100000];
    int launches = 0;

    if (!kernel) {
        fprintf(stderr, "%s\n", tuner_error());
        return EXIT_FAILURE;
    }
    for (; launches < 100000 && !tuner_is_complete(kernel); launches++) {
        tuner_begin(kernel);
        clock_t begin = clock();
        transpose((int)tuner_param(kernel, 0), (int)tuner_param(kernel, 1));
        times[launches] = 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (launches % 2)
            tuner_end(kernel, times[launches]);
        else if (tuner_is_timed(kernel))
            tuner_end_event(kernel, poll, &times[launches]);
    }
    tuner_begin(kernel);
    printf("%d launches; rows=%d columns=%d\n", launches, (int)tuner_param(kernel, 0), (int)tuner_param(kernel, 1));
    tuner_free(kernel);
    return EXIT_SUCCESS;
}
