/* Blocked matrix multiplication: TILE and UNROLL are fixed when it is compiled. Prints its time; `mm check` compares the
   result with the plain loop. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifndef N
#define N 192
#endif

#define PRAGMA(text) _Pragma(#text)
#define UNROLLED(n) PRAGMA(GCC unroll n)

static float a[N][N], b[N][N], c[N][N], plain[N][N];

static void multiply(void)
{
    for (int ii = 0; ii < N; ii += TILE)
        for (int kk = 0; kk < N; kk += TILE)
            for (int jj = 0; jj < N; jj += TILE)
                for (int i = ii; i < ii + TILE && i < N; i++)
                    for (int k = kk; k < kk + TILE && k < N; k++) {
                        const float x = a[i][k];
                        UNROLLED(UNROLL)
                        for (int j = jj; j < jj + TILE && j < N; j++)
                            c[i][j] += x * b[k][j];
                    }
}

int main(int argc, char **argv)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (float)((i * 7 + j * 3) % 11) - 5;
            b[i][j] = (float)((i * 5 + j * 13) % 7) - 3;
        }
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    multiply();
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (argc > 1) {
        (void)argv;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                for (int k = 0; k < N; k++)
                    plain[i][j] += a[i][k] * b[k][j];
                if (fabsf(plain[i][j] - c[i][j]) > 1e-3f)
                    return 1;
            }
        return 0;
    }
    printf("%.6f ms\n", (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) * 1e-6);
    return 0;
}
